"""`provider_tools`, in front of requests and behind answers of the three APIs."""

import json

import pytest

from checkrail import AssistantMessage, HookRegistry, ModelRequest, ToolCall
from checkrail.builtin import BUILTINS, provider_tools
from checkrail.llm.formats import BY_NAME, open_format
from checkrail.llm.other_fields import ITEM_FIELDS

APIS = BY_NAME | {"gemini": open_format("/v1beta/models/m:generateContent")}
LOOK = {"name": "look", "input_schema": {"type": "object"}}
OWN = {
    "chat": {"type": "function", "function": {"name": "look", "parameters": {}}},
    "messages": LOOK,
    "bedrock": LOOK,
    "vertex": LOOK,
    "gemini": {"functionDeclarations": [{"name": "look", "parameters": {"type": "OBJECT"}}]},
    "responses": {"type": "function", "name": "look", "parameters": {}},
}
SEARCH = {"type": "web_search_20250305", "name": "web_search", "max_uses": 3}
DEEP = {"type": "mcp", "server_label": "wiki", "server_url": "https://mcp.wiki.example/mcp"}
LENT = {"type": "mcp", "server_label": "mail", "connector_id": "connector_gmail"}
SERVED_BY_HTTP = {
    "name": "wiki",
    "streamableHttpTransport": {"url": "https://mcp.wiki.example/mcp"},
}
SERVERS = [{"type": "url", "url": "https://mcp.wiki.example/sse", "name": "wiki"}]


def request_of(api, *tools, model="m", **params):
    if api == "gemini":
        said = [{"role": "user", "parts": [{"text": "Hi"}]}]
        return {"contents": said, **params, "tools": [OWN[api], *tools]}
    said = [{"role": "user", "content": "Hi"}]
    body = {"model": model, "input" if api == "responses" else "messages": said, **params}
    return {**body, "tools": [OWN[api], *tools]}


def tool(type_, **more):
    return {"type": type_, **more}


async def judge(api, body, **config):
    """Return what becomes of a request: its refusal, or the body that is sent."""
    form, registry = APIS[api], HookRegistry()
    registry.register(provider_tools, "before_llm_call", config=config)
    before = form.read_request(body)
    verdict = await registry.fire("before_llm_call", before)
    if verdict.decision == "block":
        assert verdict.code == "tool_not_allowed"
        return verdict.reason
    return form.write_request(body, before, verdict.value)


