"""What of a graph the seam cannot reach, as far as that can be seen from outside."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any

from langchain_core.language_models import BaseChatModel, BaseLLM
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool

RAW = frozenset(
    [
        *("anthropic", "boto3", "botocore", "cohere", "google.genai", "groq", "huggingface_hub"),
        *("litellm", "mistralai", "ollama", "openai", "replicate", "together"),
    ],
)
"""Packages that ask a model themselves."""

OWNERS = ("langchain", "langgraph", "pydantic")
"""Packages of whose functions only what they were given is of interest."""

PUBLIC = ("invoke", "ainvoke", "generate", "agenerate", "stream", "astream")
LEADS = (
    *("bound", "runnable", "func", "afunc", "coroutine", "builder", "steps", "nodes", "mapper"),
    *("tools_by_name", "fallbacks", "branches", "default"),
)
"""Attributes by which runnables hold what they run."""


def out_of_reach(graph: Any) -> list[str]:
    """Return what a compiled graph calls, or may call, that no hook of a run would see."""
    nodes = getattr(graph, "nodes", None)
    if not isinstance(nodes, Mapping):
        return [*_find_problems("the graph", graph, set())]
    seen: set[int] = set()
    return [
        said
        for name, node in nodes.items()
        for said in _find_problems(f"node {name!r}", node, seen)
    ]


def _find_problems(where: str, thing: Any, seen: set[int]) -> Iterator[str]:
    if id(thing) in seen or thing is None or isinstance(thing, (str, int, float, bytes)):
        return
    seen.add(id(thing))
    if (problem := _describe_problem(thing)) is not None:
        yield f"{where}: {problem}"
        return
    for inner in _iter_inner(thing):
        yield from _find_problems(where, inner, seen)


def _describe_problem(thing: Any) -> str | None:
    cls = type(thing)
    if cls.__name__ == "RemoteGraph":
        return "a RemoteGraph runs on another server: hooks for it have to stand there"
    if isinstance(thing, BaseLLM):
        return f"{cls.__name__} completes text and is no chat model: hooks hold in chat models only"
    if isinstance(thing, (BaseChatModel, BaseTool)):
        return _override_problem(thing)
    if (package := _raw_package(thing)) is not None:
        return f"it uses {package} itself: hooks see only models that LangChain calls"
    return None


def _override_problem(thing: Any) -> str | None:
    for cls in type(thing).__mro__:
        own = [name for name in PUBLIC if name in cls.__dict__]
        if own and not _is_owned(cls.__module__):
            reached = "_generate" if isinstance(thing, BaseChatModel) else "run"
            what = f"{cls.__name__} has its own {', '.join(own)}"
            return f"{what}: hooks hold only where that leads to {reached}"
    return None


def _raw_package(thing: Any) -> str | None:
    module = thing.__name__ if isinstance(thing, ModuleType) else type(thing).__module__
    names = {".".join(module.split(".")[:depth]) for depth in (1, 2)}
    return next(iter(names & RAW), None)


def _is_owned(module: str) -> bool:
    root = module.partition(".")[0]
    ours = root == "checkrail"  # a project's file may be called checkrail_file_…
    return ours or root.startswith(OWNERS) or root in sys.stdlib_module_names


def _iter_inner(thing: Any) -> Iterator[Any]:
    if isinstance(thing, Mapping):
        yield from thing.values()
    elif isinstance(thing, (list, tuple, set, frozenset)):
        yield from thing
    elif inspect.isfunction(thing):
        yield from _used_by(thing)
    elif inspect.ismethod(thing):
        yield thing.__func__
        yield thing.__self__
    elif _is_container(thing):
        yield from (getattr(thing, name, None) for name in LEADS)


def _is_container(thing: Any) -> bool:
    """Return whether a thing is one of LangChain's that run others."""
    return isinstance(thing, Runnable) or type(thing).__module__.startswith("langgraph")


def _used_by(function: Any) -> Iterator[Any]:
    """Yield what a function refers to; of a library's functions only what it closes over."""
    try:
        names = inspect.getclosurevars(inspect.unwrap(function))
    except (TypeError, ValueError):
        return
    yield from names.nonlocals.values()
    if not _is_owned(function.__module__ or ""):
        yield from names.globals.values()
