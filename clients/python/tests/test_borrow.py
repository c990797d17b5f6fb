"""A share of a lent lease: of lenders that do as they should, and of hostile ones."""

import contextlib
import os
import signal
import threading
import time
from typing import Any, Callable

import pytest
from daemon import Answer, Daemon, Lender, Request, granted, refused
from test_answers import GARBAGE, until, worker_of
from test_processes import Interrupted, in_child, take

import snowlease.holder
import snowlease.snowflake
from snowlease import Layout, Snowflake, SnowleaseError, Unavailable
from snowlease.blocks import Blocks

Make = Callable[..., Snowflake]


@pytest.fixture
def lender(daemon: Daemon) -> Lender:
    daemon.answer = lender = Lender()
    return lender


def tokens(daemon: Daemon) -> list[str]:
    return [request.body["token"] for request in daemon.of("POST")]


def drain(ids: Snowflake, count: int) -> list[int]:
    """IDs of a Snowflake that does not wait."""
    made: list[int] = []
    while len(made) < count:
        try:
            made.append(ids.next())
        except Unavailable as refusal:
            assert refusal.code == "SEQUENCE_EXHAUSTED"
            time.sleep(0.0005)
    return made


def test_makes_ids_of_its_blocks_alone(daemon: Daemon, lender: Lender, make: Make) -> None:
    lender.grant["renew_after"] = 50
    begun = time.monotonic()
    ids = make(f"{daemon.url}?borrow=true", max_wait=5)
    assert (ids.lease, daemon.requests) == (None, [])
    made = take(ids, 50_000)
    until(lambda: len(daemon.of("PATCH")) > 1)
    ids.close()
    (token,) = tokens(daemon)
    assert len(set(made)) == 50_000 and all(lender.owns(token, id) for id in made)
    assert daemon.of("POST")[0].body["shared"] is True
    first, *others = [request.body for request in daemon.of("BLOCKS")]
    # Before the first ID.
    assert daemon.requests[1].body is first
    assert {name: first[name] for name in ("spans", "blocks", "held", "fence")} == {"spans": 80, "blocks": 1, "held": 0, "fence": 1}
    # Then once a second; more at once, where a tick is full.
    assert sum(body["spans"] != 4 for body in others) <= time.monotonic() - begun
    assert any(body["spans"] == 4 and body["held"] > 1 for body in others)
    turns = [request.body["nextTurn"] for request in daemon.of("PATCH")]
    assert all(body["turn"] in turns for body in others if "turn" in body)
    assert not any({"until", "lastTimestamp", "lastSequence"} & set(request.body) for request in daemon.requests)
    assert not any(request.receipt for request in daemon.requests)


def test_prefetches_once_a_second(daemon: Daemon, lender: Lender, make: Make) -> None:
    begun = time.monotonic()
    make(borrow=True).claim()
    until(lambda: len(daemon.of("BLOCKS")) > 2)
    assert 1.9 < time.monotonic() - begun < 10
    first, second, third = [request.body for request in daemon.of("BLOCKS")]
    assert second["first"] == first["first"] + 80 and third["first"] == second["first"] + second["spans"] and second["held"] == 0


def test_threads_and_forks_make_no_id_twice(daemon: Daemon, lender: Lender, make: Make) -> None:
    ids = make(borrow=True, max_wait=20)
    made: list[list[int]] = [[] for _ in range(4)]
    threads = [threading.Thread(target=lambda own=own: own.extend(take(ids, 10_000))) for own in made]
    take(ids, 1)
    for thread in threads:
        thread.start()
    # Beside the threads, which are in the middle of `next`.
    children = [in_child(os.fork, lambda: take(ids, 2000)) for _ in range(4)]
    for thread in threads:
        thread.join()
    everything = [id for own in made + children for id in own]
    assert len(set(everything)) == len(everything) == 48_000
    assert {worker_of(id) for id in everything} == {7}
    # Each child with a token, and blocks, of its own.
    parent, *others = tokens(daemon)
    assert len({parent, *others}) == 5
    for token, own in zip(others, children):
        assert all(lender.owns(token, id) for id in own)
    assert all(lender.owns(parent, id) for own in made for id in own)