REQUESTS = {
    "search": ("messages", request_of("messages", SEARCH), "web_search"),
    "fetch": ("messages", request_of("messages", tool("web_fetch_20250910")), "web_fetch"),
    "code": ("messages", request_of("messages", tool("code_execution_20250825")), "code_execution"),
    "computer": ("messages", request_of("messages", tool("computer_20250124")), "computer"),
    "servers": ("messages", request_of("messages", mcp_servers=SERVERS), "mcp"),
    "servers by host": (
        "messages",
        request_of("messages", mcp_servers=SERVERS),
        "mcp:mcp.wiki.example",
    ),
    "servers by label": ("messages", request_of("messages", mcp_servers=SERVERS), "mcp:wiki"),
    "a set of tools": (
        "messages",
        request_of("messages", tool("mcp_toolset", mcp_server_name="wiki"), mcp_servers=SERVERS),
        "mcp:mcp.wiki*",
    ),
    "finding tools": (
        "messages",
        request_of("messages", tool("tool_search_tool_regex_20251119", name="tool_search")),
        "tool_search*",
    ),
    "hosted search": ("responses", request_of("responses", tool("web_search")), "web_search"),
    "an older one": (
        "responses",
        request_of("responses", tool("web_search_preview")),
        "web_search",
    ),
    "a dated one": (
        "responses",
        request_of("responses", tool("web_search_preview_2025_03_11")),
        "web_search",
    ),
    "by its type": (
        "responses",
        request_of("responses", tool("web_search_preview_2025_03_11")),
        "web_search_preview_*",
    ),
    "in capitals": ("responses", request_of("responses", tool("Web-Search ")), "web_search"),
    "files": ("responses", request_of("responses", tool("file_search")), "file_search"),
    "interpreter": ("responses", request_of("responses", tool("code_interpreter")), "code_*"),
    "interpreter by its kind": (
        "responses",
        request_of("responses", tool("code_interpreter")),
        "code_execution",
    ),
    "images": ("responses", request_of("responses", tool("image_generation")), "image_generation"),
    "a computer": ("responses", request_of("responses", tool("computer_use_preview")), "computer"),
    "a shell elsewhere": (
        "responses",
        request_of("responses", tool("shell", environment={"type": "container_auto"})),
        "shell",
    ),
    "mcp": ("responses", request_of("responses", DEEP), "mcp"),
    "mcp by label": ("responses", request_of("responses", DEEP), "mcp:wiki"),
    "mcp by host": ("responses", request_of("responses", DEEP), "mcp:*.wiki.example"),
    "a connector": ("responses", request_of("responses", LENT), "mcp:connector_gmail"),
    "in a namespace": (
        "responses",
        request_of("responses", tool("namespace", name="n", tools=[OWN["responses"], DEEP])),
        "mcp",
    ),
    "an option": ("chat", request_of("chat", web_search_options={}), "web_search"),
    "another option": ("chat", request_of("chat", search_parameters={"mode": "on"}), "web_search"),
    "a flag": ("chat", request_of("chat", enable_search=True), "enable_search"),
    "a plugin": ("chat", request_of("chat", plugins=[{"id": "web"}]), "web_search"),
    "any plugin": ("chat", request_of("chat", plugins=[{"id": "pdf"}]), "plugins"),
    "a tool of a router": ("chat", request_of("chat", tool("openrouter:web_search")), "web_search"),
    "a tool by its function": (
        "chat",
        request_of("chat", tool("builtin_function", function={"name": "$web_search"})),
        "web_search",
    ),
    "search at Google": ("gemini", request_of("gemini", {"googleSearch": {}}), "web_search"),
    "search by its name there": (
        "gemini",
        request_of("gemini", {"google_search": {}}),
        "google_search",
    ),
    "an older search there": (
        "gemini",
        request_of("gemini", {"googleSearchRetrieval": {}}),
        "web_search",
    ),
    "code at Google": ("gemini", request_of("gemini", {"codeExecution": {}}), "code_execution"),
    "pages at Google": ("gemini", request_of("gemini", {"urlContext": {}}), "web_fetch"),
    "maps at Google": ("gemini", request_of("gemini", {"googleMaps": {}}), "google_maps"),
    "files at Google": (
        "gemini",
        request_of("gemini", {"fileSearch": {"fileSearchStoreNames": ["s"]}}),
        "file_search",
    ),
    "a computer at Google": (
        "gemini",
        request_of("gemini", {"computerUse": {"environment": "ENVIRONMENT_BROWSER"}}),
        "computer",
    ),
    "two in one at Google": (
        "gemini",
        request_of("gemini", {"urlContext": {}, "googleSearch": {}}),
        "*",
    ),
    "servers at Google": (
        "gemini",
        request_of("gemini", {"mcpServers": [SERVED_BY_HTTP]}),
        "mcp:mcp.wiki.example",
    ),
    "servers by label at Google": (
        "gemini",
        request_of("gemini", {"mcpServers": [SERVED_BY_HTTP]}),
        "mcp:wiki",
    ),
    "one that nobody knows at Google": (
        "gemini",
        request_of("gemini", {"teleport": {}}),
        "teleport",
    ),
    "search at AWS": ("bedrock", request_of("bedrock", SEARCH), "web_search"),
    "search at Vertex": ("vertex", request_of("vertex", SEARCH), "web_search"),
    "a tool without a type": ("chat", request_of("chat", {"googleSearch": {}}), "web_search"),
}
BOUND = {
    "a model that searches": request_of("chat", model="openai/gpt-5:online"),
    "another": request_of("chat", model="gpt-4o-search-preview-2025-03-11"),
}
OF_CALLER = {
    "messages": [
        tool("bash_20250124", name="bash"),
        tool("text_editor_20250728", name="str_replace_based_edit_tool"),
        tool("custom", name="x", input_schema={}),
    ],
    "responses": [
        tool("local_shell"),
        tool("shell"),
        tool("shell", environment={"type": "local"}),
        tool("apply_patch"),
        tool("custom", name="x"),
        tool("tool_search", execution="client"),
        tool("namespace", name="n", tools=[OWN["responses"]]),
    ],
    "chat": [tool("custom", custom={"name": "x"}), {"functionDeclarations": [{"name": "x"}]}],
}


