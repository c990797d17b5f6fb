"""What daemons answer: as they should, not at all, wrongly, and too late."""

from __future__ import annotations

import json
import pickle
import socket
import threading
import time
from typing import Any, Callable

import pytest
from daemon import LAYOUT, Answer, Daemon, Request, granted, now, refused

import snowlease.snowflake
from snowlease import Layout, Snowflake, SnowleaseError, Unavailable
from snowlease.errors import time_text

Make = Callable[..., Snowflake]


def until(holds: Callable[[], object]) -> None:
    while not holds():
        time.sleep(0.005)


def worker_of(id: int) -> int:
    return Layout(LAYOUT).decompose(id).worker_id


def test_claims_once_and_gives_back_behind_the_last_id(daemon: Daemon, make: Make) -> None:
    ids = make()
    assert (ids.lease, daemon.requests) == (None, [])
    made = [ids.next() for _ in range(10_000)]
    assert len(set(made)) == 10_000 and made == sorted(made)
    assert ids.lease is not None and ids.lease[:2] == (7, 1)
    ids.close()
    with pytest.raises(SnowleaseError) as ended:
        ids.next()
    assert (ended.value.code, ids.lease) == ("LEASE_LOST", None)
    claim, give_back = daemon.requests
    assert claim.body["continues"] is False and len(claim.body["token"]) == 32
    last = Layout(LAYOUT).decompose(made[-1])
    assert (give_back.body["lastTimestamp"], give_back.body["lastSequence"]) == (last.timestamp, last.sequence)
    assert give_back.body["until"] == last.timestamp + 1
    assert (give_back.body["token"], give_back.body["fence"], give_back.receipt) == (claim.body["token"], 1, "granted")


WRONG_GRANTS = [
    {"workerId": 1024},
    {"workerId": -1},
    {"workerId": 7.0},
    {"workerId": True},
    {"workerId": "7"},
    {"workerId": None},
    {"fence": 2**53},
    {"from": 2**64},
    {"until": 2**63},
    {"until": 1},
    {"until": 1e300},
    {"from": -1},
    {"renewAfterMs": "soon"},
    {"layout": 5},
    {"token": "0" * 32},
]


@pytest.mark.parametrize("wrong", WRONG_GRANTS, ids=str)
def test_wrong_grant(daemon: Daemon, make: Make, wrong: Any) -> None:
    daemon.answer = lambda request: granted(request, **wrong)
    check_unavailable(make(operation_timeout=0.1))


def test_a_shared_lease(daemon: Daemon, make: Make) -> None:
    daemon.answer = lambda request: granted(request, shared=True)
    with pytest.raises(SnowleaseError) as refusal:
        make().next()
    assert refusal.value.code == "CONFIG_INVALID" and not isinstance(refusal.value, Unavailable)


def test_grant_of_another_layout(daemon: Daemon, make: Make) -> None:
    check_unavailable(make(layout="sonyflake", operation_timeout=0.1))


def test_a_daemon_that_repeats_a_token_in_a_grant(daemon: Daemon, make: Make) -> None:
    daemon.answer = lambda request: granted(request, layout=f"{request.body['token']} secret-of-mine")
    with pytest.raises(SnowleaseError, match="CONFIG_INVALID") as refusal:
        make(token="secret-of-mine").next()
    assert daemon.requests[0].body["token"] not in repr(refusal.value) and "secret-of-mine" not in repr(refusal.value)


def test_a_long_message_costs_no_more_than_a_short_one(daemon: Daemon, make: Make) -> None:
    daemon.answer = lambda request: refused(400, "CONFIG_INVALID", "a:/" * 80_000)
    with pytest.raises(SnowleaseError) as refusal:
        make().next()
    assert len(str(refusal.value)) < 1100


@pytest.mark.parametrize("layout", ["worker:1", "timestamp:21,worker:5,sequence:5@1490346283706/1/wraps"])
def test_a_layout_that_this_client_does_not_know(daemon: Daemon, make: Make, layout: str) -> None:
    daemon.answer = lambda request: granted(request, layout=layout)
    with pytest.raises(SnowleaseError) as refusal:
        make().next()
    assert refusal.value.code == "CONFIG_INVALID" and layout in str(refusal.value)


def head(length: int) -> bytes:
    return f"HTTP/1.1 201 X\r\ncontent-length: {length}\r\n\r\n".encode()