@pytest.mark.parametrize("raises", [False, True])
def test_signals_amid_borrowing(daemon: Daemon, lender: Lender, make: Make, raises: bool) -> None:
    ids = make(borrow=True, max_wait=20)
    made = take(ids, 1)
    handled: list[int] = []
    signals = 0

    def handler(*_: Any) -> None:
        nonlocal signals
        signals += 1
        if raises:
            raise Interrupted
        handled.extend(take(ids, 20))

    def take_until_one_comes() -> None:
        came = signals
        signal.setitimer(signal.ITIMER_REAL, 0.0007)
        while signals == came:
            made.append(ids.next())

    before = signal.signal(signal.SIGALRM, handler)
    try:
        while signals < 200:
            with contextlib.suppress(Interrupted):
                take_until_one_comes()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert len(set(made + handled)) == len(made) + len(handled)
    assert all(lender.owns(tokens(daemon)[0], id) for id in made + handled)


def stop_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next tick never comes."""
    wall = time.time_ns()
    monkeypatch.setattr(snowlease.snowflake, "time_ns", lambda: wall)


def test_more_blocks_are_not_waited_for_until_the_next_tick(daemon: Daemon, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    daemon.answer = Lender("timestamp:31,worker:10,sequence:6@1700000000000/60000", window=200_000, **{"from": 0})
    # Which may be a minute away.
    ids = make(borrow=True, max_wait=5)
    stop_clock(monkeypatch)
    assert len(set(take(ids, 64))) == 64


def test_a_handler_between_the_wish_for_blocks_and_the_wake_of_the_thread(
    daemon: Daemon, lender: Lender, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it waits for is what its own frame was about to do."""
    for pause in ("_WATCH", "_PREFETCH"):
        monkeypatch.setattr(snowlease.holder, pause, 600)
    ids = make(borrow=True, max_wait=5)
    stop_clock(monkeypatch)
    made = take(ids, 128)
    window = ids._holder.window
    assert window is not None and window.blocks is not None
    blocks, wake = window.blocks, window.blocks._wake

    def interrupted() -> None:
        blocks._wake = wake
        made.append(ids.next())
        wake()

    blocks._wake = interrupted
    made.append(ids.next())
    assert len(set(made)) == 130


def test_a_grant_that_is_not_shared_is_given_back(daemon: Daemon, make: Make) -> None:
    for shared in ({}, {"shared": False}, {"shared": "true"}, {"shared": 1}, {"shared": None}):
        daemon.requests.clear()
        daemon.answer = lambda request: granted(request, **shared)
        with pytest.raises(
            SnowleaseError, match="The registry lends no lease of namespace `default`; start its daemon with `--lend`, or "
        ) as refusal:
            make(borrow=True).next()
        assert refusal.value.code == "CONFIG_INVALID" and not isinstance(refusal.value, Unavailable)
        claim, give_back = daemon.requests
        assert (give_back.method, give_back.body["token"], give_back.receipt) == ("RELEASE", claim.body["token"], "granted")
        # Unused.
        assert give_back.body["until"] < give_back.body["now"] - 5000 and "lastTimestamp" not in give_back.body


@pytest.mark.parametrize("shared", [True, 1, "true", None], ids=str)
def test_a_shared_lease_that_was_not_asked_for(daemon: Daemon, make: Make, shared: Any) -> None:
    daemon.answer = lambda request: granted(request, shared=shared)
    for registry in (daemon.url, f"{daemon.url}?borrow=false"):
        with pytest.raises(SnowleaseError, match="CONFIG_INVALID: This address lends a lease that others use"):
            make(registry).next()


def lends_nothing(request: Request) -> Answer:
    return refused(400, "CONFIG_INVALID", "This daemon lends no lease.", details={"lends": False})


