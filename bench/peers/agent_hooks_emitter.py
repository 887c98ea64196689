"""agent-hooks-sdk: an emitter with N interceptors, emitting `pre_tool_call`.

Building the context is part of a dispatch: each has a sequence number and a time of
its own. The emitter is as it comes (a timeout of 5 s, one record per emission with
the context's hash in it), except that it keeps one record instead of all of them.
"""

from collections.abc import Mapping

from agent_hooks import (
    ALLOW,
    AgentContext,
    AgentContextBuilder,
    InterceptionEmitter,
    Verdict,
)

from measure import Run, print_peer


class Allow:
    async def intercept(self, context: AgentContext, /) -> Verdict:
        return ALLOW


def build(count: int) -> Mapping[str, Run]:
    builder = AgentContextBuilder(agent_id="a1", framework="bench", session_id="s1")
    emitter = InterceptionEmitter().set_max_records(1)
    for _ in range(count):
        emitter.register(Allow())

    async def run(times: int) -> None:
        for _ in range(times):
            context = builder.pre_tool_call(call_id="c1", name="lookup", args={})
            await emitter.emit(context)

    return {"agent-hooks-sdk emitter": run}


if __name__ == "__main__":
    print_peer("agent-hooks-sdk", build)
