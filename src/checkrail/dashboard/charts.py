"""Small charts as SVG: where each bar stands, worked out on the server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

WIDTH, HEIGHT = 240.0, 36.0


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar."""

    x: float
    y: float
    width: float
    height: float


def bars(values: Sequence[float]) -> list[Bar]:
    """Return the bars of a series, the highest of which fills the chart."""
    most = max(values, default=0.0)
    if not values or most <= 0:
        return []
    step = WIDTH / len(values)
    found = []
    for number, value in enumerate(values):
        if value > 0:
            height = max(2.0, HEIGHT * value / most)
            found.append(
                Bar(
                    round(number * step, 2),
                    round(HEIGHT - height, 2),
                    round(max(step - 1, 1), 2),
                    round(height, 2),
                )
            )
    return found