class TestRequests:
    @pytest.mark.parametrize("how", REQUESTS)
    async def test_what_is_denied_is_refused_or_taken_out(self, how):
        api, body, name = REQUESTS[how]
        assert "is not allowed" in await judge(api, body, deny=[name])
        left = await judge(api, body, deny=[name], on_denied="strip")
        tools = [each for each in left["tools"] if each.get("type") != "namespace"]
        assert tools == [OWN[api]]
        kept = {"model", "messages", "input", "contents", "tools", "mcp_servers"}
        assert left.keys() <= kept
        assert json.dumps(left).count("mcp") == 0 or how == "in a namespace"

    @pytest.mark.parametrize("how", REQUESTS)
    async def test_what_is_allowed_leaves_as_it_came(self, how):
        api, body, name = REQUESTS[how]
        if name not in ("mcp:wiki", "plugins"):  # who asks has chosen these
            assert await judge(api, body, allow=[name]) == body
        assert "is not allowed" in await judge(api, body, allow=[])
        assert "is not allowed" in await judge(api, body, allow=["*"], deny=[name])

    @pytest.mark.parametrize("api", OF_CALLER)
    async def test_tools_that_the_caller_runs_are_not_its_affair(self, api):
        body = request_of(api, *OF_CALLER[api])
        assert await judge(api, body, allow=[], deny=["*"]) == body

    @pytest.mark.parametrize("on_denied", ["block", "strip"])
    @pytest.mark.parametrize("how", BOUND)
    async def test_what_cannot_be_taken_out_is_refused(self, how, on_denied):
        told = await judge("chat", BOUND[how], deny=["web_search"], on_denied=on_denied)
        assert told == "the provider's tool 'web_search' is not allowed"

    async def test_a_search_that_is_switched_off_is_none(self):
        body = request_of("chat", enable_search=False, web_search_options=None)
        assert await judge("chat", body, allow=[]) == body

    @pytest.mark.parametrize(
        "server",
        [
            {"server_url": "https://evil.example/mcp"},
            {"server_url": "https://mcp.wiki.example@evil.example/"},
            {"server_url": "https://mcp.wiki.example.evil.example/"},
            {"server_url": "https://evil.example\\@mcp.wiki.example/"},
            {"server_url": "https://mcp.wiki.example:8443/"},
            {"server_url": "https://evil.example", "connector_id": "mcp.wiki.example"},
            {"server_url": ["https://mcp.wiki.example"]},
            {},
        ],
    )
    async def test_a_label_is_no_proof_of_where_a_server_is(self, server):
        body = request_of("responses", tool("mcp", server_label="mcp.wiki.example", **server))
        told = await judge("responses", body, allow=["mcp:mcp.wiki.example", "mcp:wiki"])
        assert "is not allowed" in told

    async def test_a_name_is_no_proof_of_what_a_tool_is(self):
        body = request_of("messages", tool("code_execution_20250825", name="web_search"))
        assert "is not allowed" in await judge("messages", body, allow=["web_search"])

    @pytest.mark.parametrize(
        ("api", "choice", "stays"),
        [
            ("responses", {"type": "web_search"}, False),
            ("responses", {"type": "allowed_tools", "tools": [{"type": "web_search"}]}, False),
            ("responses", {"type": "function", "name": "look"}, True),
            ("responses", "auto", True),
            ("messages", {"type": "tool", "name": "web_search"}, False),
            ("messages", {"type": "tool", "name": "look"}, True),
        ],
    )
    async def test_a_choice_of_a_tool_goes_with_it(self, api, choice, stays):
        search = SEARCH if api == "messages" else tool("web_search")
        body = request_of(api, search, tool_choice=choice)
        left = await judge(api, body, deny=["web_search"], on_denied="strip")
        assert ("tool_choice" in left) is stays

    async def test_a_name_that_is_too_long_for_patterns_is_denied(self):
        body = request_of("responses", tool("mcp", server_label="x" * 2000, connector_id="c"))
        assert "is not allowed" in await judge("responses", body, allow=["*"])

    async def test_its_words_and_its_status_are_those_of_the_file(self):
        registry = HookRegistry()
        made = BUILTINS["provider_tools"].make({"allow": [], "reason": "no", "status": 451})
        registry.register(made, "before_llm_call", on_error="block")
        given = ModelRequest("m", tools=[tool("web_search")])
        verdict = await registry.fire("before_llm_call", given)
        assert (verdict.reason, verdict.status) == ("no", 451)


def uses(*types, **more):
    return [{"type": each, **more} for each in types]