def test_a_daemon_that_lends_nothing_is_final_for_the_first_claim(daemon: Daemon, lender: Lender, make: Make) -> None:
    daemon.answer = lends_nothing
    ids = make(borrow=True)
    with pytest.raises(SnowleaseError, match="lends no lease") as refusal:
        ids.next()
    assert not isinstance(refusal.value, Unavailable) and len(daemon.requests) == 1
    daemon.answer = lender
    assert ids.next() > 0


@pytest.mark.parametrize("knows_shares", [True, False])
def test_a_daemon_that_lends_again_after_a_loss(daemon: Daemon, lender: Lender, make: Make, knows_shares: bool) -> None:
    lender.grant["renew_after"] = 50
    ids = make(borrow=True, claim_timeout=0.5, max_wait=5)
    made = take(ids, 1000)

    def answer(request: Request) -> Any:
        if request.method != "POST":
            return granted(request) if request.method == "RELEASE" else refused(410, "LEASE_LOST")
        return lends_nothing(request) if knows_shares else granted(request, worker_id=9)

    daemon.answer = answer
    until(lambda: ids.lease is None)
    for _ in range(2):
        with pytest.raises(Unavailable, match=r"CONFIG_INVALID: .* lends no lease"):
            ids.next()
    # Once for each call, and each time with another token.
    assert len(set(tokens(daemon))) == len(tokens(daemon)) == 3
    lender.grant.update(worker_id=8, renew_after=20_000)
    daemon.answer = lender
    made += take(ids, 1000)
    assert len(set(made)) == 2000 and worker_of(made[-1]) == 8 and worker_of(made[999]) == 7
    assert all(lender.owns(tokens(daemon)[-1], id) for id in made[1000:])


@pytest.mark.parametrize("refusal", [refused(429, "RATE_LIMITED", retryAfterMs=150), refused(503, "LEASE_EXPIRED")], ids=["full", "without a lease"])
def test_waits_for_a_place(daemon: Daemon, lender: Lender, make: Make, refusal: Answer) -> None:
    daemon.answer = lambda request: refusal if len(daemon.of("POST")) < 3 else lender(request)
    assert make(borrow=True).next() > 0
    assert len(set(tokens(daemon))) == 1
    with pytest.raises(Unavailable) as told:
        daemon.answer = lambda request: refusal
        make(borrow=True, claim_timeout=0, operation_timeout=1).next()
    assert told.value.code == refusal.body["code"]
    daemon.answer = lender


def test_a_claim_of_a_share_waits_longer(daemon: Daemon, make: Make) -> None:
    waits = [
        make(f"{daemon.url}?borrow={url}", borrow=option)._holder._options.claim_timeout for url in ("true", "false") for option in (True, False)
    ]
    assert waits == [15, 15, 15, 0]


@pytest.mark.parametrize("query", ["borrow=", "borrow", "borrow=yes", "borrow=1", "borrow=True", "borrow=true&borrow=true"])
def test_a_wrong_borrow(daemon: Daemon, query: str) -> None:
    with pytest.raises(SnowleaseError, match="CONFIG_INVALID"):
        Snowflake(f"{daemon.url}?{query}")


def test_several_daemons_lend_nothing(daemon: Daemon, other: Daemon) -> None:
    for registry, borrow in ((f"{daemon.url},{other.url}", True), (f"{daemon.url},{other.url}?borrow=true", False)):
        with pytest.raises(SnowleaseError, match="CONFIG_INVALID: Expected `registry` to be one daemon's address, .* since `borrow` asks to borrow"):
            Snowflake(registry, borrow=borrow)
    with pytest.raises(SnowleaseError, match="CONFIG_INVALID: Expected `borrow`"):
        Snowflake(daemon.url, borrow=1)  # type: ignore[arg-type]


WRONG_BLOCKS: list[Any] = [
    {},
    {"blocks": None},
    {"blocks": 1},
    {"blocks": "11"},
    {"blocks": {"0": 1}},
    {"blocks": [1] * 81},
    {"blocks": [True] * 4},
    {"blocks": [1.0] * 4},
    {"blocks": ["1"] * 4},
    {"blocks": [[1]] * 4},
    {"blocks": [-1] * 4},
    {"blocks": [1, 1, 1, 2**32]},
    {"blocks": [2**64 + 1] * 4},
]


