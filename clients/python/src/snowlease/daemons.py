"""The daemons of a registry, over HTTP: the first one that answers is believed."""

from __future__ import annotations

import http.client
import io
import json
import re
import socket
import ssl
import time
from collections.abc import Mapping
from typing import Any, Callable, NamedTuple, TypeVar
from urllib.parse import unquote, urlsplit

from .errors import SnowleaseError, Unavailable, expected, one_line

Answer = TypeVar("Answer")
Json = Mapping[str, Any]
# A request's fields besides `now`, the wall clock's time in Unix ms, from that.
Body = Callable[[int], Json]

# Pauses between two rounds of all daemons, seconds: doubled each time.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 0.5
_LONGEST_ANSWER = 256 * 1024
# What fits `sun_path` on Linux with its closing 0, bytes.
_LONGEST_SOCKET_PATH = 107
_SECRETS = ("token", "turn", "nextTurn")
_SETTINGS = ("namespace", "token", "borrow", "tlsCa", "tlsCert", "tlsKey")
_RECEIPT = re.compile("[\x21-\x7e]{1,1024}")
_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]{1,9})[ \t]*\r\n", re.IGNORECASE)
# No answer of a daemon: what became of the request is unknown.
_UNHEARD = (OSError, http.client.HTTPException, ValueError, LookupError, TypeError, RecursionError)
# All daemons of a registry would answer these alike, though a wait may help.
_FINAL = ("WORKER_ID_HELD", "CLOCK_SKEW", "CLOCK_ROLLBACK")
# What is told where several daemons failed: the registry's own answer; what only an operator changes; what may pass in no time; silence; and
# where there is nothing else, that each of them serves another registry.
_ANSWERED, _REFUSED, _BUSY, _SILENT, _ELSEWHERE = range(5)


class Daemon(NamedTuple):
    """One address of a daemon. `address`: a socket's path, or host and port. `prefix`: the path before `/v1`."""

    shown: str
    authority: str
    prefix: str
    address: str | tuple[str, int]
    tls: ssl.SSLContext | None


class Failed(Exception):
    """One daemon did not do what was asked; another one may."""

    def __init__(self, kind: int, error: SnowleaseError) -> None:
        super().__init__(kind, error)
        self.kind, self.error = kind, error


