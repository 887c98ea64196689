"""Hooks of our own, in the proxy style: each is given a context, changes it, and returns it."""

from checkrail.styles import HookContext


async def add_style(ctx: HookContext) -> HookContext:
    style = ctx.metadata["hook_config"]["style"]
    ctx.messages.insert(0, {"role": "system", "content": style})
    return ctx


def first_sentence(ctx: HookContext) -> HookContext:
    first, dot, _ = ctx.response["content"].partition(". ")
    ctx.response["content"] = first + dot.strip()
    return ctx
