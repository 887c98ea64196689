"""What a blueprint from elsewhere may say: nothing that runs code here, or sends secrets away.

A file is its author's, who may run anything on this machine. A request is not: it names models,
other agents and places on the web, and hooks that the files define.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from checkrail.actions.errors import ActionError
from checkrail.actions.outbound_errors import OutboundRefused
from checkrail.builtin import BUILTINS
from checkrail.builtin.schema_cost import CostlySchemaError, check_schema
from checkrail.config.agent_keys import AUTONOMOUS, kind_of_agent
from checkrail.config.agent_models import is_import, leads_elsewhere, local_address
from checkrail.config.agent_tools import OTHER_AGENT
from checkrail.config.problems import Report, Where
from checkrail.config.schema import COMMON
from checkrail.engine.matchers import FIELDS
from checkrail.regex import PatternError, read_pattern

HOOK_TYPES = ("agent", "http", "rule", "approval", "builtin")
MODEL_KEYS = ("provider", "model", "params", "replies", "timeout", "max_retries")
PARAMS = (
    "frequency_penalty",
    "logit_bias",
    "max_completion_tokens",
    "max_output_tokens",
    "max_tokens",
    "parallel_tool_calls",
    "presence_penalty",
    "reasoning",
    "reasoning_effort",
    "seed",
    "service_tier",
    "stop",
    "stop_sequences",
    "temperature",
    "text",
    "thinking",
    "tool_choice",
    "top_k",
    "top_p",
    "verbosity",
)
"""What a model may be told: how to answer, and not where it is or who asks."""

MOST_PARTS = 20_000
MOST_CHARACTERS = 500_000
MOST_HOOKS = 40
"""How large a blueprint may be, and how many hooks it may have."""

MOST_STEPS = 20_000
"""How many steps the patterns may have together that names are matched with."""

_GLOB_STEPS = 8  # characters of a glob that take as long as one step of a regular expression
_CODE = {
    **dict.fromkeys(("path", "module", "function"), "Python code"),
    **dict.fromkeys(("command", "cwd", "env"), "a program"),
}
_SECRET_HEADERS = re.compile(
    r".*(?:authorization|cookie|api-?key|token|secret|password).*", re.IGNORECASE
)
_VARIABLE = re.compile(r"\$(?P<escape>\$\{)|\$\{[^}]*\}")
_IN_FILES = "it belongs into a file of the server, or say agents_api.allow_code there"
_BESIDE_REF = frozenset(COMMON) - {"config"}


class Trust:
    """Looks through blueprints and hooks; what they may not say is reported.

    `outbound` says where requests may go.
    """

    def __init__(self, report: Report, outbound: Any) -> None:
        self.report = report
        self._outbound = outbound
        self._steps = 0

    def agent(self, given: Mapping[str, Any]) -> None:
        """Look through the blueprint of an agent."""
        if not self._fits(given):
            return
        self._texts(given, ())
        for key in ("parameters_schema", "output_schema"):
            self._schema(given.get(key), (key,))
        kind = kind_of_agent(given)
        if kind != AUTONOMOUS:
            self._refuse(("type",), f"an agent of type {kind}", f"type: {AUTONOMOUS}")
        self._keys(given, ())
        self._model(given.get("model"), ("model",))
        for number, tool in enumerate(_items(given.get("tools"))):
            self._tool(tool, ("tools", number))
        for name, server in _members(given.get("mcp")):
            self._server(server, ("mcp", name))
        for point, hooks in _members(given.get("hooks")):
            self._hooks(point, hooks, ("hooks", point))
        for name, hook in _members(given.get("definitions")):
            self.hook(hook, ("definitions", name))

    def hook(self, given: Any, where: Where) -> None:
        """Look through a hook."""
        if not isinstance(given, Mapping) or not self._fits(given):
            return  # what is no hook is wrong in any case, and said so
        self._texts(given, where)
        self._keys(given, where)
        if given.get("type", "rule") not in HOOK_TYPES:
            found = f"a hook of type {given['type']}"
            self._refuse((*where, "type"), found, f"one of: {', '.join(HOOK_TYPES)}")
        if "secret" in given:
            self._refuse((*where, "secret"), "a secret", "a named hook of a file that has it")
        for name in given["headers"] if isinstance(given.get("headers"), Mapping) else ():
            if _SECRET_HEADERS.fullmatch(name):
                at = (*where, "headers", name)
                self._refuse(at, f"the header {name!r}", "a named hook of a file that has it")
        self._files(given, where)
        self._patterns(given, where)
        self._place(given.get("url"), (*where, "url"))
        if "$ref" in given:
            self._referring(given, where)

    def _fits(self, given: Mapping[str, Any]) -> bool:
        """See that it is not too large to be read and built."""
        parts = characters = 0
        waiting: list[Any] = [given]
        while waiting:
            item = waiting.pop()
            parts += 1
            if isinstance(item, Mapping):
                waiting += [*item.keys(), *item.values()]
            elif isinstance(item, list):
                waiting += item
            elif isinstance(item, str):
                characters += len(item)
        hooks = sum(
            len(each) if isinstance(each, list) else 1 for _, each in _members(given.get("hooks"))
        )
        limits = ((parts, MOST_PARTS), (characters, MOST_CHARACTERS), (hooks, MOST_HOOKS))
        for (found, most), what in zip(limits, ("parts", "characters", "hooks"), strict=True):
            if found > most:
                self._refuse((), f"{found} {what}", f"at most {most}")
                return False
        return True

    def _schema(self, given: Any, where: Where) -> None:
        try:
            check_schema(given)
        except CostlySchemaError as error:
            self._refuse(where, f"a schema that may take too long ({error})", "a simpler one")

    def _patterns(self, given: Mapping[str, Any], where: Where) -> None:
        """See that all patterns together do not take long for a name."""
        before = self._steps
        config = dict(_members(given.get("config")))
        self._steps += sum(_steps_of(given[key]) for key in FIELDS if key in given)
        self._steps += sum(_steps_of(item) for item in config.values())
        if before <= MOST_STEPS < self._steps:
            self._refuse(where, "more patterns for names than can be matched", "fewer or shorter")

    def _files(self, given: Mapping[str, Any], where: Where) -> None:
        """See that no file of this machine is read, which the model might then tell."""
        builtin = BUILTINS.get(str(given.get("builtin")))
        config = dict(_members(given.get("config")))
        self._schema(config.get("schema"), (*where, "config", "schema"))
        for name, schema in _members(config.get("schemas")):
            self._schema(schema, (*where, "config", "schemas", name))
        for name in builtin.files if builtin else ():
            if name in config:
                self._refuse((*where, "config", name), "a file of the server", "the text itself")

    def _referring(self, given: Mapping[str, Any], where: Where) -> None:
        """See that a hook that is defined elsewhere does what it does there.

        Another `url` beside it would be sent what the definition sends along.
        """
        for key in given.keys() - _BESIDE_REF:
            found = f"`{key}` beside `$ref`, which would change what the named hook does"
            self.report.add((*where, key), found, "the named hook as it is")

    def _hooks(self, point: str, given: Any, where: Where) -> None:
        if point == "path":
            self._refuse(where, "Python code", "hooks by their points")
            return
        if not isinstance(given, list):
            self.hook(given, where)
            return
        for number, hook in enumerate(given):
            self.hook(hook, (*where, number))

    def _keys(self, given: Mapping[str, Any], where: Where) -> None:
        for key, what in _CODE.items():
            if key in given:
                self._refuse((*where, key), what, "none")

    def _model(self, given: Any, where: Where) -> None:
        if isinstance(given, str) and is_import(given):
            self._refuse(where, "Python code", "provider/name")
        if isinstance(given, str):
            self._model_name(*_provider_and_name(given), where)
        if not isinstance(given, Mapping):
            return
        name, provider = str(given.get("model", "")), given.get("provider")
        whose, rest = _provider_and_name(name) if provider is None else (str(provider), name)
        self._model_name(whose, rest, (*where, "model"))
        for key in given.keys() - set(MODEL_KEYS):
            self._refuse((*where, key), f"`{key}` of a model", f"one of: {', '.join(MODEL_KEYS)}")
        for key, _ in _members(given.get("params")):
            if key not in PARAMS:
                at = (*where, "params", key)
                self._refuse(at, f"`{key}` among `params`", f"one of: {', '.join(PARAMS)}")

    def _model_name(self, provider: str, name: str, where: Where) -> None:
        if leads_elsewhere(provider, name):
            found = f"the model {name[:60]!r}, whose name may lead elsewhere"
            self._refuse(where, found, "provider/name, without an address")
        self._place(local_address(provider, name), where)

    def _tool(self, given: Any, where: Where) -> None:
        if isinstance(given, str) and not given.startswith(OTHER_AGENT):
            self._refuse(where, f"the tool {given[:60]!r}", "agent:name")

    def _server(self, given: Any, where: Where) -> None:
        if not isinstance(given, Mapping):
            return
        self._keys(given, where)
        if "headers" in given:
            self._refuse((*where, "headers"), "headers, which may be secret", "none")
        self._place(given.get("url"), (*where, "url"), listed=True)

    def _place(self, url: Any, where: Where, *, listed: bool = False) -> None:
        """See that a place may be called; what we do not call ourselves has to be `listed`."""
        if not isinstance(url, str):
            return
        try:
            self._outbound.check(url)
        except (OutboundRefused, ActionError) as error:
            self.report.add(where, str(error), "a place that outbound.allow lists")
        else:
            if listed and not self._outbound.lists(url):
                found = "a server that the config does not list"
                self.report.add(where, found, "a host of outbound.allow")

    def _texts(self, given: Any, where: Where) -> None:
        """See that no variable of the server's environment is asked for."""
        if isinstance(given, str):
            if any(not use["escape"] for use in _VARIABLE.finditer(given)):
                self._refuse(where, "a variable", "the text itself, or $${ for ${")
        elif isinstance(given, Mapping):
            for key, item in given.items():
                self._texts(item, (*where, key))
        elif isinstance(given, list):
            for number, item in enumerate(given):
                self._texts(item, (*where, number))

    def _refuse(self, where: Where, found: str, expected: str) -> None:
        self.report.add(where, f"{found}, which a request may not bring", expected, _IN_FILES)


def _steps_of(given: Any) -> int:
    """Return how many steps the patterns of a field have; what cannot be read is refused later."""
    if isinstance(given, list):
        return sum(map(_steps_of, given))
    if isinstance(given, Mapping):
        return sum(map(_steps_of, given))
    if not isinstance(given, str):
        return 0
    try:
        pattern = read_pattern(given)
    except PatternError:
        return 0
    return 1 + len(pattern) // _GLOB_STEPS if isinstance(pattern, str) else pattern.size


def _provider_and_name(given: str) -> tuple[str, str]:
    provider, _, name = given.strip().partition("/")
    return provider, name


def _items(given: Any) -> Iterable[Any]:
    return given if isinstance(given, list) else ()


def _members(given: Any) -> Iterable[tuple[str, Any]]:
    return given.items() if isinstance(given, Mapping) else ()
