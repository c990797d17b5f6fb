"""Calls of daemons over HTTP: to the first one that answers."""

from __future__ import annotations

import base64
import http.client
import io
import json
import re
import socket
import ssl
import time
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, NoReturn, Optional, Sequence, TypeVar, Union
from urllib.parse import SplitResult, unquote, urlsplit

from .errors import RETRYABLE, SnowleaseError, expected, one_line, refusal

Answer = TypeVar("Answer")
Json = Mapping[str, Any]

# Pauses between two rounds of all daemons, seconds: doubled each time.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 0.5
_LONGEST_ANSWER = 256 * 1024
_LONGEST_DETAIL = 1000
# What fits `sun_path` on Linux with its closing 0, bytes.
_LONGEST_SOCKET_PATH = 107
_RECEIPT = re.compile(r"[\x21-\x7e]{1,1024}")
_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]{1,9})[ \t]*\r\n", re.IGNORECASE)
_CODE_OF_STATUS = {401: "UNAUTHORIZED", 403: "FORBIDDEN", 404: "NOT_FOUND", 410: "LEASE_LOST", 429: "RATE_LIMITED"}
# Another daemon may know the token, or be of the version that the registry needs.
_OTHERS_MAY_KNOW = (401, 403, 500)
_TRY_AGAIN = (408, 429, 503)

# No answer of a daemon: what became of the request is unknown.
_UNHEARD = (OSError, http.client.HTTPException, ValueError, RecursionError, MemoryError)


class Registry(NamedTuple):
    """A registry URL, taken apart."""

    daemons: Sequence["Daemon"]
    # From the URL's query: `namespace`, `token` and `borrow`.
    settings: Dict[str, str]


class Failure(NamedTuple):
    """The call was not applied, as far as is known; another daemon, or the same one later, may apply it."""

    error: SnowleaseError
    # A repetition fails, too, until an operator changes something.
    lasting: bool = False
    # The error is the daemon's own answer.
    told: bool = False


class Daemon:
    """One address of a daemon. Each request has a connection of its own, so that nothing is shared with a forked child."""

    def __init__(self, shown: str, url: Optional[SplitResult], path: str, tls: Optional[ssl.SSLContext]) -> None:
        # Without user and password.
        self.shown = shown
        self._path = path
        self._url = url
        self._tls = tls
        # Of the URL: it takes the place of a token.
        self.login: Optional[str] = None
        self._host = "localhost"
        if url is not None:
            self._host = url.netloc.rpartition("@")[2]
            if "@" in url.netloc:
                user = f"{unquote(url.username or '')}:{unquote(url.password or '')}"
                self.login = f"Basic {base64.b64encode(user.encode()).decode()}"

    def ask(self, method: str, path: str, body: Optional[Json], headers: Mapping[str, str], timeout: float) -> http.client.HTTPResponse:
        """One request. Raises one of `_UNHEARD`."""
        deadline = time.monotonic() + timeout
        text = b"" if body is None else json.dumps(body).encode()
        prefix = "" if self._url is None else self._url.path.rstrip("/")
        sent = {"host": self._host, "connection": "close", "accept": "application/json", **headers}
        if body is not None:
            sent.update({"content-type": "application/json", "content-length": str(len(text))})
        head = "".join(f"{name}: {value}\r\n" for name, value in sent.items())
        with self._connect(timeout) as connection:
            connection.settimeout(_left(deadline))
            connection.sendall(f"{method} {prefix}{path} HTTP/1.1\r\n{head}\r\n".encode("ascii") + text)
            return _read(connection, method, deadline)

    def _connect(self, timeout: float) -> socket.socket:
        if self._url is None:
            connection = socket.socket(socket.AF_UNIX)
            try:
                connection.settimeout(timeout)
                connection.connect(self._path)
            except BaseException:
                connection.close()
                raise
            return connection
        host = self._url.hostname or ""
        # As bytes: of a text, Python imports a codec first, and in a forked child nothing ends the import that another thread had begun.
        address = (host.encode("ascii"), self._url.port or (443 if self._tls else 80))
        connection = socket.create_connection(address, timeout)  # type: ignore[arg-type]
        if self._tls is None:
            return connection
        try:
            return self._tls.wrap_socket(connection, server_hostname=host)
        except BaseException:
            connection.close()
            raise


