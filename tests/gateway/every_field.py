"""Requests and answers of the four APIs that have nearly every field that there is."""

from typing import Any

REQUESTS: dict[str, Any] = {
    "chat": {
        "model": "m",
        "messages": [
            {"role": "system", "content": "s", "name": "n"},
            {"role": "developer", "content": [{"type": "text", "text": "t"}]},
            {
                "role": "user",
                "content": [
                    {
                        "type": "text",
                        "text": "t",
                        "cache_control": {"type": "ephemeral", "ttl": "5m"},
                    },
                    {"type": "image_url", "image_url": {"url": "https://x", "detail": "low"}},
                    {
                        "type": "input_audio",
                        "input_audio": {"data": "iVBORw0KGgo=", "format": "wav"},
                    },
                    {
                        "type": "file",
                        "file": {
                            "file_data": "data:application/pdf;base64,iVBORw0KGgo=",
                            "filename": "f",
                            "file_id": "i",
                        },
                    },
                ],
            },
            {
                "role": "assistant",
                "content": [{"type": "text", "text": "t"}, {"type": "refusal", "refusal": "r"}],
                "refusal": "r",
                "name": "n",
                "audio": {"id": "a"},
                "reasoning_content": "rc",
                "reasoning": "rr",
                "tool_calls": [
                    {
                        "id": "c1",
                        "type": "function",
                        "function": {"name": "f", "arguments": '{"a": "b"}'},
                    },
                    {"id": "c2", "type": "custom", "custom": {"name": "cu", "input": "i"}},
                ],
            },
            {
                "role": "tool",
                "tool_call_id": "c1",
                "content": [{"type": "text", "text": "t"}],
                "name": "n",
            },
            {"role": "tool", "tool_call_id": "c2", "content": "x"},
            {
                "role": "assistant",
                "content": None,
                "function_call": {"name": "g", "arguments": "{}"},
            },
            {"role": "function", "name": "g", "content": "x"},
            {"role": "user", "content": "u"},
        ],
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "f",
                    "description": "d",
                    "parameters": {
                        "type": "object",
                        "description": "d",
                        "properties": {"a": {"type": "string", "description": "d", "enum": ["x"]}},
                        "required": ["a"],
                    },
                    "strict": True,
                },
            },
            {
                "type": "custom",
                "custom": {
                    "name": "cu",
                    "description": "d",
                    "format": {"type": "grammar", "grammar": {"syntax": "lark", "definition": "x"}},
                },
            },
        ],
        "functions": [
            {
                "name": "g",
                "description": "d",
                "parameters": {
                    "type": "object",
                    "description": "d",
                    "properties": {"a": {"type": "string", "description": "d", "enum": ["x"]}},
                    "required": ["a"],
                },
            }
        ],
        "tool_choice": {"type": "function", "function": {"name": "f"}},
        "response_format": {
            "type": "json_schema",
            "json_schema": {
                "name": "n",
                "description": "d",
                "schema": {
                    "type": "object",
                    "description": "d",
                    "properties": {"a": {"type": "string", "description": "d", "enum": ["x"]}},
                    "required": ["a"],
                },
            },
        },
        "stop": ["e"],
        "user": "u",
        "metadata": {"k": "v"},
        "safety_identifier": "s",
        "prompt_cache_key": "p",
        "prediction": {"type": "content", "content": "c"},
        "service_tier": "auto",
        "reasoning_effort": "low",
        "verbosity": "low",
        "modalities": ["text"],
        "audio": {"voice": "v", "format": "wav"},
        "web_search_options": {
            "user_location": {"type": "approximate", "approximate": {"city": "c"}}
        },
        "logit_bias": {"5": 1},
        "extra": "e",
        "stream_options": {"x": "y"},
    },
    "messages": {
        "model": "m",
        "max_tokens": 5,
        "system": [
            {"type": "text", "text": "s", "cache_control": {"type": "ephemeral", "ttl": "5m"}}
        ],
        "messages": [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "t", "cache_control": {"type": "ephemeral"}},
                    {
                        "type": "image",
                        "source": {
                            "type": "base64",
                            "media_type": "image/png",
                            "data": "iVBORw0KGgo=",
                        },
                    },
                    {"type": "image", "source": {"type": "url", "url": "https://x"}},
                    {
                        "type": "document",
                        "title": "t",
                        "context": "c",
                        "citations": {"enabled": True},
                        "source": {"type": "text", "media_type": "text/plain", "data": "d"},
                    },
                    {
                        "type": "document",
                        "source": {"type": "content", "content": [{"type": "text", "text": "t"}]},
                    },
                    {"type": "document", "source": {"type": "file", "file_id": "f"}},
                    {
                        "type": "search_result",
                        "source": "s",
                        "title": "t",
                        "content": [{"type": "text", "text": "t"}],
                    },
                    {"type": "container_upload", "file_id": "x"},
                ],
            },
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "t", "signature": "c2ln"},
                    {"type": "redacted_thinking", "data": "ZGF0YQ=="},
                    {
                        "type": "text",
                        "text": "t",
                        "citations": [
                            {
                                "type": "char_location",
                                "cited_text": "c",
                                "document_title": "d",
                                "document_index": 0,
                            }
                        ],
                    },
                    {
                        "type": "server_tool_use",
                        "id": "s1",
                        "name": "web_search",
                        "input": {"query": "q"},
                    },
                    {
                        "type": "web_search_tool_result",
                        "tool_use_id": "s1",
                        "content": [
                            {
                                "type": "web_search_result",
                                "url": "u",
                                "title": "t",
                                "encrypted_content": "ZW5j",
                                "page_age": "p",
                            }
                        ],
                    },
                    {
                        "type": "mcp_tool_use",
                        "id": "m1",
                        "name": "n",
                        "server_name": "s",
                        "input": {"a": "b"},
                    },
                    {
                        "type": "mcp_tool_result",
                        "tool_use_id": "m1",
                        "content": [{"type": "text", "text": "t"}],
                    },
                    {
                        "type": "tool_use",
                        "id": "t1",
                        "name": "f",
                        "input": {"a": ["b", {"c": "d"}]},
                    },
                ],
            },
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": "t1",
                        "content": [
                            {"type": "text", "text": "t"},
                            {
                                "type": "image",
                                "source": {
                                    "type": "base64",
                                    "media_type": "image/png",
                                    "data": "iVBORw0KGgo=",
                                },
                            },
                        ],
                        "cache_control": {"type": "ephemeral"},
                    }
                ],
            },
            {"role": "user", "content": "u"},
        ],
        "tools": [
            {
                "name": "f",
                "description": "d",
                "input_schema": {
                    "type": "object",
                    "description": "d",
                    "properties": {"a": {"type": "string", "description": "d", "enum": ["x"]}},
                    "required": ["a"],
                },
                "cache_control": {"type": "ephemeral"},
                "input_examples": [{"a": "b"}],
            },
            {
                "type": "web_search_20250305",
                "name": "web_search",
                "allowed_domains": ["d"],
                "user_location": {"type": "approximate", "city": "c"},
            },
        ],
        "tool_choice": {"type": "tool", "name": "f"},
        "metadata": {"user_id": "u"},
        "stop_sequences": ["s"],
        "mcp_servers": [{"type": "url", "url": "u", "name": "n", "authorization_token": "t"}],
        "container": "c",
        "service_tier": "auto",
        "thinking": {"type": "enabled", "budget_tokens": 3},
        "context_management": {"edits": [{"type": "clear"}]},
        "betas": ["b"],
        "extra": {"k": "v"},
    },
    "responses": {
        "model": "m",
        "instructions": "i",
        "input": [
            {
                "role": "user",
                "content": [
                    {"type": "input_text", "text": "t"},
                    {
                        "type": "input_image",
                        "image_url": "https://x",
                        "file_id": "f",
                        "detail": "low",
                    },
                    {
                        "type": "input_file",
                        "file_data": "data:application/pdf;base64,iVBORw0KGgo=",
                        "filename": "f",
                        "file_url": "u",
                        "file_id": "i",
                    },
                ],
            },
            {
                "type": "message",
                "role": "assistant",
                "id": "m1",
                "status": "completed",
                "content": [
                    {
                        "type": "output_text",
                        "text": "t",
                        "annotations": [{"type": "url_citation", "url": "u", "title": "t"}],
                    },
                    {"type": "refusal", "refusal": "r"},
                ],
            },
            {
                "type": "reasoning",
                "id": "r1",
                "summary": [{"type": "summary_text", "text": "t"}],
                "content": [{"type": "reasoning_text", "text": "t"}],
                "encrypted_content": "ZW5j",
            },
            {
                "type": "function_call",
                "id": "f1",
                "call_id": "c1",
                "name": "f",
                "arguments": '{"a":"b"}',
                "status": "completed",
            },
            {
                "type": "function_call_output",
                "id": "f2",
                "call_id": "c1",
                "output": [{"type": "input_text", "text": "t"}],
                "status": "completed",
            },
            {"type": "custom_tool_call", "id": "f3", "call_id": "c2", "name": "cu", "input": "i"},
            {"type": "custom_tool_call_output", "call_id": "c2", "output": "o"},
            {
                "type": "web_search_call",
                "id": "w1",
                "status": "completed",
                "action": {
                    "type": "search",
                    "query": "q",
                    "sources": [{"type": "url", "url": "u"}],
                },
            },
            {
                "type": "file_search_call",
                "id": "fs",
                "queries": ["q"],
                "results": [{"text": "t", "filename": "f", "attributes": {"a": "b"}}],
                "status": "completed",
            },
            {
                "type": "code_interpreter_call",
                "id": "ci",
                "code": "c",
                "container_id": "k",
                "outputs": [{"type": "logs", "logs": "l"}],
                "status": "completed",
            },
            {
                "type": "computer_call",
                "id": "cc",
                "call_id": "c5",
                "action": {"type": "type", "text": "t"},
                "pending_safety_checks": [{"id": "p", "code": "c", "message": "m"}],
                "status": "completed",
            },
            {
                "type": "computer_call_output",
                "call_id": "c5",
                "output": {"type": "computer_screenshot", "image_url": "https://u"},
            },
            {
                "type": "local_shell_call",
                "id": "ls",
                "call_id": "c6",
                "action": {
                    "type": "exec",
                    "command": ["a", "b"],
                    "env": {"k": "v"},
                    "working_directory": "w",
                },
                "status": "completed",
            },
            {"type": "local_shell_call_output", "id": "lo", "output": "o"},
            {
                "type": "mcp_list_tools",
                "id": "ml",
                "server_label": "s",
                "tools": [
                    {
                        "name": "n",
                        "description": "d",
                        "input_schema": {
                            "type": "object",
                            "description": "d",
                            "properties": {
                                "a": {"type": "string", "description": "d", "enum": ["x"]}
                            },
                            "required": ["a"],
                        },
                    }
                ],
            },
            {
                "type": "mcp_call",
                "id": "mc",
                "server_label": "s",
                "name": "n",
                "arguments": "{}",
                "output": "o",
                "error": "e",
            },
            {
                "type": "mcp_approval_request",
                "id": "ma",
                "server_label": "s",
                "name": "n",
                "arguments": "{}",
            },
            {
                "type": "mcp_approval_response",
                "approval_request_id": "ma",
                "approve": True,
                "reason": "r",
            },
            {
                "type": "image_generation_call",
                "id": "ig",
                "result": "iVBORw0KGgo=",
                "status": "completed",
            },
            {"type": "item_reference", "id": "ir"},
            {"role": "user", "content": "u"},
        ],
        "tools": [
            {
                "type": "function",
                "name": "f",
                "description": "d",
                "parameters": {
                    "type": "object",
                    "description": "d",
                    "properties": {"a": {"type": "string", "description": "d", "enum": ["x"]}},
                    "required": ["a"],
                },
            },
            {"type": "custom", "name": "cu", "description": "d"},
            {
                "type": "mcp",
                "server_label": "s",
                "server_url": "u",
                "headers": {"h": "v"},
                "server_description": "d",
            },
            {
                "type": "file_search",
                "vector_store_ids": ["v"],
                "filters": {"type": "eq", "key": "k", "value": "v"},
            },
        ],
        "tool_choice": {"type": "function", "name": "f"},
        "text": {
            "format": {
                "type": "json_schema",
                "name": "n",
                "schema": {
                    "type": "object",
                    "description": "d",
                    "properties": {"a": {"type": "string", "description": "d", "enum": ["x"]}},
                    "required": ["a"],
                },
                "description": "d",
            },
            "verbosity": "low",
        },
        "metadata": {"k": "v"},
        "user": "u",
        "prompt": {
            "id": "p",
            "version": "v",
            "variables": {"name": "x", "doc": {"type": "input_text", "text": "t"}},
        },
        "include": ["i"],
        "reasoning": {"effort": "low", "summary": "auto"},
        "previous_response_id": "pr",
        "conversation": {"id": "c"},
        "truncation": "auto",
        "extra": "e",
        "safety_identifier": "s",
        "prompt_cache_key": "k",
    },
    "gemini": {
        "model": "m",
        "contents": [
            {
                "role": "user",
                "parts": [
                    {"text": "t"},
                    {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}},
                    {
                        "inlineData": {
                            "mimeType": "audio/wav",
                            "data": "iVBORw0KGgo=",
                            "displayName": "n",
                        },
                        "videoMetadata": {"startOffset": "1s"},
                    },
                    {"fileData": {"mimeType": "video/mp4", "fileUri": "https://x"}},
                ],
            },
            {
                "role": "model",
                "parts": [
                    {"text": "t", "thought": True, "thoughtSignature": "c2ln"},
                    {"text": "t", "thoughtSignature": "c2ln"},
                    {"executableCode": {"language": "PYTHON", "code": "c"}},
                    {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "o"}},
                    {
                        "functionCall": {"id": "c1", "name": "f", "args": {"a": "b"}},
                        "thoughtSignature": "c2ln",
                    },
                    {"functionCall": {"name": "g", "args": {"a": "b"}}},
                ],
            },
            {
                "role": "user",
                "parts": [
                    {
                        "functionResponse": {
                            "id": "c1",
                            "name": "f",
                            "response": {"result": "r"},
                            "parts": [
                                {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}}
                            ],
                        }
                    },
                    {
                        "functionResponse": {
                            "name": "g",
                            "response": {"a": {"b": "c"}, "d": ["e"]},
                            "scheduling": "SILENT",
                        }
                    },
                ],
            },
            {"parts": [{"text": "u"}]},
        ],
        "systemInstruction": {"role": "user", "parts": [{"text": "s"}]},
        "tools": [
            {
                "functionDeclarations": [
                    {
                        "name": "f",
                        "description": "d",
                        "parameters": {
                            "type": "OBJECT",
                            "description": "d",
                            "properties": {"a": {"type": "STRING", "enum": ["x"]}},
                            "required": ["a"],
                        },
                    },
                    {
                        "name": "g",
                        "description": "d",
                        "parametersJsonSchema": {
                            "type": "object",
                            "properties": {"a": {"type": "string", "description": "d"}},
                        },
                        "response": {"type": "STRING", "description": "d"},
                    },
                ]
            },
            {"googleSearch": {"timeRangeFilter": {"startTime": "x"}}, "codeExecution": {}},
            {"fileSearch": {"fileSearchStoreNames": ["n"], "metadataFilter": "m"}},
        ],
        "toolConfig": {
            "functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["f"]},
            "retrievalConfig": {"languageCode": "en"},
        },
        "safetySettings": [
            {"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"},
        ],
        "generationConfig": {
            "stopSequences": ["e"],
            "responseMimeType": "application/json",
            "responseSchema": {"type": "OBJECT", "description": "d"},
            "speechConfig": {"voiceConfig": {"prebuiltVoiceConfig": {"voiceName": "v"}}},
            "thinkingConfig": {"thinkingLevel": "HIGH"},
        },
        "cachedContent": "cachedContents/x",
        "labels": {"k": "v"},
    },
}

