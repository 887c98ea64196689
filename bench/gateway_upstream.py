"""A model on this machine that costs next to nothing: bytes over sockets, always the same ones."""

import asyncio
import contextlib
import json

CHUNKS = 100
GONE = (asyncio.IncompleteReadError, ConnectionError)
PACE = 0.002  # seconds between two chunks, so that they do not come as one
STAYS = b'"user":"stays"'
"""In requests whose stream goes on until they leave."""
PATIENCE = 600.0  # seconds
_COMMON = {"id": "chatcmpl-1", "created": 1750000000, "model": "model-1"}
_USAGE = {"prompt_tokens": 2500, "completion_tokens": 100, "total_tokens": 2600}


def _whole(body: bytes) -> bytes:
    head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n"
    return head.format(len(body)).encode() + body


def _answer() -> bytes:
    message = {"role": "assistant", "content": "A word or two. " * 40}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
    whole = {**_COMMON, "object": "chat.completion", "choices": [choice], "usage": _USAGE}
    return _whole(json.dumps(whole).encode())


def _chunk(choices: list, **more: object) -> bytes:
    told = {**_COMMON, "object": "chat.completion.chunk", "choices": choices, **more}
    data = b"data: " + json.dumps(told).encode() + b"\n\n"
    return b"%x\r\n%s\r\n" % (len(data), data)


def _choice(delta: dict, finish: str | None = None) -> list:
    return [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}]


ANSWER = _answer()
NOTHING = _whole(b'{"object":"list","data":[]}')
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
FIRST = _chunk(_choice({"role": "assistant", "content": ""}))
WORD = _chunk(_choice({"content": "A word "}))
LAST = _chunk(_choice({}, "stop"))
COUNT = _chunk([], usage=_USAGE)
END = b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.closing(writer), contextlib.suppress(*GONE):
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            size = head.partition(b"content-length: ")[2].split()
            body = await reader.readexactly(int(size[0]) if size else 0)
            if head.startswith(b"get "):  # somebody asks for a list of models
                writer.write(NOTHING)
            elif b'"stream":true' in body.replace(b'": ', b'":'):
                await _stream(writer, counted=b"include_usage" in body, stays=STAYS in body)
            else:
                writer.write(ANSWER)
            await writer.drain()


async def _stream(writer: asyncio.StreamWriter, *, counted: bool, stays: bool) -> None:
    writer.write(HEAD + FIRST)
    if stays:
        await asyncio.sleep(PATIENCE)
    for _ in range(CHUNKS - 2):
        await asyncio.sleep(PACE)
        writer.write(WORD)
    await asyncio.sleep(PACE)
    writer.write(LAST)
    writer.write((COUNT if counted else b"") + END)


async def main() -> None:
    server = await asyncio.start_server(serve, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
