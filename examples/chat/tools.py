"""The tools of the support desk."""

from checkrail import tool

ORDERS = {"A-17": "sent on Monday, to ann@example.com"}


@tool
def lookup(order: str) -> str:
    """Look up an order by its number, such as A-17."""
    return ORDERS.get(order, "there is no such order")


@tool
def refund(order: str, amount: float) -> str:
    """Give a customer money back."""
    return f"{amount:g} refunded for {order}"