ANSWERS = {
    "search": (uses("server_tool_use", "web_search_tool_result", name="web_search"), "web_search"),
    "code": (uses("server_tool_use", name="bash_code_execution"), "code_execution"),
    "a result alone": (uses("code_execution_tool_result"), "code_execution"),
    "mcp": (uses("mcp_tool_use", name="x", server_name="wiki"), "mcp"),
    "mcp by label": (uses("mcp_tool_use", name="x", server_name="wiki"), "mcp:wiki"),
    "hosted search": (uses("web_search_call"), "web_search"),
    "interpreter": (uses("code_interpreter_call"), "code_interpreter"),
    "hosted mcp": (uses("mcp_list_tools", "mcp_call", server_label="wiki"), "mcp:wiki"),
    "a shell": (uses("shell_call", "shell_call_output"), "shell"),
    "one that nobody knows": (uses("teleport_call"), "teleport"),
    "code at Google": (
        [
            {"type": "executableCode", "executableCode": {"code": "1", "language": "PYTHON"}},
            {"type": "codeExecutionResult", "codeExecutionResult": {"output": "1"}},
        ],
        "code_execution",
    ),
    "a call at Google": (
        [
            {"type": "toolCall", "toolCall": {"toolType": "GOOGLE_SEARCH_WEB", "id": "1"}},
            {"type": "toolResponse", "toolResponse": {"toolType": "GOOGLE_SEARCH_WEB"}},
        ],
        "web_search",
    ),
    "maps at Google": (
        [{"type": "toolCall", "toolCall": {"toolType": "GOOGLE_MAPS"}}],
        "google_maps",
    ),
}
FIELDS = {
    "cited": ({"annotations": [{"type": "url_citation", "url_citation": {}}]}, "web_search"),
    "executed": ({"executed_tools": [{"type": "python", "arguments": "{}"}]}, "code_execution"),
}
TEXT = {"type": "text", "text": "Hi"}
GROUNDED = {
    "searched": ({"groundingMetadata": {"webSearchQueries": ["q"]}}, "web_search"),
    "found": ({"groundingMetadata": {"groundingChunks": [{"web": {"uri": "x"}}]}}, "web_search"),
    "on a map": (
        {"groundingMetadata": {"groundingChunks": [{"maps": {"uri": "x"}}]}},
        "google_maps",
    ),
    "in files": (
        {"groundingMetadata": {"groundingChunks": [{"retrievedContext": {"text": "x"}}]}},
        "file_search",
    ),
    "from pages": ({"urlContextMetadata": {"urlMetadata": [{"retrievedUrl": "x"}]}}, "web_fetch"),
}


async def answered(message, **config):
    registry = HookRegistry()
    registry.register(provider_tools, "after_llm_call", config=config)
    return await registry.fire("after_llm_call", message)


class TestAnswers:
    @pytest.mark.parametrize("how", ANSWERS)
    async def test_calls_that_are_denied_are_refused_or_left_out(self, how):
        parts, name = ANSWERS[how]
        message = AssistantMessage([TEXT, *parts], [ToolCall("1", "look")])
        assert (await answered(message, deny=[name])).decision == "block"
        assert (await answered(message, allow=[])).decision == "block"
        left = (await answered(message, deny=[name], on_denied="strip")).value
        assert (left.content, left.tool_calls) == ([TEXT], message.tool_calls)
        assert (await answered(message, allow=[name])).value is message

    @pytest.mark.parametrize("how", FIELDS)
    @pytest.mark.parametrize("on_denied", ["block", "strip"])
    async def test_what_a_chat_tells_of_them_is_refused(self, how, on_denied):
        fields, name = FIELDS[how]
        for metadata in ({"fields": fields}, {"choices": {"1": {"fields": fields}}}):
            message = AssistantMessage("Hi", metadata=metadata)
            verdict = await answered(message, deny=[name], on_denied=on_denied)
            assert verdict.decision == "block"
            assert (await answered(message, allow=[name])).value is message

    @pytest.mark.parametrize("how", GROUNDED)
    @pytest.mark.parametrize("on_denied", ["block", "strip"])
    async def test_what_a_candidate_tells_of_them_is_refused(self, how, on_denied):
        fields, name = GROUNDED[how]
        candidate = {"content": {"parts": [{"text": "Hi"}]}, "finishReason": "STOP", **fields}
        message = APIS["gemini"].read_answer({"candidates": [candidate]})
        verdict = await answered(message, deny=[name], on_denied=on_denied)
        assert verdict.decision == "block"
        assert (await answered(message, allow=[name])).value is message

    async def test_an_answer_says_no_more_of_a_server_than_its_label(self):
        message = AssistantMessage(uses("mcp_call", server_label="wiki", name="x"))
        assert (await answered(message, allow=["mcp:mcp.wiki.example"])).decision == "continue"
        assert (await answered(message, allow=["web_search"])).decision == "block"

    async def test_plain_answers_pass(self):
        thought = {"type": "thinking", "thinking": "Hm", "signature": "x"}
        for content in ("Hi", [TEXT, thought, {"type": "reasoning"}, "Hi"]):
            message = AssistantMessage(content, [ToolCall("1", "web_search")])
            assert (await answered(message, allow=[], deny=["*"])).value is message
        fields = {ITEM_FIELDS: {"0": {"groundingMetadata": {}, "citationMetadata": {"a": "b"}}}}
        message = AssistantMessage("Hi", metadata=fields)
        assert (await answered(message, allow=[], deny=["*"])).value is message
