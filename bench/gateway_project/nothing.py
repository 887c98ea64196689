"""Hooks that do nothing, so that what is left is what calling them costs."""


async def allow(event):
    return None


async def watch(event, message):
    return None