@pytest.mark.parametrize("wrong", WRONG_BLOCKS + list(GARBAGE.values()), ids=lambda wrong: str(wrong)[:30])
def test_wrong_blocks(daemon: Daemon, lender: Lender, make: Make, wrong: Any) -> None:
    given = wrong if isinstance(wrong, bytes) else Answer(200, wrong)
    daemon.answer = lambda request: given if request.method == "BLOCKS" else lender(request)
    ids = make(borrow=True, max_wait=0)
    with pytest.raises(Unavailable, match="REGISTRY_UNAVAILABLE: The daemon .* gave no answer to rely on") as refusal:
        ids.next()
    assert refusal.value.code == "SEQUENCE_EXHAUSTED"
    # The lender comes to its senses.
    daemon.answer = lender
    assert all(lender.owns(tokens(daemon)[0], id) for id in drain(ids, 100))


def test_blocks_of_more_spans_than_were_asked_for(daemon: Daemon, lender: Lender, make: Make) -> None:
    daemon.answer = lambda request: Answer(200, {"blocks": [1] * (request.body["spans"] + 1)}) if request.method == "BLOCKS" else lender(request)
    with pytest.raises(Unavailable, match="SEQUENCE_EXHAUSTED: .* as many spans as were asked for"):
        make(borrow=True, max_wait=0.1).next()


def test_a_block_that_the_layout_does_not_have(daemon: Daemon, make: Make) -> None:
    lender = Lender("timestamp:41,worker:10,sequence:2@1490346283706/1")
    daemon.answer = lambda request: Answer(200, {"blocks": [1 << 4] * request.body["spans"]}) if request.method == "BLOCKS" else lender(request)
    # Its sequences would be bits of the worker ID.
    with pytest.raises(Unavailable, match="SEQUENCE_EXHAUSTED: .* a block that the layout does not have"):
        make(borrow=True, max_wait=0.1).next()