class Daemons:
    """Sends calls to the first daemon that answers. For one caller at a time."""

    def __init__(self, daemons: list[Daemon], token: str | None, timeout: float) -> None:
        """`timeout`: of a call, over all daemons and repetitions, seconds."""
        self.all, self._token, self._timeout = daemons, token, timeout
        # The daemon that answered last is asked first.
        self._favourite = 0
        # Of the last call: the highest `now` that it sent, that of its last request, and when it sent this one, on the monotonic clock.
        self.highest, self.clock, self.sent = 0, 0, 0.0

    def call(
        self, method: str, path: str, body: Body, read: Callable[[Json], Answer], receipt: str | None = None, timeout: float = 86_400
    ) -> tuple[Answer, str | None]:
        """Sends a call that may be repeated. `read` raises for an answer that is none of a daemon's.

        Returns what `read` made of the answer, and the answer's receipt. Raises what a daemon refused with; REGISTRY_UNAVAILABLE where none
        answered in time; OTHER_REGISTRY only where each daemon answered that.
        """
        end = time.monotonic() + min(timeout, self._timeout)
        pause, self.highest, count = _FIRST_PAUSE, 0, len(self.all)
        while True:
            failures: list[Failed] = []
            for asked, at in enumerate(sorted(range(count), key=lambda at: at != self._favourite)):
                # A silent daemon leaves the others their share of the time.
                share = (end - time.monotonic()) / (count - asked)
                try:
                    answer = self.ask(self.all[at], method, path, body, read, receipt, share)
                    self._favourite = at
                    return answer
                except Failed as failed:
                    failures.append(failed)
                    self._favourite = at if failed.kind == _ANSWERED else self._favourite
                except SnowleaseError:
                    self._favourite = at
                    raise
            told = min(failures, key=lambda failed: failed.kind)
            again = [failed.error.retry_after or 0 for failed in failures if failed.kind in (_BUSY, _SILENT)]
            wait = max(pause, min(again, default=0))
            if told.kind == _ANSWERED or not again or time.monotonic() + wait >= end:
                raise told.error
            time.sleep(wait)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def ask(
        self, daemon: Daemon, method: str, path: str, body: Body | None, read: Callable[[Json], Answer], receipt: str | None, timeout: float
    ) -> tuple[Answer, str | None]:
        """Asks one daemon, once. Raises Failed, or a SnowleaseError with which every other one would refuse, too."""
        self.clock, self.sent = now, _ = time.time_ns() // 1_000_000, time.monotonic()
        self.highest = max(self.highest, now)
        headers = {"authorization": f"Bearer {self._token}" if self._token else None, "snowlease-receipt": receipt}
        told = {**body(now), "now": now} if body else None
        turns = (told or {}).get("sentTurns", [])
        secrets = [str(text) for text in (self._token, receipt, *turns, *((told or {}).get(name) for name in _SECRETS)) if text]
        status = 0
        try:
            response = _exchange(daemon, method, path, told, headers, self.sent + timeout)
            text, status = response.read().decode(), response.status
            answer = json.loads(text) if text else {}
            if not isinstance(answer, dict):
                raise TypeError("the answer is no JSON object")
            if 200 <= status < 300:
                given = response.headers.get("snowlease-receipt")
                try:
                    return read(answer), given if given and _RECEIPT.fullmatch(given) else None
                except SnowleaseError as quoting:
                    # The answer.
                    raise SnowleaseError(quoting.code, _without(secrets, quoting.message)) from None
            # Once it is read: a secret may be part of its syntax, or be escaped in it.
            answer = _without(secrets, answer)
            code, detail, details, wait = answer["code"], answer["detail"], answer.get("details"), answer.get("retryAfterMs")
            if not isinstance(code, str) or not isinstance(detail, str):
                raise TypeError("the answer is no problem of a daemon")
        except _UNHEARD as cause:
            advice = "check `tlsCa`, `tlsCert` and `tlsKey`" if isinstance(cause, ssl.SSLError) else "check that it runs, and the address"
            why = f"{cause} is missing" if isinstance(cause, KeyError) else str(cause) or type(cause).__name__
            said = one_line(_without(secrets, f"HTTP {status}: {why}" if status else why))
            what = f"The daemon at {daemon.shown} gave no answer to rely on ({said}); {advice}."
            raise Failed(_SILENT, Unavailable("REGISTRY_UNAVAILABLE", what)) from None
        kind = Unavailable if status in (408, 429, 503) else SnowleaseError
        retry_after = wait / 1000 if isinstance(wait, (int, float)) and 0 <= wait < 1e12 else None
        error = kind(one_line(code)[:64], one_line(detail), retry_after, details if isinstance(details, dict) else None)
        if code == "OTHER_REGISTRY":
            raise Failed(_ELSEWHERE, error)
        if status in (401, 403, 500):
            raise Failed(_REFUSED, error)
        if kind is Unavailable and code not in _FINAL:
            raise Failed(_BUSY if code in ("REGISTRY_UNAVAILABLE", "RATE_LIMITED") else _ANSWERED, error)
        raise error


def read_registry(text: str) -> tuple[list[Daemon], dict[str, str]]:
    """Reads a registry URL: `http://HOST:PORT` or `https://…`, several of them separated by commas, or `unix:PATH`. Raises CONFIG_INVALID.

    Its query takes what the second value returns, `namespace`, `token` and `borrow`, and with https the PEM files `tlsCa`, `tlsCert` and `tlsKey`.
    """
    scheme, colon, rest = text.partition(":")
    addresses, _, query = rest.partition("?")
    # All before an `@` may be a password.
    shown = "***" if "@" in rest else addresses

    def refusal(rule: str) -> SnowleaseError:
        return expected("registry", rule, f"{scheme}{colon}{shown}")

    if scheme not in ("http", "https", "unix"):
        raise refusal("to be a daemon's: http://HOST:PORT, https://HOST:PORT or unix:PATH")
    if re.search(r"[\x00-\x20\x7f#\\]", text) or not text.isascii():
        raise refusal("to be ASCII without spaces, control characters, `\\` and `#`")
    pairs = [pair.partition("=") for pair in query.split("&") if pair]
    settings = {name: unquote(value) for name, _, value in pairs}
    if len(settings) < len(pairs) or not all(name in _SETTINGS and value for name, value in settings.items()):
        raise refusal(f"to have in its query only {', '.join(_SETTINGS)}, each once and with a value")
    if settings.get("borrow", "false") not in ("true", "false"):
        raise refusal("to have in its query `borrow=true`, `borrow=false` or neither")
    files = [settings.pop(name, None) for name in _SETTINGS[3:]]
    if any(files) and scheme != "https":
        raise refusal("to name certificates only with https:")
    if scheme == "unix":
        path = unquote(addresses[2:] if addresses.startswith("///") else addresses)
        if path in ("", "/") or path.startswith(("//", "~")) or len(path.encode()) > _LONGEST_SOCKET_PATH:
            raise refusal(f"to be like unix:/run/snowlease.sock, with a path of at most {_LONGEST_SOCKET_PATH} bytes")
        return [Daemon(f"unix:{path}", "localhost", "", path, None)], settings
    tls = _tls_context(*files) if scheme == "https" else None
    daemons = []
    for part in addresses.split(","):
        try:
            url = urlsplit(part if "://" in part else f"{scheme}:{part if part.startswith('//') else f'//{part}'}")
            if url.scheme != scheme or not url.hostname or url.port == 0 or "@" in url.netloc:
                raise ValueError
        except ValueError:
            raise refusal("to be a list of addresses like http://HOST:PORT, separated by commas, without users and passwords") from None
        path = url.path.rstrip("/")
        daemons.append(Daemon(f"{scheme}://{url.netloc}{path}", url.netloc, path, (url.hostname, url.port or (443 if tls else 80)), tls))
    return daemons, settings


