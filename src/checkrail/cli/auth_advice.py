"""Advice on an Auth object: whether its handlers keep users apart."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from checkrail.cli.extras import is_installed

if TYPE_CHECKING:
    from checkrail.config import Loaded

_READ = ("read", "search")


def auth_advice(loaded: Loaded) -> Iterator[tuple[str, str]]:
    """Yield handlers that let all users see all threads, and what gives each their own."""
    said = loaded.server.auth
    if said is None or not said.path or said.isolate or not is_installed("langgraph_sdk"):
        return
    from langgraph_sdk import Auth

    from checkrail.config.problems import ConfigError
    from checkrail.server.auth.handlers import authorization_handler

    try:
        auth = loaded.load_object(said.path, "auth.path", Auth)
    except ConfigError as error:
        yield from ((str(problem), "the server will not start so") for problem in error.problems)
        return
    asked = (authorization_handler(auth, "threads", action) for action in _READ)
    handlers = {id(each): each for each in asked if each is not None and never_filters(each)}
    for handler in handlers.values():
        name = getattr(handler, "__name__", type(handler).__name__)
        yield (
            f"{name!r} in {said.path} returns no filter: users may read each other's threads",
            "return one, as in {'owner': ctx.user.identity}, or say auth: {isolate: owner}",
        )


def never_filters(handler: Callable[..., Any]) -> bool:
    """Whether a handler's code can be seen to answer yes and no alone."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(handler))))
    except (OSError, TypeError, SyntaxError):
        return False
    if not tree.body or not isinstance(tree.body[0], (ast.FunctionDef, ast.AsyncFunctionDef)):
        return False
    values = (node.value for node in _statements(tree.body[0]) if isinstance(node, ast.Return))
    return all(value is None or isinstance(value, ast.Constant) for value in values)


def _statements(function: ast.AST) -> Iterator[ast.AST]:
    """Yield what a function consists of, without the functions inside it."""
    for child in ast.iter_child_nodes(function):
        if not isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            yield child
            yield from _statements(child)
