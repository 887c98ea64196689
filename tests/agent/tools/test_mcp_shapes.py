"""How a model sees what an MCP server gave back."""

import pytest
from mcp import types

from checkrail.agent.tools import ToolError
from checkrail.agent.tools.mcp import content_of, parameters_of

TEXT = types.TextContent(text="Sunny")
IMAGE = types.ImageContent(data="YWJj", mime_type="image/png")
PART = {"type": "image_url", "image_url": {"url": "data:image/png;base64,YWJj"}}


def result(*content, **fields):
    return content_of(types.CallToolResult(content=[*content], **fields))


def embedded(**resource):
    kind = types.TextResourceContents if "text" in resource else types.BlobResourceContents
    return types.EmbeddedResource(resource=kind(uri="file:///a", **resource))


@pytest.mark.parametrize(
    ("content", "structured", "seen"),
    [
        ([TEXT], None, "Sunny"),
        ([TEXT, TEXT], None, "Sunny\nSunny"),
        ([TEXT], {"sun": 1}, "Sunny"),
        ([], {"sun": 1}, {"sun": 1}),
        ([], [1, 2], [1, 2]),
        ([], None, ""),
        ([IMAGE], None, [PART]),
        ([TEXT, IMAGE], {"sun": 1}, [{"type": "text", "text": "Sunny"}, PART]),
        ([IMAGE], {"sun": "é"}, [{"type": "text", "text": '{"sun": "é"}'}, PART]),
        ([embedded(text="in a file")], None, "in a file"),
        ([embedded(blob="YWJj", mime_type="image/png")], None, [PART]),
        (
            [embedded(blob="YWJj")],
            None,
            "[application/octet-stream, 3 bytes, which cannot be shown]",
        ),
        (
            [types.AudioContent(data="YWJj", mime_type="audio/wav")],
            None,
            "[audio/wav, 3 bytes, which cannot be shown]",
        ),
        (
            [types.ResourceLink(name="log", uri="file:///log", description="of today")],
            None,
            "log: of today (file:///log)",
        ),
        ([types.ResourceLink(name="log", title="Log", uri="x:y")], None, "Log (x:y)"),
    ],
)
def test_what_a_tool_returned_is_given_as_a_model_can_read_it(content, structured, seen):
    assert result(*content, structured_content=structured) == seen


@pytest.mark.parametrize(
    ("content", "structured", "told"),
    [
        ([TEXT], None, "Sunny"),
        ([TEXT, IMAGE, TEXT], None, "Sunny\nSunny"),
        ([], {"code": 7}, '{"code": 7}'),
        ([], None, "the tool says that it failed, and not why"),
    ],
)
def test_what_a_tool_reports_as_an_error_is_one(content, structured, told):
    with pytest.raises(ToolError) as caught:
        result(*content, structured_content=structured, is_error=True)
    assert str(caught.value) == told


def test_every_schema_is_one_of_an_object():
    assert parameters_of({}) == {"type": "object", "properties": {}}
    given = {"type": "object", "properties": {"a": {}}, "$schema": "x", "required": ["a"]}
    assert parameters_of(given) == given