GARBAGE = {
    "nothing": b"",
    "no HTTP": b"\x00\xff" * 100,
    "an endless line": b"HTTP/1.1 200 " + b"x" * 200_000,
    "another protocol": b"SSH-2.0-OpenSSH_9\r\n",
    "no JSON": head(5) + b"hello",
    "a list": head(2) + b"[]",
    "NaN": head(16) + b'{"workerId":NaN}',
    "nested": head(100_000) + b"[" * 100_000,
    "a huge number": head(50_002) + b"[" + b"9" * 50_000 + b"]",
    "not UTF-8": head(4) + b'"\xff\xfe"',
    "cut off": head(1000) + b'{"workerId":',
    "too long": head(10**6) + b" " * 10**6,
    "a wrong length": b"HTTP/1.1 201 X\r\ncontent-length: -5\r\n\r\n{}",
    "a wrong chunk": b"HTTP/1.1 201 X\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
    "elsewhere": b"HTTP/1.1 302 X\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n",
    "a page": b"HTTP/1.1 404 X\r\ncontent-length: 6\r\n\r\n<html>",
    "a problem of wrong types": b'HTTP/1.1 503 X\r\ncontent-length: 24\r\n\r\n{"code":5,"detail":true}',
}


@pytest.mark.parametrize("garbage", GARBAGE.values(), ids=GARBAGE)
def test_garbage(daemon: Daemon, make: Make, garbage: bytes) -> None:
    daemon.answer = lambda _: garbage
    check_unavailable(make(operation_timeout=0.1))


def test_an_answer_that_never_ends(daemon: Daemon, make: Make) -> None:
    daemon.answer = lambda _: [head(10**6)] + [b" "] * 10**5
    check_unavailable(make(operation_timeout=0.2))


def test_a_daemon_that_is_silent(make: Make) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        check_unavailable(make(f"http://127.0.0.1:{silent.getsockname()[1]}", operation_timeout=0.2))


def check_unavailable(ids: Snowflake) -> None:
    with pytest.raises(Unavailable) as refusal:
        ids.next()
    assert refusal.value.code == "REGISTRY_UNAVAILABLE"
    assert "\n" not in str(refusal.value)


def test_a_lost_answer_is_asked_for_again_with_the_same_token(daemon: Daemon, make: Make) -> None:
    daemon.answer = lambda request: None if len(daemon.requests) < 3 else granted(request)
    make().next()
    assert len({request.body["token"] for request in daemon.requests}) == 1
    assert len(daemon.requests) == 3


def test_a_claim_after_one_that_failed_has_another_token(daemon: Daemon, make: Make) -> None:
    daemon.answer = lambda _: refused(503, "POOL_EXHAUSTED", retryAfterMs=41_000)
    ids = make()
    with pytest.raises(Unavailable) as refusal:
        ids.next()
    assert (refusal.value.code, refusal.value.retry_after, ids.lease) == ("POOL_EXHAUSTED", 41, None)
    daemon.answer = granted
    ids.next()
    assert len({request.body["token"] for request in daemon.of("POST")}) == 2


