"""Agents, tools and hooks for the browser tests; no key and no network is needed."""

import asyncio
import os
import re
from dataclasses import replace
from pathlib import Path

from checkrail import Continue, ToolCall
from checkrail.testing import ScriptedModel


def refund(given):
    return {"refunded": given.get("amount"), "note": given.get("note")}


def fail(given):
    raise ValueError(f"the ledger does not know {given.get('order')}")


async def slow(given):
    """Work until a file is there: a test decides when."""
    gate = Path(os.environ["CHECKRAIL_DATA_DIR"]) / f"go-{given['gate']}"
    while not gate.exists():  # noqa: ASYNC110 - the file is another process's
        await asyncio.sleep(0.02)
    return {"done": True}


def answer(request):
    last = request.messages[-1]
    text = str(last.get("content", ""))
    if last["role"] == "tool":
        return f"Done: {text}"
    if found := re.search(r"transfer ([\d.]+)", text, re.IGNORECASE):
        return ToolCall("tc_1", "transfer", {"amount": float(found[1])})
    if found := re.search(r"[A-Z]-\d+", text):
        return ToolCall("tc_1", "lookup", {"order": found[0]})
    return "I promise a refund." if "promise" in text else f"You said: {text}"


model = ScriptedModel(answer)


def answer_late(request):
    """Call a tool four hundred times before there is an answer."""
    turns = sum(message["role"] == "tool" for message in request.messages)
    return ToolCall(f"tc_{turns}", "lookup", {"order": f"A-{turns}"}) if turns < 400 else "Done"


patient_model = ScriptedModel(answer_late)


def lookup(order: str) -> str:
    """Look up an order."""
    return f"{order} is on its way"


def transfer(amount: float, currency: str = "?") -> str:
    """Move money."""
    return f"moved {amount} {currency}"


def euros(event, call):
    return Continue(replace(call, args={**call.args, "currency": "EUR"}))


def rounding(event, call):
    return Continue(replace(call, args={**call.args, "amount": round(call.args["amount"])}))


def normalise(event, parameters):
    note = parameters.get("note")
    return Continue({**parameters, "note": note.strip()}) if note else None


def audit(event):
    return None