def _tls_context(ca: str | None, certificate: str | None, key: str | None) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=ca)
        if certificate is not None:
            context.load_cert_chain(certificate, key)
        return context
    except (OSError, ValueError) as cause:
        raise SnowleaseError("CONFIG_INVALID", f"Expected `tlsCa`, `tlsCert` and `tlsKey` to be PEM files that belong together: {cause}.") from None


class _Bytes:
    """What `HTTPResponse` takes for a socket."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def makefile(self, *_: object) -> io.BytesIO:
        return io.BytesIO(self._data)


def _exchange(daemon: Daemon, method: str, path: str, body: Json | None, headers: Mapping[str, str | None], end: float) -> http.client.HTTPResponse:
    """One request on a connection of its own, so that nothing is shared with a forked child. Raises one of `_UNHEARD`."""
    text = b"" if body is None else json.dumps(body).encode()
    sent = {"host": daemon.authority, "connection": "close", "accept": "application/json", **headers}
    if body is not None:
        sent.update({"content-type": "application/json", "content-length": str(len(text))})
    head = "".join(f"{name}: {value}\r\n" for name, value in sent.items() if value is not None)
    with _connect(daemon, end) as connection:
        connection.settimeout(_left(end))
        connection.sendall(f"{method} {daemon.prefix}{path} HTTP/1.1\r\n{head}\r\n".encode("ascii") + text)
        data = bytearray()
        # To the end of the answer, however slowly it comes: a proxy, or a process forked meanwhile, may keep the connection open behind it.
        while not _is_whole(data):
            connection.settimeout(_left(end))
            part = connection.recv(65536)
            if not part:
                break
            data += part
            if len(data) > _LONGEST_ANSWER:
                raise ValueError(f"it has more than {_LONGEST_ANSWER} bytes")
    response = http.client.HTTPResponse(_Bytes(bytes(data)), method=method)  # type: ignore[arg-type]
    response.begin()
    return response


def _connect(daemon: Daemon, end: float) -> socket.socket:
    if isinstance(daemon.address, str):
        return _connect_one(daemon, socket.AF_UNIX, daemon.address, _left(end))
    host, port = daemon.address
    # As bytes: of a text, Python imports a codec first, and in a forked child nothing ends the import that another thread had begun.
    places = socket.getaddrinfo(host.encode("ascii"), port, type=socket.SOCK_STREAM)
    for tried, (family, _, _, _, place) in enumerate(places, 1):
        try:
            # A silent one leaves the others their share of the time.
            return _connect_one(daemon, family, place, _left(end) / (len(places) - tried + 1))
        except OSError:
            if tried == len(places):
                raise
    raise OSError("its name has no address")


def _connect_one(daemon: Daemon, family: int, place: Any, timeout: float) -> socket.socket:
    connection = socket.socket(family)
    try:
        connection.settimeout(timeout)
        connection.connect(place)
        return connection if daemon.tls is None else daemon.tls.wrap_socket(connection, server_hostname=daemon.address[0])
    except BaseException:
        connection.close()
        raise


def _is_whole(data: bytearray) -> bool:
    end = data.find(b"\r\n\r\n")
    length = None if end < 0 else _LENGTH.search(data, 0, end + 2)
    return end >= 0 and (data.startswith(b"HTTP/1.1 204") or (length is not None and len(data) - end - 4 >= int(length[1])))


def _left(end: float) -> float:
    """The seconds up to then. Raises TimeoutError if there are none."""
    left = end - time.monotonic()
    if left <= 0:
        raise TimeoutError("none came in time")
    return left


def _without(secrets: list[str], value: Any) -> Any:
    """A text, or the texts of a JSON value, without these."""
    if isinstance(value, dict):
        return {name: _without(secrets, item) for name, item in value.items()}
    if isinstance(value, list):
        return [_without(secrets, item) for item in value]
    for secret in secrets if isinstance(value, str) else ():
        value = value.replace(secret, "***")
    return value
