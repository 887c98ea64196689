"""Long histories: an agent sends its whole conversation again with every turn."""

import asyncio
import json
import random
import statistics
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

from gateway_clients import HEAD, KEY, read_answer
from gateway_processes import gateway, upstream
from server_processes import Served, folder

SIZES = {"10 kB": 10_000, "105 kB": 105_000, "1 MB": 1_000_000, "5 MB": 5_000_000}
FILES = {"none": "none.yaml", "policy": "policy.yaml", "redact": "redact.yaml"}
MESSAGES = 200
TURNS = 9
WARM_UP = 2
STREAMS = 200
GATEWAYS = 3


@dataclass(frozen=True)
class Growth:
    """What a resend came to with some hooks, in milliseconds of CPU of the gateway.

    `first` is the request that brings the whole history for the first time; a `ratio` is beside
    the same resend without hooks, the median of those within each round.
    """

    size: str
    hooks: str
    first: float
    resend: float
    ratio: float


@dataclass(frozen=True)
class Crowd:
    """What others notice of large requests, and what many of them take at once.

    `beside` is the CPU in milliseconds that the gateway used between the request and the answer of
    somebody small while conversations of 5 MB came in for the first time: the most of all, the
    median of several gateways, for a client that the machine wakes late counts what the gateway
    does meanwhile. `alone` is the same while nothing else was there, the median.
    """

    alone: float
    beside: float
    streams: int
    memory_mb: float


@dataclass(frozen=True)
class HistoryResults:
    growth: list[Growth]
    crowd: Crowd


def measure_histories() -> HistoryResults:
    """Send conversations again and again, each time with one turn more; then many at once."""
    with ExitStack() as stack:
        within = stack.enter_context(folder())
        model = stack.enter_context(upstream())
        served = {
            name: stack.enter_context(gateway(within, file, model)) for name, file in FILES.items()
        }
        growth = asyncio.run(_measure(served))
    with ExitStack() as stack:
        model = stack.enter_context(upstream())
        waits: list[tuple[float, float]] = []
        for _ in range(GATEWAYS):
            fresh = stack.enter_context(
                gateway(stack.enter_context(folder()), FILES["redact"], model)
            )
            waits.append(asyncio.run(_measure_waits(fresh)))
        alone, beside = (statistics.median(each) for each in zip(*waits, strict=True))
        memory = asyncio.run(_hold_streams(fresh))
        return HistoryResults(growth, Crowd(alone, beside, STREAMS, memory))


async def _measure_waits(served: Served) -> tuple[float, float]:
    """Return the CPU of a small request alone, and the most beside large ones."""
    small = next(_conversations(10_000, 10))
    alone = [await _cost(served, small) for _ in range(20)]
    large = [next(_conversations(5_000_000, seed)) for seed in range(3)]
    busy = [asyncio.create_task(_cost(served, body)) for body in large]
    beside: list[float] = []
    while not all(task.done() for task in busy):
        beside.append(await _cost(served, small))
    await asyncio.gather(*busy)
    return statistics.median(alone), max(beside)


async def _hold_streams(served: Served) -> float:
    """Return the memory of a gateway while many large requests have their streams."""
    held = [await _open_stream(served, seed) for seed in range(STREAMS)]
    memory = served.rss_mb
    for writer in held:
        writer.close()
    return memory


async def _open_stream(served: Served, seed: int) -> asyncio.StreamWriter:
    """Send a request of 1 MB whose stream stays, and wait for its first event."""
    body = next(_conversations(1_000_000, seed, user="stays", stream=True))
    reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
    writer.write(HEAD.format(KEY, len(body)).encode() + body)
    await reader.readuntil(b"data: ")
    return writer


async def _measure(served: dict[str, Served]) -> list[Growth]:
    found: list[Growth] = []
    for size, characters in SIZES.items():
        costs: dict[str, list[float]] = {name: [] for name in served}
        for body in _conversations(characters):
            for name, each in served.items():
                costs[name].append(await _cost(each, body))
        bare = costs["none"][WARM_UP:]
        for name, spent in costs.items():
            later = spent[WARM_UP:]
            ratios = [mine / other for mine, other in zip(later, bare, strict=True)]
            found.append(
                Growth(size, name, spent[0], statistics.median(later), statistics.median(ratios))
            )
    return found


async def _cost(served: Served, body: bytes) -> float:
    reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
    before = served.cpu_seconds
    writer.write(HEAD.format(KEY, len(body)).encode() + body)
    await read_answer(reader)
    spent = served.cpu_seconds - before
    writer.close()
    await writer.wait_closed()
    return spent * 1000


def _conversations(characters: int, seed: int = 0, **more: object) -> Iterator[bytes]:
    """Yield the requests of one conversation: each has a call and a result more than the last."""
    chance = random.Random(f"{characters} {seed}")  # noqa: S311 - the same texts each time
    share = characters // MESSAGES
    messages = [{"role": "system", "content": "Mend what is broken."}]
    while len(messages) < MESSAGES - 2 * TURNS:
        messages += _turn(chance, share, len(messages))
    for _ in range(WARM_UP + TURNS):
        messages += _turn(chance, share, len(messages))
        asked = {"model": "model-1", "messages": messages, **more}
        yield json.dumps(asked, separators=(",", ":")).encode()


def _turn(chance: random.Random, share: int, number: int) -> list[dict]:
    """Make a call of a tool and its result; one in ten results has a secret in it."""
    arguments = json.dumps({"path": f"src/{_word(chance)}.py", "why": _code(chance, share // 4)})
    call = {"name": "read_file", "arguments": arguments}
    calls = [{"id": f"call_{number}", "type": "function", "function": call}]
    text = _code(chance, share * 7 // 4 - 200)
    if number % 20 == 1:
        text += f"\nOPENAI_API_KEY=sk-{chance.randbytes(20).hex()}\n"
    return [
        {"role": "assistant", "content": "", "tool_calls": calls},
        {"role": "tool", "tool_call_id": f"call_{number}", "content": text},
    ]


def _code(chance: random.Random, characters: int) -> str:
    lines: list[str] = []
    size = 0
    while size < characters:
        a, b, c = (_word(chance) for _ in range(3))
        lines.append(f"    {a}.{b} = {c}({a}, token={b}, limit={chance.randrange(9999)})")
        size += len(lines[-1]) + 1
    return "\n".join(lines)[: max(characters, 0)]


def _word(chance: random.Random) -> str:
    return "_".join(chance.choices(_WORDS, k=chance.randrange(1, 3)))


_WORDS = (
    *("account", "answer", "batch", "bucket", "buffer", "cache", "client", "column", "config"),
    *("count", "cursor", "delta", "entry", "error", "event", "field", "filter", "format", "group"),
    *("handler", "header", "index", "item", "label", "level", "limit", "line", "list", "loop"),
)


if __name__ == "__main__":
    results = measure_histories()
    for each in (*results.growth, results.crowd):
        print(each)
