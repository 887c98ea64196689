import pytest

from checkrail import ToolCall
from checkrail.builtin import BUILTINS, tool_policy
from checkrail.testing import RecordingRegistry, assert_allowed, assert_blocked


async def verdict_on(tool, **config):
    builtin = BUILTINS["tool_policy"]
    registry = RecordingRegistry()
    registry.register(builtin.make(config), *builtin.points, lane=builtin.lane)
    return await registry.fire("before_tool_call", ToolCall("1", tool, {}))


@pytest.mark.parametrize(
    ("config", "tool", "allowed"),
    [
        ({"allow": ["search"]}, "search", True),
        ({"allow": ["search"]}, "Search", False),
        ({"allow": ["search"]}, "search\n", False),
        ({"allow": ["search"]}, "research", False),
        ({"allow": ["read_*"]}, "read_file", True),
        ({"allow": ["read_*"]}, "do_not_read_file", False),
        ({"allow": ["read_*"]}, "write_file", False),
        ({"allow": []}, "search", False),
        ({"allow": ["*"]}, "", True),
        ({"deny": ["delete_*"]}, "delete_all", False),
        ({"deny": ["delete_*"]}, "undelete_all", True),
        ({"deny": ["delete_*"]}, "search", True),
        ({"allow": ["*"], "deny": ["delete_*"]}, "delete_all", False),
        ({"allow": ["delete_all"], "deny": ["delete_*"]}, "delete_all", False),
        ({"allow": ["*"], "deny": ["delete_*"]}, "search", True),
        ({"allow": ["file_[ab]"]}, "file_a", True),
        ({"allow": ["file_[ab]"]}, "file_c", False),
        ({"deny": ["/delete|drop/"]}, "please_drop_it", False),
        ({"allow": ["/^db_/"]}, "my_db_x", False),
        ({"allow": ["/^db_/"]}, "db_x", True),
        ({"allow": ["a/*"]}, "a/b", True),
    ],
)
async def test_deny_wins_and_an_allow_list_is_complete(config, tool, allowed):
    verdict = await verdict_on(tool, **config)
    if allowed:
        assert_allowed(verdict)
    else:
        assert_blocked(verdict, by="tool_policy", status=403, code="tool_not_allowed")


async def test_the_reason_says_why():
    assert_blocked(await verdict_on("rm", deny=["rm"]), reason="the tool 'rm' is denied")
    reason = "the tool 'rm' is not among those allowed"
    assert_blocked(await verdict_on("rm", allow=["ls"]), reason=reason)


async def test_reason_and_status_can_be_said():
    verdict = await verdict_on("rm", deny=["rm"], reason="Ask the desk", status=451)
    assert (verdict.reason, verdict.status) == ("Ask the desk", 451)


async def test_as_a_plain_function():
    registry = RecordingRegistry()
    registry.register(tool_policy, "pre_tool_call", lane="gate", config={"deny": ["rm"]})
    assert_blocked(await registry.fire("before_tool_call", ToolCall("1", "rm", {})))
    assert_allowed(await registry.fire("before_tool_call", ToolCall("1", "ls", {})))