class Transport:
    """Sends calls to the first daemon that answers. For one caller at a time."""

    def __init__(self, daemons: Sequence[Daemon], token: Optional[str], timeout: float) -> None:
        """`token`: for addresses without a login. `timeout`: of a call, over all daemons and repetitions, seconds."""
        self.daemons = daemons
        self._token = token
        self._timeout = timeout
        # The daemon that answered last is asked first.
        self._favourite = 0

    def call(
        self,
        method: str,
        path: str,
        body: Optional[Json],
        read: Callable[[Json], Answer],
        receipt: Optional[str] = None,
    ) -> "tuple[Answer, Optional[str]]":
        """Sends a call that may be repeated. `read` raises ValueError, LookupError or TypeError for an answer that is no daemon's.

        Returns what `read` made of the answer, and the receipt. Raises what a daemon refused with, REGISTRY_UNAVAILABLE where none answered
        in time, OTHER_REGISTRY only where each daemon answered that.
        """
        deadline = time.monotonic() + self._timeout
        pause, why = _FIRST_PAUSE, None
        while True:
            failures: List[Failure] = []
            first, count = self._favourite, len(self.daemons)
            for asked in range(count):
                at = (first + asked) % count
                # A silent daemon leaves the others their share of the time.
                share = (deadline - time.monotonic()) / (count - asked)
                if share <= 0:
                    break
                outcome = self.ask(self.daemons[at], method, path, body, read, receipt, share)
                if not isinstance(outcome, Failure):
                    self._favourite = at
                    return outcome
                failures.append(outcome)
            failure = _telling(failures, count)
            if failure is not None and failure.told and failure.error.code == "REGISTRY_UNAVAILABLE":
                why = failure.error
            wait = max(pause, _passes_in(failures))
            if time.monotonic() + wait >= deadline:
                error = failure.error if failure is not None else self._late()
                raise (why or error) if error.code == "REGISTRY_UNAVAILABLE" else error
            time.sleep(wait)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def ask(
        self,
        daemon: Daemon,
        method: str,
        path: str,
        body: Optional[Json],
        read: Callable[[Json], Answer],
        receipt: Optional[str],
        timeout: float,
    ) -> "Union[tuple[Answer, Optional[str]], Failure]":
        """Asks one daemon, once. Raises what every other one would refuse with, too."""
        login = daemon.login or (f"Bearer {self._token}" if self._token else None)
        headers = {} if login is None else {"authorization": login}
        if receipt is not None:
            headers["snowlease-receipt"] = receipt
        secrets = [text for text in (self._token, login, str((body or {}).get("token") or "")) if text]
        try:
            response = daemon.ask(method, path, body, headers, timeout)
            text = response.read()
        except _UNHEARD as cause:
            lasting = isinstance(cause, (ssl.SSLCertVerificationError, PermissionError))
            advice = "check `tlsCa`, `tlsCert` and `tlsKey`" if isinstance(cause, ssl.SSLError) else "check that it runs"
            said = _without(secrets, str(cause) or type(cause).__name__)
            return _unavailable(daemon, f"did not answer: {said}; {advice}", lasting)
        status = response.status
        try:
            if 200 <= status < 300:
                given = response.headers.get("snowlease-receipt")
                answer = read(_object(text) if text else {})
                return answer, given if given and _RECEIPT.fullmatch(given) else None
            problem = _object(text)
            code, detail, wait = problem["code"], problem["detail"], problem.get("retryAfterMs")
            details = problem.get("details")
            if not (isinstance(code, str) and isinstance(detail, str)):
                raise TypeError("no problem")
        except (ValueError, LookupError, TypeError, RecursionError) as cause:
            said = one_line(_without(secrets, f"{method}, status {status}: {cause}"))[:200]
            return _unavailable(daemon, f"gave an answer that is not a snowlease daemon's ({said}); check the address")
        if code not in RETRYABLE:
            by_status = "CONFIG_INVALID" if status < 500 else "SCHEMA_INCOMPATIBLE" if status == 500 else "REGISTRY_UNAVAILABLE"
            detail = f"{detail} The daemon at {daemon.shown} calls it {code[:64]}, which only a newer version knows."
            code = _CODE_OF_STATUS.get(status, by_status)
        retry_after = wait / 1000 if isinstance(wait, (int, float)) and 0 <= wait < 1e12 else None
        # `code: ` is part of the text of an error already.
        message = _without(secrets, detail[:_LONGEST_DETAIL])
        error = refusal(code, message, retry_after, details if isinstance(details, dict) else None)
        if status in _OTHERS_MAY_KNOW or code == "OTHER_REGISTRY":
            return Failure(error, lasting=True, told=True)
        if status in _TRY_AGAIN:
            return Failure(error, told=True)
        raise error

    def _late(self) -> SnowleaseError:
        where = ", ".join(daemon.shown for daemon in self.daemons)
        return refusal("REGISTRY_UNAVAILABLE", f"No daemon at {where} answered within {self._timeout:g} s; check that one runs.")


