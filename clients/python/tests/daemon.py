"""A daemon that answers as a test says, to be hostile in ways that a real one is not."""

from __future__ import annotations

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Callable, NamedTuple

from snowlease import Layout
from snowlease.blocks import Blocks

LAYOUT = "timestamp:41,worker:10,sequence:12@1490346283706/1"


class Request(NamedTuple):
    method: str
    path: str
    receipt: str | None
    body: dict[str, Any]


class Answer(NamedTuple):
    status: int
    body: Any
    receipt: str | None = None


Script = Callable[[Request], Any]


class Daemon:
    """`answer` returns an Answer, bytes to be sent as they are, or a list of bytes to be sent slowly; None: it closes the connection."""

    def __init__(self, answer: Script | None = None) -> None:
        self.requests: list[Request] = []
        self.answer: Script = answer or (lambda request: granted(request))
        self.over = threading.Event()
        daemon = self

        class Handler(BaseHTTPRequestHandler):
            def handle_any(self) -> None:
                length = int(self.headers.get("content-length") or 0)
                body = json.loads(self.rfile.read(length) or b"{}")
                method = {"release": "RELEASE", "blocks": "BLOCKS"}.get(self.path.split("/")[-1], self.command)
                request = Request(method, self.path, self.headers.get("snowlease-receipt"), body)
                daemon.requests.append(request)
                given = daemon.answer(request)
                if isinstance(given, Answer):
                    text = json.dumps(given.body).encode()
                    receipt = f"snowlease-receipt: {given.receipt}\r\n" if given.receipt else ""
                    given = f"HTTP/1.1 {given.status} X\r\ncontent-length: {len(text)}\r\n{receipt}\r\n".encode() + text
                for part in given if isinstance(given, list) else [given or b""]:
                    self.wfile.write(part)
                    self.wfile.flush()
                    if isinstance(given, list):
                        daemon.over.wait(0.02)
                self.close_connection = True

            do_GET = do_POST = do_PATCH = do_DELETE = handle_any

            def log_message(self, *_: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            block_on_close = False
            request_queue_size = 128

            def handle_error(self, *_: object) -> None:
                pass  # The client has gone.

        self._server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def of(self, method: str) -> list[Request]:
        return [request for request in self.requests if request.method == method]

    def close(self) -> None:
        self.over.set()
        self._server.shutdown()
        self._server.server_close()


def now() -> int:
    return time.time_ns() // 1_000_000


def granted(request: Request, worker_id: int = 7, window: int = 60_000, renew_after: int = 20_000, **other: Any) -> Answer:
    """What a daemon answers where nothing is wrong."""
    times = {"from": now() - 10_000, "until": now() + window, "clock": now(), "renewAfterMs": renew_after}
    if request.method in ("RELEASE", "DELETE"):
        return Answer(204, {})
    if request.method == "GET":
        return Answer(200, {"id": "one"})
    if request.method == "PATCH":
        return Answer(200, {**times, "turn": request.body.get("nextTurn"), **other}, "renewed")
    return Answer(201, {"workerId": worker_id, "fence": 1, "token": request.body["token"], "layout": LAYOUT, **times, **other}, "granted")


def refused(status: int, code: str, detail: str = "No.", **other: Any) -> Answer:
    return Answer(status, {"title": "X", "status": status, "detail": detail, "code": code, **other})


class Lender:
    """An `answer` of a daemon that lends its lease: each block once, the lowest first."""

    def __init__(self, layout: str = LAYOUT, **grant: Any) -> None:
        self.layout = Layout(layout)
        self.grant = {"layout": self.layout.canonical, "worker_id": 7, **grant}
        self._division = Blocks(self.layout, lambda: None)
        # By worker ID and span: the bits of all blocks that were given; by token and span: those of the answers that were sent.
        self._taken: dict[tuple[int, int], int] = {}
        self._own: dict[tuple[str, int], int] = {}
        self._lock = threading.Lock()

    def __call__(self, request: Request) -> Any:
        if request.method == "BLOCKS":
            return Answer(200, {"blocks": self.give(request.body)})
        shared = {"shared": True} if request.method == "POST" else {}
        return granted(request, **{**self.grant, **shared})

    def give(self, asked: dict[str, Any], counts: bool = True) -> list[int]:
        """`counts`: whether the answer will arrive."""
        with self._lock:
            given = []
            for span in range(asked["first"], asked["first"] + asked["spans"]):
                place, token = (self.grant["worker_id"], span), (asked["token"], span)
                taken = self._taken.get(place, 0)
                free = [block for block in range(self._division.count) if not taken >> block & 1]
                bits = sum(1 << block for block in free[: asked["blocks"]])
                self._taken[place] = taken | bits
                self._own[token] = self._own.get(token, 0) | (bits if counts else 0)
                given.append(bits)
            return given

    def owns(self, token: str, id: int) -> bool:
        """Whether this claim was given the block of this ID."""
        parts = self.layout.decompose(id)
        span = self._division.span_of(self.layout.tick_of(parts.timestamp))
        return bool(self._own.get((token, span), 0) >> parts.sequence // self._division.size & 1)