def test_a_block_that_is_given_again_and_again(daemon: Daemon, lender: Lender, make: Make) -> None:
    daemon.answer = lambda request: Answer(200, {"blocks": [0b101] * request.body["spans"]}) if request.method == "BLOCKS" else lender(request)
    ids = make(borrow=True, max_wait=0)
    made = drain(ids, 20_000)
    assert len(set(made)) == 20_000
    assert {Layout("westid").decompose(id).sequence // 128 for id in made} == {0, 2}
    assert max(request.body["held"] for request in daemon.of("BLOCKS")) == 2


def test_blocks_of_a_lost_answer_are_not_used(daemon: Daemon, lender: Lender, make: Make) -> None:
    def answer(request: Request) -> Any:
        asked = daemon.of("BLOCKS")
        if request.method != "BLOCKS" or len(asked) % 3 == 0:
            return lender(request)
        # None at all, or one that comes too late.
        late = Answer(200, {"blocks": lender.give(request.body, counts=False)})
        return None if len(asked) % 3 == 1 or time.sleep(0.8) else late

    daemon.answer = answer
    ids = make(borrow=True, max_wait=0, operation_timeout=0.5).claim()
    # Not repeated.
    assert len(daemon.of("BLOCKS")) == 1
    made = drain(ids, 10_000)
    assert len(daemon.of("BLOCKS")) > 3 and len(set(made)) == 10_000 and all(lender.owns(tokens(daemon)[0], id) for id in made)


def test_a_refusal_of_blocks_is_told_once_there_are_none(daemon: Daemon, lender: Lender, make: Make) -> None:
    def answer(request: Request) -> Any:
        return (
            refused(429, "RATE_LIMITED", f"Not now, {request.body['token']}.", retryAfterMs=5000) if request.method == "BLOCKS" else lender(request)
        )

    daemon.answer = answer
    ids = make(borrow=True, max_wait=0.3)
    with pytest.raises(Unavailable) as refusal:
        ids.next()
    assert refusal.value.code == "SEQUENCE_EXHAUSTED" and refusal.value.retry_after is not None and refusal.value.retry_after <= 0.001
    assert "try again in 1 ms. The last request for more brought none: RATE_LIMITED: Not now, ***." in str(refusal.value)
    # Not as fast as a caller looks.
    assert len(daemon.of("BLOCKS")) < 3
    daemon.answer = lender
    drain(ids, 1)
    window = ids._holder.window
    until(lambda: window and window.blocks and not window.blocks.trouble)


def test_a_request_for_blocks_that_is_not_answered_leaves_the_renewals_their_time(daemon: Daemon, lender: Lender, make: Make) -> None:
    lender.grant["renew_after"] = 100
    daemon.answer = lambda request: lender(request) if request.method != "BLOCKS" or len(daemon.of("BLOCKS")) == 1 else daemon.over.wait() and None
    ids = make(borrow=True, max_wait=0)
    ids.next()
    until(lambda: len(daemon.of("BLOCKS")) > 1)
    begun, renewals = time.monotonic(), len(daemon.of("PATCH"))
    until(lambda: len(daemon.of("PATCH")) > renewals)
    assert time.monotonic() - begun < 3
    assert len(daemon.of("BLOCKS")) == 2


def test_a_claim_that_the_lender_does_not_know_is_renewed_at_once(daemon: Daemon, lender: Lender, make: Make) -> None:
    ids = make(borrow=True, max_wait=5)
    made = take(ids, 1)
    answered = len(daemon.of("BLOCKS"))
    daemon.answer = lambda request: (
        refused(410, "LEASE_LOST") if request.method == "BLOCKS" and len(daemon.of("BLOCKS")) == answered + 1 else lender(request)
    )
    # Known to the renewal: the lease goes on.
    until(lambda: made.append(ids.next()) or daemon.of("PATCH"))
    made += take(ids, 5000)
    assert len(tokens(daemon)) == 1 and len(daemon.of("PATCH")) == 1

    def lost(request: Request) -> Any:
        if request.method in ("BLOCKS", "PATCH") and request.body["token"] == tokens(daemon)[0]:
            return refused(410, "LEASE_LOST", details={"reason": "released"})
        return lender(request)

    # Not known to it either: what was held of the claim before is forgotten. The worker ID may be the same.
    lender.grant["fence"] = 2
    daemon.answer = lost
    until(lambda: made.append(ids.next()) or len(daemon.of("POST")) == 2)
    until(lambda: ids.lease and ids.lease.fence == 2)
    after = take(ids, 5000)
    assert len(set(made + after)) == len(made) + 5000
    first, second = tokens(daemon)
    assert first != second and all(lender.owns(second, id) for id in after)
    assert all(lender.owns(first, id) or lender.owns(second, id) for id in made)


def test_no_id_after_the_end(daemon: Daemon, lender: Lender, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = make(borrow=True, max_wait=5)
    stop_clock(monkeypatch)
    take(ids, 200)
    # What a thread has at hand that was stopped in the middle of `next`.
    kept = ids._tick
    assert kept.mark[0]
    ids.close()
    assert not kept.mark[0]
    asked = len(daemon.of("BLOCKS"))
    with pytest.raises(SnowleaseError, match="LEASE_LOST"):
        ids.next()
    time.sleep(0.05)
    assert len(daemon.of("BLOCKS")) == asked


def test_a_client_without_ids_keeps_no_blocks_of_the_past() -> None:
    layout = Layout("westid")
    blocks = Blocks(layout, lambda: None)
    for wall in range(layout.epoch + 10**12, layout.epoch + 10**12 + 3600_000, 1000):
        wanted = blocks.prefetch(wall)
        assert wanted is not None
        blocks.put(wanted, [1] * wanted.spans)
        assert blocks.of(layout.tick_of(wall)) == blocks.of(layout.tick_of(wall + 5000)) == (0,)
    # Of a clock that was set back by a little.
    assert blocks.of(layout.tick_of(wall - 4000)) == (0,)
    assert len(blocks._held) < 250
