"""Blocks of a lease that a daemon lends: of lenders that do as they should, and of hostile ones."""

import os
import threading
import time
from typing import Any, Callable, Dict, List, Tuple

import pytest
from daemon import LAYOUT, Answer, Daemon, Request, granted, refused
from snowlease import Layout, LeaseSnapshot, Snowflake, SnowleaseError, Unavailable
from test_processes import in_child, take

Make = Callable[..., Snowflake]
WESTID = Layout(LAYOUT)


def is_blocks(request: Request) -> bool:
    return request.path.endswith("/blocks")


class Lender:
    """Gives each block of a span once, the lowest first."""

    def __init__(self, daemon: Daemon) -> None:
        self.daemon = daemon
        self.worker_id = 7
        self.renew_after = 20_000
        self.taken: Dict[Tuple[int, int], int] = {}
        # By token.
        self.given: Dict[Tuple[str, int], int] = {}
        self._lock = threading.Lock()

    def __call__(self, request: Request) -> Any:
        if is_blocks(request):
            return Answer(200, {"blocks": self.give(**request.body)})
        return granted(request, worker_id=self.worker_id, renew_after=self.renew_after, **({"shared": True} if request.method == "POST" else {}))

    def give(self, token: str, first: int, spans: int, blocks: int, **_: Any) -> List[int]:
        with self._lock:
            return [self._give(token, span, blocks) for span in range(first, first + spans)]

    def _give(self, token: str, span: int, blocks: int) -> int:
        bits, key = 0, (self.worker_id, span)
        for block in range(32):
            if blocks > 0 and not self.taken.get(key, 0) >> block & 1:
                self.taken[key] = self.taken.get(key, 0) | 1 << block
                bits |= 1 << block
                blocks -= 1
        self.given[token, span] = self.given.get((token, span), 0) | bits
        return bits

    def owns(self, token: str, id: int) -> bool:
        parts = WESTID.decompose(id)
        span = WESTID.tick_of(parts.timestamp) // 64
        return bool(self.given.get((token, span), 0) >> parts.sequence // 128 & 1)

    @property
    def tokens(self) -> List[str]:
        return [request.body["token"] for request in self.daemon.of("POST") if request.path.endswith("/leases")]


@pytest.fixture
def lender(daemon: Daemon) -> Lender:
    daemon.answer = lender = Lender(daemon)
    return lender


def drain(ids: Snowflake, count: int) -> List[int]:
    made: List[int] = []
    while len(made) < count:
        try:
            made.append(ids.next())
        except Unavailable as refused:
            assert refused.code == "SEQUENCE_EXHAUSTED"
    return made


def test_makes_ids_of_its_blocks_alone(daemon: Daemon, lender: Lender, make: Make) -> None:
    lender.renew_after = 50
    ids = make(f"{daemon.url}?borrow=true", max_wait=5)
    made = take(ids, 30_000)
    while not daemon.of("PATCH"):
        time.sleep(0.005)
    ids.close()
    assert len(set(made)) == 30_000 and all(lender.owns(lender.tokens[0], id) for id in made)
    assert len(lender.tokens) == 1
    asked = [request.body for request in daemon.requests if is_blocks(request)]
    # Before the first ID.
    assert {name: asked[0][name] for name in ("spans", "blocks", "held", "fence")} == {"spans": 80, "blocks": 1, "held": 0, "fence": 1}
    assert any(body["spans"] == 4 and body["held"] > 1 for body in asked)
    # After a renewal, with its turn.
    turn = daemon.of("PATCH")[0].body["nextTurn"]
    assert all("turn" not in body or body["turn"] for body in asked) and turn not in (asked[0].get("turn"), asked[0].get("nextTurn"))
    assert daemon.of("POST")[0].body["shared"] is True
    for request in daemon.of("PATCH") + daemon.of("DELETE"):
        assert not {"until", "lastTimestamp", "lastSequence"} & set(request.body)


def test_threads_and_forks_make_no_id_twice(daemon: Daemon, lender: Lender, make: Make) -> None:
    ids = make(borrow=True, max_wait=5)
    made: List[List[int]] = [[] for _ in range(4)]
    threads = [threading.Thread(target=lambda own=own: own.extend(take(ids, 5000))) for own in made]
    take(ids, 1)
    for thread in threads:
        thread.start()
    # Beside the threads, which are in the middle of `next`.
    children = [in_child(os.fork, lambda: take(ids, 2000)) for _ in range(3)]
    for thread in threads:
        thread.join()
    everything = [id for own in made + children for id in own]
    assert len(set(everything)) == len(everything) == 26_000
    assert {WESTID.decompose(id).worker_id for id in everything} == {7}
    # Each child with a token, and so with blocks, of its own.
    assert len(set(lender.tokens)) == 4
    for token, own in zip(lender.tokens[1:], children):
        assert all(lender.owns(token, id) for id in own)


def test_the_lease_is_the_same_object_until_something_changes(daemon: Daemon, lender: Lender, make: Make) -> None:
    lender.renew_after = 50
    ids = make(borrow=True, max_wait=5)
    assert ids.lease is None
    ids.next()
    first = ids.lease
    assert isinstance(first, LeaseSnapshot) and (first.worker_id, first.fence) == (7, 1) and first.start < first.until
    while ids.lease is first:
        time.sleep(0.005)
    assert ids.lease is not None and ids.lease.until > first.until and ids.lease.start >= first.start
    ids.close()
    assert ids.lease is None


def test_a_daemon_that_does_not_lend(daemon: Daemon, make: Make) -> None:
    with pytest.raises(SnowleaseError) as refusal:
        make(borrow=True).next()
    assert refusal.value.code == "CONFIG_INVALID" and "--lend" in str(refusal.value)
    (give_back,) = daemon.of("DELETE")
    # Unused.
    assert "until" in give_back.body and "lastTimestamp" not in give_back.body


@pytest.mark.parametrize("shared", [1, "true", None, [], {}], ids=str)
@pytest.mark.parametrize("borrow", [True, False])
def test_a_grant_that_is_shared_or_not(daemon: Daemon, make: Make, shared: Any, borrow: bool) -> None:
    daemon.answer = lambda request: granted(request, shared=shared)
    with pytest.raises(SnowleaseError) as refusal:
        make(borrow=borrow, operation_timeout=0.1).next()
    assert refusal.value.code == "REGISTRY_UNAVAILABLE"


WRONG_BLOCKS = [
    {},
    {"blocks": None},
    {"blocks": 1},
    {"blocks": "1"},
    {"blocks": {"0": 1}},
    {"blocks": [1] * 81},
    {"blocks": [True] * 4},
    {"blocks": [1.0] * 4},
    {"blocks": ["1"] * 4},
    {"blocks": [[1]] * 4},
    {"blocks": [-1] * 4},
    {"blocks": [2**32] * 4},
    {"blocks": [2**64 + 1] * 4},
    {"blocks": []},
    {"blocks": [0] * 80},
]


@pytest.mark.parametrize("wrong", WRONG_BLOCKS, ids=lambda wrong: str(wrong)[:40])
def test_what_is_no_block(daemon: Daemon, lender: Lender, make: Make, wrong: Any) -> None:
    daemon.answer = lambda request: Answer(200, wrong) if is_blocks(request) else lender(request)
    ids = make(borrow=True, max_wait=0.2)
    with pytest.raises(Unavailable) as refusal:
        ids.next()
    assert refusal.value.code == "SEQUENCE_EXHAUSTED"
    # The lender comes to its senses.
    daemon.answer = lender
    drain(ids, 10)


def test_a_block_that_the_layout_does_not_have(daemon: Daemon, lender: Lender, make: Make) -> None:
    layout = "timestamp:41,worker:10,sequence:2@1490346283706/1"

    def answer(request: Request) -> Any:
        if is_blocks(request):
            return Answer(200, {"blocks": [1 << 4] * request.body["spans"]})
        return granted(request, layout=layout, **({"shared": True} if request.method == "POST" else {}))

    daemon.answer = answer
    with pytest.raises(Unavailable) as refusal:
        make(borrow=True, max_wait=0.2).next()
    # Its sequences would be bits of the worker ID.
    assert refusal.value.code == "SEQUENCE_EXHAUSTED" and "block" in str(refusal.value)


def test_a_block_that_is_given_again_and_again(daemon: Daemon, lender: Lender, make: Make) -> None:
    daemon.answer = lambda request: Answer(200, {"blocks": [0b101] * request.body["spans"]}) if is_blocks(request) else lender(request)
    made = drain(make(borrow=True, max_wait=0.05), 5000)
    assert len(set(made)) == 5000
    assert {WESTID.decompose(id).sequence // 128 for id in made} == {0, 2}


def test_a_lender_that_answers_no_request_for_blocks(daemon: Daemon, lender: Lender, make: Make) -> None:
    lender.renew_after = 50
    daemon.answer = lambda request: [b"HTTP/1.1 200 X\r\n"] + [b"x: y\r\n"] * 10**5 if is_blocks(request) else lender(request)
    ids = make(borrow=True, max_wait=0.1, operation_timeout=0.3)
    for _ in range(3):
        with pytest.raises(Unavailable) as refusal:
            ids.next()
        assert refusal.value.code == "SEQUENCE_EXHAUSTED" and refusal.value.retry_after is not None
    # Renewals go on, and so does the end.
    while len(daemon.of("PATCH")) < 3:
        time.sleep(0.01)
    ids.close()
    assert len(daemon.of("DELETE")) == 1


def test_no_blocks_of_a_claim_that_a_renewal_still_knows(daemon: Daemon, lender: Lender, make: Make) -> None:
    known = False

    def answer(request: Request) -> Any:
        nonlocal known
        known = known or request.method == "PATCH"
        return refused(410, "LEASE_LOST") if is_blocks(request) and not known else lender(request)

    daemon.answer = answer
    drain(make(borrow=True), 300)
    assert len(daemon.of("PATCH")) >= 1 and len(lender.tokens) == 1


def test_a_lost_lease_is_replaced_and_its_blocks_are_forgotten(daemon: Daemon, lender: Lender, make: Make) -> None:
    def answer(request: Request) -> Any:
        is_over = request.body.get("token") == lender.tokens[0] and lender.worker_id == 8
        if is_over and request.method in ("PATCH", "POST"):
            return refused(410, "LEASE_LOST", details={"reason": "taken"})
        return lender(request)

    daemon.answer = answer
    ids = make(borrow=True, max_wait=0.2)
    made = drain(ids, 2000)
    lender.worker_id = 8
    while WESTID.decompose(made[-1]).worker_id == 7:
        try:
            made.append(ids.next())
        except Unavailable as refusal:
            assert refusal.code in ("SEQUENCE_EXHAUSTED", "LEASE_EXPIRED")
    made += drain(ids, 2000)
    first, second = lender.tokens
    assert first != second and len(set(made)) == len(made)
    assert all(lender.owns(first if WESTID.decompose(id).worker_id == 7 else second, id) for id in made)
    assert not daemon.of("DELETE")


def test_a_daemon_that_is_gone(daemon: Daemon, lender: Lender, make: Make) -> None:
    ids = make(borrow=True, max_wait=0.1, operation_timeout=0.2)
    drain(ids, 10)
    daemon.answer = lambda _: None
    with pytest.raises(Unavailable) as refusal:
        while True:
            ids.next()
            time.sleep(0.001)
    # For the 5 s that were prefetched, IDs go on; then it is told why there are none.
    assert refusal.value.code == "SEQUENCE_EXHAUSTED" and "REGISTRY_UNAVAILABLE" in str(refusal.value)
    daemon.answer = lender
    drain(ids, 10)


@pytest.mark.parametrize("registry", ["http://a?borrow=yes", "http://a?borrow=", "http://a?borrow=true&borrow=true", "http://a,http://b?borrow=true"])
def test_refused_registry(registry: str) -> None:
    with pytest.raises(SnowleaseError) as refusal:
        Snowflake(registry)
    assert refusal.value.code == "CONFIG_INVALID"


@pytest.mark.parametrize("borrow", [1, "true", 0, []], ids=repr)
def test_refused_option(borrow: Any) -> None:
    with pytest.raises(SnowleaseError) as refusal:
        Snowflake("http://a", borrow=borrow)
    assert refusal.value.code == "CONFIG_INVALID"


def test_the_option_goes_before_the_address(daemon: Daemon, lender: Lender, make: Make) -> None:
    with pytest.raises(SnowleaseError) as refusal:
        make(f"{daemon.url}?borrow=true", borrow=False).next()
    assert refusal.value.code == "CONFIG_INVALID" and "shared" not in daemon.of("POST")[0].body
