"""pluggy: calling a hookspec with N plugins. Its hooks are plain functions."""

from collections.abc import Mapping

import pluggy

from measure import Run, print_peer

hookspec = pluggy.HookspecMarker("bench")
hookimpl = pluggy.HookimplMarker("bench")


class Spec:
    @hookspec
    def before_tool_call(self, call: object) -> object: ...


class Plugin:
    @hookimpl
    def before_tool_call(self, call: object) -> object:
        return None


def build(count: int) -> Mapping[str, Run]:
    manager = pluggy.PluginManager("bench")
    manager.add_hookspecs(Spec)
    for _ in range(count):
        manager.register(Plugin())
    value = object()

    async def run(times: int) -> None:
        for _ in range(times):
            manager.hook.before_tool_call(call=value)

    return {"pluggy, sync": run}


if __name__ == "__main__":
    print_peer("pluggy", build)
