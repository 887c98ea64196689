"""A way to PostgreSQL that can be cut, for tests of what happens while it is."""

import contextlib
import socket
import threading
import time
from typing import Self
from urllib.parse import parse_qs, urlsplit

import psycopg


class PostgresProxy:
    """Relays connections to a PostgreSQL, until it is `cut` and from when it is `mended` again.

    After `lose_commits(n)` the answers to the next n COMMITs are lost, with their connections.
    Each answer is held back for as many seconds as `delay` says.
    """

    delay = 0.0

    def __init__(self, url: str) -> None:
        info = psycopg.conninfo.conninfo_to_dict(url.replace("postgresql+psycopg:", "postgresql:"))
        self._target = (str(info.get("host") or "localhost"), int(info.get("port") or 5432))
        self._lock = threading.Lock()
        self._pairs: set[tuple[socket.socket, socket.socket]] = set()
        self._losing = 0
        self._answers_lost = threading.Semaphore(0)
        self._listener: socket.socket | None = None
        self._reserved = socket.socket()  # keeps the port from others while the way is cut
        self._reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        self._reserved.bind(("127.0.0.1", 0))
        self.port = self._reserved.getsockname()[1]
        self.mend()
        user, name = info.get("user", ""), urlsplit(url).path.lstrip("/")
        password = f":{info['password']}" if info.get("password") else ""
        self.url = f"postgresql://{user}{password}@127.0.0.1:{self.port}/{name}"
        assert "host" not in parse_qs(urlsplit(self.url).query)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.cut()
        self._reserved.close()

    def cut(self) -> None:
        """End all connections, and refuse new ones."""
        listener, self._listener = self._listener, None
        if listener is not None:
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        with self._lock:
            pairs, self._pairs = self._pairs, set()
        for pair in pairs:
            self._end(*pair)

    @property
    def is_cut(self) -> bool:
        return self._listener is None

    def mend(self) -> None:
        """Let connections through again."""
        self._listener = listener = socket.create_server(("127.0.0.1", self.port), reuse_port=True)
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def lose_commits(self, number: int) -> None:
        """Lose the answers to the next COMMITs."""
        self._losing = number

    def await_loss(self, timeout: float = 30.0) -> None:
        """Wait until an answer was lost."""
        assert self._answers_lost.acquire(timeout=timeout), "no answer was lost"

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            try:
                server = self._connected()
            except OSError:
                client.close()
                continue
            with self._lock:
                self._pairs.add((client, server))
            if self._listener is not listener:
                self._end(client, server)
            for relay in (self._ask, self._answer):
                threading.Thread(target=relay, args=(client, server), daemon=True).start()

    def _connected(self) -> socket.socket:
        host, port = self._target
        if host.startswith("/"):
            server = socket.socket(socket.AF_UNIX)
            server.connect(f"{host}/.s.PGSQL.{port}")
            return server
        return socket.create_connection((host, port))

    def _ask(self, client: socket.socket, server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := client.recv(65536):
                if b"COMMIT\0" in data and self._losing > 0:
                    self._losing -= 1
                    server.sendall(data)
                    server.settimeout(30)
                    self._end(client)
                    self._answers_lost.release()
                    return
                server.sendall(data)
        self._end(client, server)

    def _answer(self, client: socket.socket, server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := server.recv(65536):
                time.sleep(self.delay)
                with contextlib.suppress(OSError):
                    client.sendall(data)
        self._end(client, server)

    def _end(self, *ends: socket.socket) -> None:
        for each in ends:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
