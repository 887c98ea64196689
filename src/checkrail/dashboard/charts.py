"""Small charts as SVG: where each bar stands, worked out on the server."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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


def count_buckets(
    times: Iterable[float], began: float, ended: float, buckets: int = 60
) -> list[int]:
    """Return how many times fall in each part of a span."""
    found = [0] * buckets
    length = max(ended - began, 1e-9)
    for moment in times:
        if began <= moment <= ended:
            found[min(buckets - 1, int(buckets * (moment - began) / length))] += 1
    return found


def percentile(values: Sequence[float], share: float) -> float | None:
    """Return the value below which a share of the values lies."""
    if not values:
        return None
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