class Clocks:
    """The wall clock ahead of the monotonic one, as a test says, for all modules."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ahead = 0.0
        real, real_ns = time.time, time.time_ns
        monkeypatch.setattr(time, "time", lambda: real() + self.ahead)
        monkeypatch.setattr(time, "time_ns", lambda: real_ns() + int(self.ahead * 1e9))
        monkeypatch.setattr(snowlease.snowflake, "time_ns", lambda: real_ns() + int(self.ahead * 1e9))


def test_a_clock_that_was_set_back_amid_a_claim_stops_no_renewal(daemon: Daemon, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    clocks = Clocks(monkeypatch)
    clocks.ahead = 3600.0

    def answer(request: Request) -> Answer | None:
        if len(daemon.requests) > 1:
            return granted(request, renew_after=50)
        clocks.ahead = 0.0
        return None

    daemon.answer = answer
    make().next()
    until(lambda: len(daemon.of("PATCH")) > 2)


def test_what_may_be_a_copy_claims_with_another_token(daemon: Daemon, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    clocks = Clocks(monkeypatch)

    def answer(request: Request) -> Answer | None:
        clocks.ahead += 10 if len(daemon.requests) < 3 else 0
        return None if len(daemon.requests) < 3 else granted(request)

    daemon.answer = answer
    ids = make()
    ids.next()
    ids.close()
    assert len({request.body["token"] for request in daemon.of("POST")}) == 3
    # The last one was drawn after the jumps.
    assert "until" in daemon.of("RELEASE")[0].body


@pytest.mark.parametrize("amid", ["POST", "PATCH"])
def test_what_may_be_a_copy_gives_back_without_the_end_of_its_use(daemon: Daemon, make: Make, monkeypatch: pytest.MonkeyPatch, amid: str) -> None:
    clocks = Clocks(monkeypatch)

    def answer(request: Request) -> Answer:
        # The machine was copied while this was on its way.
        clocks.ahead += 10 if request.method == amid and len(daemon.of(amid)) == 1 else 0
        return granted(request, renew_after=50)

    daemon.answer = answer
    ids = make()
    ids.next()
    until(lambda: len(daemon.of("PATCH")) > 1)
    ids.close()
    (give_back,) = daemon.of("RELEASE")
    assert not {"until", "lastTimestamp"} & set(give_back.body)


def test_the_daemon_that_answered_last_is_asked_first(daemon: Daemon, other: Daemon, make: Make) -> None:
    daemon.answer = lambda request: refused(503, "REGISTRY_UNAVAILABLE")
    other.answer = lambda request: refused(503, "POOL_EXHAUSTED")
    ids = make(f"{daemon.url},{other.url}", claim_timeout=60)
    daemons = ids._holder._daemons
    for _ in range(2):
        with pytest.raises(Unavailable, match="POOL_EXHAUSTED"):
            daemons.call("POST", "/", lambda _: {}, lambda _: None)
    assert (len(daemon.requests), len(other.requests)) == (2, 2)
    other.answer = lambda request: refused(409, "POOL_EXHAUSTED")
    with pytest.raises(SnowleaseError):
        daemons.call("POST", "/", lambda _: {}, lambda _: None)
    assert (len(daemon.requests), len(other.requests)) == (2, 3)


def test_an_expired_window_tells_why_it_was_not_renewed(daemon: Daemon, make: Make, caplog: pytest.LogCaptureFixture) -> None:
    # A renewal waits for its answer for a third of the window.
    daemon.answer = lambda request: refused(401, "UNAUTHORIZED") if request.method == "PATCH" else granted(request, window=3000, renew_after=50)
    ids = make(max_wait=0)
    ids.next()
    until(lambda: len(daemon.of("PATCH")) > 2 and not has_id(ids))
    with pytest.raises(Unavailable, match="LEASE_EXPIRED: .* The last one did not: UNAUTHORIZED: No\\."):
        ids.next()
    # Once.
    assert [record.message for record in caplog.records] == ["Worker 7 of namespace `default` is not renewed: UNAUTHORIZED: No."]


def test_waits_for_a_worker_id_as_long_as_it_may(daemon: Daemon, make: Make) -> None:
    daemon.answer = lambda request: refused(503, "POOL_EXHAUSTED", retryAfterMs=30_000) if len(daemon.requests) < 3 else granted(request)
    make(claim_timeout=60).next()
    assert len({request.body["token"] for request in daemon.requests}) == 1


def test_the_next_daemon_is_asked(daemon: Daemon, other: Daemon, make: Make) -> None:
    daemon.answer = lambda request: refused(503, "REGISTRY_UNAVAILABLE") if request.method == "POST" else granted(request)
    make(f"{daemon.url},{other.url}").next()
    assert [len(daemon.of("POST")), len(other.of("POST"))] == [1, 1]
    assert daemon.of("POST")[0].body["token"] == other.of("POST")[0].body["token"]


@pytest.mark.parametrize(
    "status, code", [(401, "UNAUTHORIZED"), (403, "FORBIDDEN"), (500, "SCHEMA_INCOMPATIBLE"), (400, "CONFIG_INVALID"), (418, "TEAPOT")]
)
def test_what_waiting_does_not_help(daemon: Daemon, make: Make, status: int, code: str) -> None:
    daemon.answer = lambda _: refused(status, code)
    with pytest.raises(SnowleaseError) as refusal:
        make().next()
    assert not isinstance(refusal.value, Unavailable)
    assert refusal.value.code == code
    assert len(daemon.requests) == 1


def test_no_message_holds_a_token(daemon: Daemon, make: Make) -> None:
    def echo(request: Request) -> Answer:
        text = f'Bad secret"of<mine\r\nand {request.body["token"]} at http://user:password@host/'
        return refused(400, "CONFIG_INVALID", text, details={"echo": request.body["token"]})

    daemon.answer = echo
    ids = make(token='secret"of<mine')
    with pytest.raises(SnowleaseError) as refusal:
        ids.next()
    said = f"{refusal.value!r} {refusal.value} {ids!r} {refusal.value.details}"
    for secret in ("of<mine", daemon.requests[0].body["token"], "password", "\n", "\r"):
        assert secret not in said


def test_a_lost_lease_is_replaced_with_another_token(daemon: Daemon, make: Make) -> None:
    def answer(request: Request) -> Answer:
        if request.method == "PATCH" and request.path.endswith("/7"):
            return refused(410, "LEASE_LOST", details={"reason": "taken"})
        return granted(request, worker_id=7 + len(daemon.of("POST")) - 1, renew_after=50 if len(daemon.of("POST")) < 2 else 20_000)

    daemon.answer = answer
    ids = make(max_wait=60)
    made = [ids.next()]
    while worker_of(made[-1]) == 7:
        made.append(ids.next())
    assert len(set(made)) == len(made) and ids.lease is not None and ids.lease.worker_id == 8
    first, second = daemon.of("POST")
    assert first.body["token"] != second.body["token"]
    # A registry that went back in time learns from it what it forgot.
    assert second.receipt == "granted" and second.body["layout"] == LAYOUT


def test_the_log_tells_of_lost_leases_and_of_doubts(daemon: Daemon, make: Make, caplog: pytest.LogCaptureFixture) -> None:
    begin, end = now() - 3600_000, now() + 3600_000
    answers = iter(
        [{"reason": "taken"}, {"reason": "released", "doubt": {"from": begin, "until": end}}, {"reason": "cloned"}, {"reason": "x\ny", "doubt": "z"}]
    )

    def answer(request: Request) -> Answer:
        if request.method == "PATCH":
            details = next(answers, None)
            if details is not None:
                return refused(410, "LEASE_LOST", request.body["token"], details=details)
        return granted(request, worker_id=len(daemon.of("POST")), renew_after=50)

    daemon.answer = answer
    ids = make()
    # Each next ID after a loss claims another worker ID.
    until(lambda: has_id(ids) and sum("takes the place" in record.message for record in caplog.records) == 4)
    claims = daemon.of("POST")
    lines = [record.message for record in caplog.records if record.name == "snowlease"]
    one, two, three, four = lines[::2]
    assert one == "Worker 1 of namespace `default` was lost (taken); the next ID claims another one."
    # From the last request that was answered.
    asked = time_text(claims[1].body["now"])
    assert two == f"Worker 2 of namespace `default` was lost (released). Its IDs from {asked} to {time_text(end)} may exist twice."
    asked = time_text(claims[2].body["now"])
    assert three.startswith(f"Worker 3 of namespace `default` was lost (cloned). Its IDs from {asked} to ")
    assert four == "Worker 4 of namespace `default` was lost (LEASE_LOST); the next ID claims another one."
    assert lines[1::2] == [f"Worker {n + 1} of namespace `default` takes the place of worker {n}." for n in (1, 2, 3, 4)]
    levels = [record.levelname for record in caplog.records if record.name == "snowlease"]
    assert levels == ["WARNING", "WARNING", "ERROR", "WARNING", "ERROR", "WARNING", "WARNING", "WARNING"]
    assert not any(claim.body["token"] in line for claim in claims for line in lines)


def test_the_log_tells_of_a_doubt_at_the_give_back(daemon: Daemon, make: Make, caplog: pytest.LogCaptureFixture) -> None:
    doubt = {"from": 0, "until": now() + 3600_000}
    daemon.answer = lambda request: (
        refused(410, "LEASE_LOST", details={"reason": "taken", "doubt": doubt}) if request.method == "RELEASE" else granted(request)
    )
    ids = make()
    ids.next()
    ids.close()
    (line,) = [record.message for record in caplog.records]
    assert "may exist twice" in line and time_text(doubt["until"]) in line


def test_a_lost_lease_that_is_not_replaced_is_told_to_each_caller(daemon: Daemon, make: Make, caplog: pytest.LogCaptureFixture) -> None:
    def answer(request: Request) -> Answer:
        if request.method == "PATCH":
            return refused(410, "LEASE_LOST")
        return granted(request, renew_after=50) if len(daemon.of("POST")) < 2 else refused(403, "FORBIDDEN", "No more.")

    daemon.answer = answer
    ids = make()
    ids.next()
    until(lambda: len(caplog.records) == 1)
    for claims in (2, 3):
        with pytest.raises(SnowleaseError, match="FORBIDDEN: No more."):
            while True:
                ids.next()
        assert ids.lease is None and len(daemon.of("POST")) == claims


def test_an_answer_whose_connection_stays_open(make: Make) -> None:
    kept: list[socket.socket] = []

    def serve(listener: socket.socket) -> None:
        for _ in ("claim", "give-back"):
            connection, _ = listener.accept()
            kept.append(connection)
            head, _, body = connection.recv(65536).partition(b"\r\n\r\n")
            answer = granted(Request(head.split()[0].decode(), "", None, json.loads(body)))
            text = json.dumps(answer.body).encode()
            connection.sendall(b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n" % (answer.status, len(text)) + text)

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        thread = threading.Thread(target=serve, args=(listener,))
        thread.start()
        with make(f"http://127.0.0.1:{listener.getsockname()[1]}", operation_timeout=60) as ids:
            assert ids.next() > 0
        thread.join()
        assert len(kept) == 2
        for connection in kept:
            connection.close()


def test_other_registry_ends_a_lease_only_where_each_daemon_says_so(daemon: Daemon, other: Daemon, make: Make) -> None:
    def elsewhere(request: Request) -> Answer:
        return refused(409, "OTHER_REGISTRY") if request.method == "PATCH" else granted(request, renew_after=50)

    daemon.answer = elsewhere
    other.answer = lambda request: granted(request, renew_after=50)
    ids = make(f"{daemon.url},{other.url}")
    ids.next()
    until(lambda: len(other.of("PATCH")) > 2)
    assert ids.lease is not None and daemon.of("PATCH") and len(daemon.of("POST")) == 1
    other.answer = elsewhere
    until(lambda: has_id(ids) and len(daemon.of("POST") + other.of("POST")) > 1)
    tokens = {request.body["token"] for request in daemon.of("POST") + other.of("POST")}
    assert len(tokens) > 1


def test_daemons_of_two_registries_are_refused(daemon: Daemon, other: Daemon, make: Make) -> None:
    other.answer = lambda request: Answer(200, {"id": "two"}) if request.method == "GET" else granted(request)
    with pytest.raises(SnowleaseError) as refusal:
        make(f"{daemon.url},{other.url}").next()
    assert refusal.value.code == "CONFIG_INVALID" and "different registries" in str(refusal.value)
    assert len(daemon.of("RELEASE")) == 1


def test_turns_and_receipts(daemon: Daemon, make: Make) -> None:
    def answer(request: Request) -> Answer | None:
        # The answer to every second renewal is lost.
        return None if request.method == "PATCH" and len(daemon.of("PATCH")) % 2 else granted(request, renew_after=50)

    daemon.answer = answer
    ids = make()
    ids.next()
    until(lambda: len(daemon.of("PATCH")) >= 6)
    renewals = daemon.of("PATCH")[:6]
    turns = [(request.body.get("turn"), request.body["nextTurn"]) for request in renewals]
    assert turns[0] == turns[1] and turns[2] == turns[3] and turns[4] == turns[5]
    assert turns[0][0] is None and turns[2][0] == turns[0][1] and turns[4][0] == turns[2][1]
    assert len({turn for _, turn in turns}) == 3
    assert [request.receipt for request in renewals] == ["granted"] * 2 + ["renewed"] * 4
    assert all("lastTimestamp" in request.body for request in renewals)


def test_goes_on_to_the_end_of_the_window_and_no_further(daemon: Daemon, make: Make) -> None:
    daemon.answer = lambda request: (
        refused(503, "REGISTRY_UNAVAILABLE") if request.method == "PATCH" else granted(request, window=400, renew_after=50)
    )
    ids = make(max_wait=0)
    made = []
    with pytest.raises(Unavailable) as refusal:
        while True:
            try:
                made.append(ids.next())
                time.sleep(0.0005)
            except Unavailable as refused_now:
                if refused_now.code != "SEQUENCE_EXHAUSTED":
                    raise
    assert refusal.value.code == "LEASE_EXPIRED"
    assert ids.lease is not None
    last = ids.lease.until
    assert all(Layout(LAYOUT).decompose(id).timestamp < last for id in made)
    # A renewal reopens it.
    daemon.answer = granted
    until(lambda: any(request.method == "PATCH" for request in daemon.requests) and has_id(ids))


def has_id(ids: Snowflake) -> bool:
    try:
        return ids.next() > 0
    except Unavailable:
        return False


@pytest.mark.parametrize(
    "answer", [{"until": 2**64}, {"until": "x"}, {"from": None}, {"turn": 5}, {"renewAfterMs": -1}, {"from": 2**53 - 1, "until": 1}], ids=str
)
def test_wrong_renewal_changes_nothing(daemon: Daemon, make: Make, answer: Any) -> None:
    daemon.answer = lambda request: granted(request, renew_after=50, **(answer if request.method == "PATCH" else {}))
    ids = make(operation_timeout=0.1)
    ids.next()
    lease = ids.lease
    until(lambda: len(daemon.of("PATCH")) > 3)
    assert lease is not None and ids.lease == lease
    ids.next()


def test_quarantine_gives_up_the_times_before(daemon: Daemon, make: Make) -> None:
    def answer(request: Request) -> Answer:
        if request.method == "PATCH":
            return refused(503, "QUARANTINE", retryAfterMs=60_000)
        return granted(request, renew_after=50)

    daemon.answer = answer
    ids = make(max_wait=60)
    ids.next()
    until(lambda: daemon.of("PATCH"))
    asked = daemon.of("PATCH")[0].body["now"]
    until(lambda: ids.lease and ids.lease.start >= asked)
    assert Layout(LAYOUT).decompose(ids.next()).timestamp >= asked


def test_errors_can_be_pickled() -> None:
    error = Unavailable("POOL_EXHAUSTED", "All: taken.", 2.0, {"a": 1})
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.code, again.retry_after, again.details) == (
        Unavailable,
        "POOL_EXHAUSTED: All: taken.",
        "POOL_EXHAUSTED",
        2.0,
        {"a": 1},
    )


@pytest.mark.parametrize(
    "registry",
    [
        "",
        "redis://127.0.0.1",
        "http://",
        "http:///path",
        "http://host:0",
        "http://host:99999",
        "http://a b",
        "http://a,,b",
        "ftp://a",
        "http://a#x",
        "http://user:secret@a?window=3s",
        "http://:secret@[::1",
        "http://user:sec?secret@host",
        "http://a?token=b@secret&foo=1",
        "http://user:x\nsecret@a",
        "unix:",
        "unix:~/x",
        "unix://host/x",
        "unix:/" + "x" * 107,
        "http://a?tlsCa=/x",
        "https://a?tlsCa=/does/not/exist",
        "http://a\r\nx: y",
    ],
)
def test_refused_registry(registry: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SNOWLEASE_REGISTRY", raising=False)
    with pytest.raises(SnowleaseError) as refusal:
        Snowflake(registry)
    assert refusal.value.code == "CONFIG_INVALID" and "secret" not in str(refusal.value) and "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    "options",
    [{"namespace": "A"}, {"token": "a b"}, {"layout": "x"}, {"max_wait": -1}, {"operation_timeout": 0}, {"instance": 5}, {"claim_timeout": "1"}],
    ids=str,
)
def test_refused_option(options: Any) -> None:
    with pytest.raises(SnowleaseError) as refusal:
        Snowflake("http://127.0.0.1:1", **options)
    assert refusal.value.code == "CONFIG_INVALID"


def test_environment(daemon: Daemon, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    (tmp_path / "token").write_text("of-a-file\n")
    monkeypatch.setenv("SNOWLEASE_REGISTRY", daemon.url)
    monkeypatch.setenv("SNOWLEASE_NAMESPACE", "orders")
    monkeypatch.setenv("SNOWLEASE_TOKEN_FILE", str(tmp_path / "token"))
    with Snowflake() as ids:
        ids.next()
        assert ids._holder._daemons._token == "of-a-file"
    assert {request.path for request in daemon.requests} == {"/v1/orders/leases", "/v1/orders/leases/7/release"}


def test_requests_are_json_of_the_documented_fields(daemon: Daemon, make: Make) -> None:
    daemon.answer = lambda request: granted(request, renew_after=50)
    ids = make(instance="me", layout="westid")
    ids.next()
    until(lambda: daemon.of("PATCH"))
    ids.close()
    fields = {request.method: set(request.body) for request in daemon.requests}
    assert fields["POST"] == {"token", "now", "host", "pid", "continues", "instance", "layout"}
    assert fields["PATCH"] >= {"token", "fence", "now", "nextTurn", "lastTimestamp", "lastSequence"}
    assert fields["RELEASE"] >= {"token", "fence", "now", "until", "lastTimestamp", "lastSequence"}
    assert now() - daemon.of("POST")[0].body["now"] < 60_000
