"""Names of fields as Google's servers read them: in camel case, or as they stand in its protocols.

Both spellings mean the same to a server. Hooks see the first, so that no spelling leads around one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from checkrail.llm.wire_format import Body, UnreadableError

TOP = frozenset(
    {"contents", "systemInstruction", "tools", "toolConfig", "safetySettings", "generationConfig"}
    | {"cachedContent", "labels", "model", "generateContentRequest", "store", "serviceTier"}
)
CONTENT = frozenset({"parts", "role"})
DATA = (
    *("text", "inlineData", "fileData", "functionCall", "functionResponse", "executableCode"),
    *("codeExecutionResult", "toolCall", "toolResponse"),
)
"""What a part may be; one part is one of them."""

PART = frozenset(
    {*DATA, "thought", "thoughtSignature", "videoMetadata", "mediaResolution", "partMetadata"}
)
BLOB = frozenset({"mimeType", "data", "displayName", "fileUri"})
CALL = frozenset({"id", "name", "args", "partialArgs", "willContinue"})
RESPONSE = frozenset({"id", "name", "response", "parts", "willContinue", "scheduling"})
DECLARATION = frozenset(
    {"name", "description", "behavior", "parameters", "parametersJsonSchema"}
    | {"response", "responseJsonSchema"}
)
TOOL = frozenset(
    {"functionDeclarations", "googleSearch", "googleSearchRetrieval", "codeExecution"}
    | {"urlContext", "computerUse", "googleMaps", "fileSearch", "mcpServers", "retrieval"}
    | {"enterpriseWebSearch"}
)

FREE = frozenset({"responseSchema", "responseJsonSchema", "_responseJsonSchema", "labels"})
"""What a caller named, or describes in a language of its own."""


def to_camel(name: str) -> str:
    """Return the name of a field in camel case."""
    first, *rest = name.split("_")
    return first + "".join(word[:1].upper() + word[1:] for word in rest) if first else name


def rename_fields(given: Mapping[str, Any], known: frozenset[str]) -> Body:
    """Return an object with its known names in camel case. Raises `UnreadableError`.

    A name that is there in both spellings is refused, and so is one that is nearly a known one:
    nobody knows which of them a server takes.
    """
    folded = {name.casefold() for name in known}
    found: Body = {}
    for name, value in given.items():
        plain = to_camel(name)
        if plain not in known:
            plain = name
            if name.replace("_", "").casefold() in folded:
                raise UnreadableError(f"`{name}` is nearly the name of a field, and not quite")
        if plain in found:
            raise UnreadableError(f"`{plain}` is there twice, in two spellings")
        found[plain] = value
    return found


def rename_settings(given: Any) -> Any:
    """Return settings with all their names in camel case. Raises `UnreadableError`."""
    if isinstance(given, list):
        return [rename_settings(item) for item in given]
    if not isinstance(given, Mapping):
        return given
    found: Body = {}
    for name, value in given.items():
        plain = to_camel(name)
        if plain in found:
            raise UnreadableError(f"`{plain}` is there twice, in two spellings")
        found[plain] = value if plain in FREE else rename_settings(value)
    return found


def objects_in(given: Any, what: str) -> list[Mapping[str, Any]]:
    """Return a list of objects, for which one object may stand as well. Raises `UnreadableError`.

    Google's servers read one item where a list of them should be.
    """
    listed = [] if given is None else given if isinstance(given, list) else [given]
    if not all(isinstance(item, Mapping) for item in listed):
        raise UnreadableError(f"`{what}` should be a list of objects")
    return listed