def read_registry(text: str) -> Registry:
    """Reads a registry URL: `http://HOST:PORT` or `https://…`, several of them separated by commas, or `unix:PATH`.

    Its query takes `namespace`, `token` and `borrow`, and with https `tlsCa`, `tlsCert` and `tlsKey`: PEM files. Raises CONFIG_INVALID.
    """
    scheme, _, rest = text.partition(":") if isinstance(text, str) else ("", "", "")
    scheme = scheme.lower()
    if scheme not in ("http", "https", "unix"):
        raise _invalid("to be a daemon's: http://HOST:PORT, https://HOST:PORT or unix:PATH", text)
    if re.search(r"[\x00-\x20\x7f#]", text):
        raise _invalid("to have no spaces, control characters or `#`", text)
    body, _, query = rest.partition("?")
    settings: Dict[str, str] = {}
    for pair in query.split("&") if query else []:
        name, equals, value = pair.partition("=")
        if name not in ("namespace", "token", "borrow", "tlsCa", "tlsCert", "tlsKey") or not equals or name in settings:
            raise _invalid("to have in its query only namespace, token, borrow, tlsCa, tlsCert and tlsKey, each once", text)
        settings[name] = unquote(value)
    if settings.get("borrow", "true") not in ("true", "false"):
        raise _invalid("to have `borrow` true or false", text)
    files = [settings.pop(name, None) for name in ("tlsCa", "tlsCert", "tlsKey")]
    if scheme == "unix":
        path = unquote(body[2:] if body.startswith("///") else body)
        if path in ("", "/") or path.startswith(("//", "~")) or len(path.encode()) > _LONGEST_SOCKET_PATH or any(files):
            raise _invalid(f"to be like unix:/run/snowlease.sock, with a path of at most {_LONGEST_SOCKET_PATH} bytes", text)
        return Registry([Daemon(f"unix:{path}", None, path, None)], settings)
    parts = [part if "://" in part else f"{scheme}://{part}" for part in f"{scheme}:{body}".split(",")]
    urls = [_read_url(part, text) for part in parts]
    secure = any(url.scheme == "https" for url in urls)
    if any(files) and not secure:
        raise _invalid("to name certificates only with https:", text)
    tls = _tls_context(*files) if secure else None
    return Registry([Daemon(_shown(url), url, "", tls if url.scheme == "https" else None) for url in urls], settings)


