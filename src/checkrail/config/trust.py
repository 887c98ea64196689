"""What a blueprint from elsewhere may say: nothing that runs code here, or sends secrets away.

A file is its author's, who may run anything on this machine. A request is not: it names models,
other agents and places on the web, and hooks that the files define.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from checkrail.actions.errors import ActionError, OutboundRefused
from checkrail.builtin import BUILTINS
from checkrail.builtin.schema_cost import CostlySchemaError, check_schema
from checkrail.config.agent_keys import AUTONOMOUS, find_agent_kind
from checkrail.config.agent_models import can_redirect, is_import, local_address
from checkrail.config.agent_tools import OTHER_AGENT
from checkrail.config.environment import has_variable
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
_SECRET_HEADERS = re.compile(r"authorization|cookie|api-?key|token|secret|password", re.IGNORECASE)
_IN_FILES = "it belongs into a file of the server, or say agents_api.allow_code there"
_BESIDE_REF = frozenset(COMMON) - {"config"}


class TrustCheck:
    """Checks blueprints and hooks; what they may not contain is reported.

    `outbound` says where requests may go.
    """

    def __init__(self, report: Report, outbound: Any) -> None:
        self.report = report
        self._outbound = outbound
        self._steps = 0

    def check_agent(self, given: Mapping[str, Any]) -> None:
        """Check the blueprint of an agent."""
        if not self._check_size(given):
            return
        self._check_texts(given, ())
        for key in ("parameters_schema", "output_schema"):
            self._check_schema(given.get(key), (key,))
        kind = find_agent_kind(given)
        if kind != AUTONOMOUS:
            self._report_refused(("type",), f"an agent of type {kind}", f"type: {AUTONOMOUS}")
        self._check_keys(given, ())
        self._check_model(given.get("model"), ("model",))
        for number, tool in enumerate(_list_items(given.get("tools"))):
            self._check_tool(tool, ("tools", number))
        for name, server in _mapping_items(given.get("mcp")):
            self._check_server(server, ("mcp", name))
        for point, hooks in _mapping_items(given.get("hooks")):
            self._check_hooks(point, hooks, ("hooks", point))
        for name, hook in _mapping_items(given.get("definitions")):
            self.check_hook(hook, ("definitions", name))

    def check_hook(self, given: Any, where: Where) -> None:
        """Check a hook."""
        if not isinstance(given, Mapping) or not self._check_size(given):
            return  # what is no hook is wrong in any case, and said so
        self._check_texts(given, where)
        self._check_keys(given, where)
        if given.get("type", "rule") not in HOOK_TYPES:
            found = f"a hook of type {given['type']}"
            self._report_refused((*where, "type"), found, f"one of: {', '.join(HOOK_TYPES)}")
        if "secret" in given:
            self._report_refused(
                (*where, "secret"), "a secret", "a named hook of a file that has it"
            )
        for name in given["headers"] if isinstance(given.get("headers"), Mapping) else ():
            if _SECRET_HEADERS.search(name):
                at = (*where, "headers", name)
                self._report_refused(
                    at, f"the header {name!r}", "a named hook of a file that has it"
                )
        self._check_files(given, where)
        self._check_patterns(given, where)
        self._check_address(given.get("url"), (*where, "url"))
        if "$ref" in given:
            self._check_ref(given, where)

    def _check_size(self, given: Mapping[str, Any]) -> bool:
        """Check that it is not too large to be read and built."""
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
            len(each) if isinstance(each, list) else 1
            for _, each in _mapping_items(given.get("hooks"))
        )
        limits = ((parts, MOST_PARTS), (characters, MOST_CHARACTERS), (hooks, MOST_HOOKS))
        for (found, most), what in zip(limits, ("parts", "characters", "hooks"), strict=True):
            if found > most:
                self._report_refused((), f"{found} {what}", f"at most {most}")
                return False
        return True

    def _check_schema(self, given: Any, where: Where) -> None:
        try:
            check_schema(given)
        except CostlySchemaError as error:
            self._report_refused(
                where, f"a schema that may take too long ({error})", "a simpler one"
            )

    def _check_patterns(self, given: Mapping[str, Any], where: Where) -> None:
        """Check that all patterns together do not take long for a name."""
        before = self._steps
        config = dict(_mapping_items(given.get("config")))
        self._steps += sum(_count_steps(given[key]) for key in FIELDS if key in given)
        self._steps += sum(_count_steps(item) for item in config.values())
        if before <= MOST_STEPS < self._steps:
            self._report_refused(
                where, "more patterns for names than can be matched", "fewer or shorter"
            )

    def _check_files(self, given: Mapping[str, Any], where: Where) -> None:
        """Check that no file of this machine is read, whose content the model might reveal."""
        builtin = BUILTINS.get(str(given.get("builtin")))
        config = dict(_mapping_items(given.get("config")))
        self._check_schema(config.get("schema"), (*where, "config", "schema"))
        for name, schema in _mapping_items(config.get("schemas")):
            self._check_schema(schema, (*where, "config", "schemas", name))
        for name in builtin.files if builtin else ():
            if name in config:
                self._report_refused(
                    (*where, "config", name), "a file of the server", "the text itself"
                )

    def _check_ref(self, given: Mapping[str, Any], where: Where) -> None:
        """Check that a hook that is defined elsewhere is not changed.

        Another `url` beside it would be sent what the definition sends along.
        """
        for key in given.keys() - _BESIDE_REF:
            found = f"`{key}` beside `$ref`, which would change what the named hook does"
            self.report.add((*where, key), found, "the named hook as it is")

    def _check_hooks(self, point: str, given: Any, where: Where) -> None:
        if point == "path":
            self._report_refused(where, "Python code", "hooks by their points")
            return
        if not isinstance(given, list):
            self.check_hook(given, where)
            return
        for number, hook in enumerate(given):
            self.check_hook(hook, (*where, number))

    def _check_keys(self, given: Mapping[str, Any], where: Where) -> None:
        for key, what in _CODE.items():
            if key in given:
                self._report_refused((*where, key), what, "none")

    def _check_model(self, given: Any, where: Where) -> None:
        if isinstance(given, str) and is_import(given):
            self._report_refused(where, "Python code", "provider/name")
        if isinstance(given, str):
            self._check_model_name(*_split_model_name(given), where)
        if not isinstance(given, Mapping):
            return
        name, provider = str(given.get("model", "")), given.get("provider")
        whose, rest = _split_model_name(name) if provider is None else (str(provider), name)
        self._check_model_name(whose, rest, (*where, "model"))
        for key in given.keys() - set(MODEL_KEYS):
            self._report_refused(
                (*where, key), f"`{key}` of a model", f"one of: {', '.join(MODEL_KEYS)}"
            )
        for key, _ in _mapping_items(given.get("params")):
            if key not in PARAMS:
                at = (*where, "params", key)
                self._report_refused(at, f"`{key}` among `params`", f"one of: {', '.join(PARAMS)}")

    def _check_model_name(self, provider: str, name: str, where: Where) -> None:
        if can_redirect(provider, name):
            found = f"the model {name[:60]!r}, whose name may lead elsewhere"
            self._report_refused(where, found, "provider/name, without an address")
        self._check_address(local_address(provider, name), where)

    def _check_tool(self, given: Any, where: Where) -> None:
        if isinstance(given, str) and not given.startswith(OTHER_AGENT):
            self._report_refused(where, f"the tool {given[:60]!r}", "agent:name")

    def _check_server(self, given: Any, where: Where) -> None:
        if not isinstance(given, Mapping):
            return
        self._check_keys(given, where)
        if "headers" in given:
            self._report_refused((*where, "headers"), "headers, which may be secret", "none")
        self._check_address(given.get("url"), (*where, "url"), listed=True)

    def _check_address(self, url: Any, where: Where, *, listed: bool = False) -> None:
        """Check that an address may be called; what we do not call ourselves has to be `listed`."""
        if not isinstance(url, str):
            return
        try:
            self._outbound.check(url)
        except (OutboundRefused, ActionError) as error:
            self.report.add(where, str(error), "a place that outbound.allow lists")
        else:
            if listed and not self._outbound.is_listed(url):
                found = "a server that the config does not list"
                self.report.add(where, found, "a host of outbound.allow")

    def _check_texts(self, given: Any, where: Where) -> None:
        """Check that no variable of the server's environment is used."""
        if isinstance(given, str):
            if has_variable(given):
                self._report_refused(where, "a variable", "the text itself, or $${ for ${")
        elif isinstance(given, Mapping):
            for key, item in given.items():
                self._check_texts(item, (*where, key))
        elif isinstance(given, list):
            for number, item in enumerate(given):
                self._check_texts(item, (*where, number))

    def _report_refused(self, where: Where, found: str, expected: str) -> None:
        self.report.add(where, f"{found}, which a request may not bring", expected, _IN_FILES)


def _count_steps(given: Any) -> int:
    """Return how many steps the patterns of a field have; an unreadable one is refused later."""
    if isinstance(given, list):
        return sum(map(_count_steps, given))
    if isinstance(given, Mapping):
        return sum(map(_count_steps, given))
    if not isinstance(given, str):
        return 0
    try:
        pattern = read_pattern(given)
    except PatternError:
        return 0
    return 1 + len(pattern) // _GLOB_STEPS if isinstance(pattern, str) else pattern.size


def _split_model_name(given: str) -> tuple[str, str]:
    provider, _, name = given.strip().partition("/")
    return provider, name


def _list_items(given: Any) -> Iterable[Any]:
    return given if isinstance(given, list) else ()


def _mapping_items(given: Any) -> Iterable[tuple[str, Any]]:
    return given.items() if isinstance(given, Mapping) else ()
