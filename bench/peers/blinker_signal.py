"""blinker: `send_async` to N receivers."""

from collections.abc import Mapping

from blinker import Signal

from measure import Run, make_hooks, print_peer


def build(count: int) -> Mapping[str, Run]:
    signal = Signal()
    for receiver in make_hooks(count):
        signal.connect(receiver, weak=False)
    value = object()

    async def run(times: int) -> None:
        for _ in range(times):
            await signal.send_async(value)

    return {"blinker, send_async": run}


if __name__ == "__main__":
    print_peer("blinker", build)
