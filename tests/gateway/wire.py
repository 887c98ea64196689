"""HTTP by hand on both ends of a gateway, so that every byte is known."""

import contextlib
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field


def received(connection: socket.socket) -> tuple[bytes, bytes]:
    """Read one message: its head, and its body without what only frames it."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += _more(connection)
    head, _, body = data.partition(b"\r\n\r\n")
    fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
    if fields.get(b"transfer-encoding") == b"chunked":
        return head, _joined(connection, body)
    size = int(fields[b"content-length"])
    while len(body) < size:
        body += _more(connection)
    return head, body


def _joined(connection: socket.socket, data: bytes) -> bytes:
    """Put chunks together up to the last, which is empty."""
    body = b""
    while True:
        while b"\r\n" not in data:
            data += _more(connection)
        written, _, data = data.partition(b"\r\n")
        size = int(written, 16)
        while len(data) < size + 2:
            data += _more(connection)
        if size == 0:
            return body
        body, data = body + data[:size], data[size + 2 :]


def _more(connection: socket.socket) -> bytes:
    data = connection.recv(65536)
    assert data, "the connection was cut"
    return data


def sent(port: int, path: str, body: bytes, *fields: bytes) -> tuple[bytes, bytes]:
    """Send a request, and give the head and the body of the answer."""
    lines = [
        f"POST {path} HTTP/1.1".encode(),
        b"host: 127.0.0.1",
        b"content-type: application/json",
        b"content-length: %d" % len(body),
        *fields,
    ]
    with socket.create_connection(("127.0.0.1", port), 20) as connection:
        connection.sendall(b"\r\n".join(lines) + b"\r\n\r\n" + body)
        return received(connection)


@dataclass
class Upstream:
    """A server that keeps what it gets and answers every request with the same bytes."""

    port: int
    answer: list[bytes] = field(default_factory=list)
    requests: list[tuple[bytes, bytes]] = field(default_factory=list)

    def says(self, kind: str, pieces: list[bytes]) -> None:
        """Answer with these chunks from now on."""
        head = f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ntransfer-encoding: chunked\r\n\r\n"
        chunks = [b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces]
        self.answer = [head.encode(), *chunks, b"0\r\n\r\n"]

    def _serve(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(AssertionError, OSError):
            while True:
                self.requests.append(received(connection))
                for piece in self.answer:
                    connection.sendall(piece)


@contextlib.contextmanager
def upstream() -> Iterator[Upstream]:
    """Run such a server, a thread for each connection."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        made = Upstream(listener.getsockname()[1])

        def listen() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    threading.Thread(target=made._serve, args=(connection,), daemon=True).start()

        threading.Thread(target=listen, daemon=True).start()
        yield made
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