def _read_url(part: str, text: str) -> SplitResult:
    try:
        url = urlsplit(part)
        valid = url.scheme in ("http", "https") and url.hostname and url.port != 0 and part.isascii() and "\\" not in part
    except ValueError:
        valid = False
    if not valid:
        raise _invalid("to be a list of addresses like http://HOST:PORT, separated by commas", text)
    return url


def _shown(url: SplitResult) -> str:
    login = "***@" if "@" in url.netloc else ""
    return f"{url.scheme}://{login}{url.netloc.rpartition('@')[2]}{url.path}".rstrip("/")


def _invalid(rule: str, text: object) -> SnowleaseError:
    # All up to the last `@` may be a password, and so may the query.
    return expected("registry", rule, re.sub(r"^(\w*:/*)?.*@", r"\1***@", str(text)).partition("?")[0])


def _tls_context(ca: Optional[str], certificate: Optional[str], key: Optional[str]) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=ca)
        if certificate is not None:
            context.load_cert_chain(certificate, key)
        return context
    except (OSError, ValueError) as cause:
        named = ", ".join(f"`{name}`" for name, file in (("tlsCa", ca), ("tlsCert", certificate), ("tlsKey", key)) if file)
        raise refusal("CONFIG_INVALID", f"Expected {named} to be PEM files that belong together: {cause}.") from None


class _Bytes:
    """What `HTTPResponse` takes for a socket."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def makefile(self, *_: object) -> io.BytesIO:
        return io.BytesIO(self._data)


def _read(connection: socket.socket, method: str, deadline: float) -> http.client.HTTPResponse:
    """Reads an answer to its end, and no longer than to the deadline, however slowly it comes."""
    data = bytearray()
    # A proxy, or a process that was forked meanwhile, may keep the connection open behind the answer.
    while not _is_whole(data):
        connection.settimeout(_left(deadline))
        part = connection.recv(65536)
        if not part:
            break
        data += part
        if len(data) > _LONGEST_ANSWER:
            raise ValueError(f"its answer has more than {_LONGEST_ANSWER} bytes")
    response = http.client.HTTPResponse(_Bytes(bytes(data)), method=method)  # type: ignore[arg-type]
    response.begin()
    return response


def _is_whole(data: bytearray) -> bool:
    end = data.find(b"\r\n\r\n")
    length = None if end < 0 else _LENGTH.search(data, 0, end + 2)
    return length is not None and len(data) - end - 4 >= int(length[1])


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError("timed out")
    return left


def _object(text: bytes) -> Json:
    value = json.loads(text, parse_constant=_no_constant)
    if not isinstance(value, dict):
        raise TypeError("no object")
    return value


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _without(secrets: Sequence[str], text: str) -> str:
    for secret in secrets:
        text = text.replace(secret, "***")
    return text


def _unavailable(daemon: Daemon, what: str, lasting: bool = False) -> Failure:
    details = {"lasting": True} if lasting else None
    return Failure(refusal("REGISTRY_UNAVAILABLE", f"The daemon at {daemon.shown} {what}.", details=details), lasting)


def _telling(failures: Sequence[Failure], asked: int) -> Optional[Failure]:
    """The failure that says most: a daemon's answer says more than the silence of another one."""
    here = [failure for failure in failures if failure.error.code != "OTHER_REGISTRY"]
    if not here:
        return failures[0] if len(failures) == asked else None
    refused = [failure for failure in here if failure.error.code != "REGISTRY_UNAVAILABLE"]
    told = [failure for failure in here if failure.told]
    return refused[-1] if refused else told[0] if told else here[0]


def _passes_in(failures: Sequence[Failure]) -> float:
    """In how many seconds one of the daemons may have another answer; infinite: not within a call."""
    errors = [failure.error for failure in failures if not failure.lasting]
    # A full pool or a quarantine: the registry's word, and it is the same one behind all of them.
    if any(error.code not in ("REGISTRY_UNAVAILABLE", "RATE_LIMITED") for error in errors):
        return float("inf")
    return min((error.retry_after or 0 for error in errors), default=float("inf"))