ANSWERS: dict[str, Any] = {
    "chat": {
        "id": "i",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "service_tier": "default",
        "system_fingerprint": "f",
        "choices": [
            {
                "index": 0,
                "finish_reason": "tool_calls",
                "logprobs": {
                    "content": [
                        {
                            "token": "t",
                            "logprob": -1,
                            "bytes": [104],
                            "top_logprobs": [{"token": "t", "logprob": -1, "bytes": None}],
                        }
                    ]
                },
                "message": {
                    "role": "assistant",
                    "content": "c",
                    "refusal": "r",
                    "reasoning_content": "rc",
                    "reasoning": "rr",
                    "audio": {"id": "a", "transcript": "t", "expires_at": 3},
                    "annotations": [
                        {
                            "type": "url_citation",
                            "url_citation": {"url": "u", "title": "t", "start_index": 1},
                        }
                    ],
                    "reasoning_details": [
                        {"type": "reasoning.text", "text": "t", "signature": "c2ln"}
                    ],
                    "tool_calls": [
                        {
                            "id": "c1",
                            "type": "function",
                            "function": {"name": "f", "arguments": '{"a": "b"}'},
                        },
                        {"id": "c2", "type": "custom", "custom": {"name": "cu", "input": "i"}},
                    ],
                },
            },
            {
                "index": 1,
                "finish_reason": "stop",
                "message": {"role": "assistant", "content": "two"},
            },
        ],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
        "citations": ["https://x"],
        "extra": {"k": "v"},
    },
    "messages": {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "stop_reason": "tool_use",
        "stop_sequence": "s",
        "usage": {"input_tokens": 1, "output_tokens": 1, "service_tier": "st"},
        "container": {"id": "c", "expires_at": "e"},
        "content": [
            {"type": "thinking", "thinking": "t", "signature": "c2ln"},
            {"type": "redacted_thinking", "data": "ZGF0YQ=="},
            {
                "type": "text",
                "text": "t",
                "citations": [
                    {
                        "type": "char_location",
                        "cited_text": "c",
                        "document_title": "d",
                        "document_index": 0,
                    }
                ],
            },
            {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "q"}},
            {
                "type": "web_search_tool_result",
                "tool_use_id": "s1",
                "content": [
                    {
                        "type": "web_search_result",
                        "url": "u",
                        "title": "t",
                        "encrypted_content": "ZW5j",
                        "page_age": "p",
                    }
                ],
            },
            {
                "type": "mcp_tool_use",
                "id": "m1",
                "name": "n",
                "server_name": "s",
                "input": {"a": "b"},
            },
            {
                "type": "mcp_tool_result",
                "tool_use_id": "m1",
                "content": [{"type": "text", "text": "t"}],
            },
            {"type": "tool_use", "id": "t1", "name": "f", "input": {"a": ["b", {"c": "d"}]}},
        ],
        "extra": {"k": "v"},
    },
    "responses": {
        "id": "resp_1",
        "object": "response",
        "created_at": 1750000000,
        "status": "completed",
        "error": None,
        "instructions": "i",
        "metadata": {"k": "v"},
        "model": "m",
        "tool_choice": "auto",
        "tools": [],
        "usage": {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2},
        "output": [
            {
                "type": "message",
                "role": "assistant",
                "id": "m1",
                "status": "completed",
                "content": [
                    {
                        "type": "output_text",
                        "text": "t",
                        "annotations": [{"type": "url_citation", "url": "u", "title": "t"}],
                    },
                    {"type": "refusal", "refusal": "r"},
                ],
            },
            {
                "type": "reasoning",
                "id": "r1",
                "summary": [{"type": "summary_text", "text": "t"}],
                "content": [{"type": "reasoning_text", "text": "t"}],
                "encrypted_content": "ZW5j",
            },
            {
                "type": "function_call",
                "id": "f1",
                "call_id": "c1",
                "name": "f",
                "arguments": '{"a":"b"}',
                "status": "completed",
            },
            {"type": "custom_tool_call", "id": "f3", "call_id": "c2", "name": "cu", "input": "i"},
            {
                "type": "web_search_call",
                "id": "w1",
                "status": "completed",
                "action": {
                    "type": "search",
                    "query": "q",
                    "sources": [{"type": "url", "url": "u"}],
                },
            },
            {
                "type": "file_search_call",
                "id": "fs",
                "queries": ["q"],
                "results": [{"text": "t", "filename": "f", "attributes": {"a": "b"}}],
                "status": "completed",
            },
            {
                "type": "code_interpreter_call",
                "id": "ci",
                "code": "c",
                "container_id": "k",
                "outputs": [{"type": "logs", "logs": "l"}],
                "status": "completed",
            },
            {
                "type": "computer_call",
                "id": "cc",
                "call_id": "c5",
                "action": {"type": "type", "text": "t"},
                "pending_safety_checks": [{"id": "p", "code": "c", "message": "m"}],
                "status": "completed",
            },
            {
                "type": "local_shell_call",
                "id": "ls",
                "call_id": "c6",
                "action": {
                    "type": "exec",
                    "command": ["a", "b"],
                    "env": {"k": "v"},
                    "working_directory": "w",
                },
                "status": "completed",
            },
            {
                "type": "mcp_list_tools",
                "id": "ml",
                "server_label": "s",
                "tools": [
                    {
                        "name": "n",
                        "description": "d",
                        "input_schema": {
                            "type": "object",
                            "description": "d",
                            "properties": {
                                "a": {"type": "string", "description": "d", "enum": ["x"]}
                            },
                            "required": ["a"],
                        },
                    }
                ],
            },
            {
                "type": "mcp_call",
                "id": "mc",
                "server_label": "s",
                "name": "n",
                "arguments": "{}",
                "output": "o",
                "error": "e",
            },
            {
                "type": "mcp_approval_request",
                "id": "ma",
                "server_label": "s",
                "name": "n",
                "arguments": "{}",
            },
            {
                "type": "image_generation_call",
                "id": "ig",
                "result": "iVBORw0KGgo=",
                "status": "completed",
            },
        ],
        "extra": {"k": "v"},
        "service_tier": "x",
    },
    "gemini": {
        "candidates": [
            {
                "content": {
                    "role": "model",
                    "parts": [
                        {"text": "t", "thought": True, "thoughtSignature": "c2ln"},
                        {"text": "t", "thoughtSignature": "c2ln"},
                        {"executableCode": {"language": "PYTHON", "code": "c"}},
                        {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "o"}},
                        {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}},
                        {"fileData": {"mimeType": "video/mp4", "fileUri": "https://x"}},
                        {
                            "functionCall": {"id": "c1", "name": "f", "args": {"a": "b"}},
                            "thoughtSignature": "c2ln",
                        },
                    ],
                },
                "finishReason": "STOP",
                "finishMessage": "m",
                "index": 0,
                "safetyRatings": [{"category": "HARM_CATEGORY_X", "probability": "LOW"}],
                "citationMetadata": {"citationSources": [{"uri": "u", "license": "l"}]},
                "groundingMetadata": {
                    "webSearchQueries": ["q"],
                    "searchEntryPoint": {"renderedContent": "h"},
                    "groundingChunks": [{"web": {"uri": "u", "title": "t"}}],
                    "groundingSupports": [{"segment": {"text": "t"}}],
                },
                "urlContextMetadata": {"urlMetadata": [{"retrievedUrl": "u"}]},
                "logprobsResult": {"chosenCandidates": [{"token": "t"}]},
            }
        ],
        "promptFeedback": {"safetyRatings": [{"category": "HARM_CATEGORY_X"}]},
        "usageMetadata": {"promptTokenCount": 1, "promptTokensDetails": [{"modality": "TEXT"}]},
        "modelVersion": "m",
        "responseId": "r",
        "extra": {"k": "v"},
    },
}
