"""A lease of a worker ID: claimed, renewed and given back by a thread of its own."""

from __future__ import annotations

import _thread
import atexit
import hashlib
import logging
import os
import queue
import secrets
import socket
import threading
import time
from copy import copy
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

from .blocks import Blocks, BlocksRequest
from .errors import SnowleaseError, refusal, time_text
from .latch import Latch, pause
from .layout import Layout
from .mark import new_mark
from .ticks import LeaseSnapshot, Ticks, Usage
from .transport import Daemon, Failure, Json, Transport

# A larger difference between the progress of both clocks is a step, seconds; a smaller one is the jitter of a busy machine.
_STEP = 0.25
_WATCH = 1.0
# Between two prefetches of blocks, and how long each request for blocks may take: another one gets others. Seconds.
_PREFETCH = 1.0
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.05, 1.0
_FIRST_RETRY, _LONGEST_LOOK = 0.02, 0.2
_MOST_SENT_TURNS = 8
_LONGEST_WINDOW = 86_400_000
# Between two questions for a namespace that a claim has just made: another daemon's standby may show it late. Seconds.
_STANDBY_PAUSES = (0.05, 0.1, 0.2, 0.4)

_log = logging.getLogger("snowlease")
# The leases whose threads run: at the exit of the interpreter they are given back.
_running: "Dict[Lease, None]" = {}


class LeaseOptions(NamedTuple):
    """What a lease is claimed with. Times in seconds."""

    transport: Transport
    namespace: str
    layout: Optional[Layout]
    window: Optional[float]
    claim_timeout: float
    operation_timeout: float
    borrow: bool
    host: Optional[str]
    instance: Optional[str]


class _Grant(NamedTuple):
    lease: LeaseSnapshot
    renew_after: float
    layout: Layout
    shared: bool


class _NoThread(NamedTuple):
    """The decision that no thread runs, and why; without an error, because the lease was closed before."""

    error: Optional[SnowleaseError]


class Lease:
    """One lease in one process. It claims again, with another token, when it is lost; a forked child finds it over."""

    def __init__(self, options: LeaseOptions) -> None:
        self._options = options
        self._mark = new_mark()
        # The lease of a forked child, or the next try after a claim that failed. `setdefault` is one step: the first caller wins.
        self.successor: Dict[None, Lease] = {}
        self._state = "new"
        self.error: Optional[SnowleaseError] = None
        self.ticks: Optional[Ticks] = None
        self.layout = options.layout
        # Who starts the thread, and what becomes the thread, or decides that there is none: each is decided in one step, too.
        self._starter: Dict[None, object] = {}
        self._launched: Dict[None, object] = {}
        # Whether a thread begins, which has not decided yet on a busy machine.
        self._is_started = False
        self._thread: Optional[threading.Thread] = None
        self._claimed = Latch()
        self._is_closed = False
        # Ends the sleeps of the thread.
        self._wake: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._over = Latch()
        self._token = ""
        self._receipt: Optional[str] = None
        self._turns = _Turns()
        self._blocks: Optional[Blocks] = None
        self._prefetch_at = 0.0
        # The wall clock when the last two requests were sent that the registry answered.
        self._heard = (0, 0)
        self._clocks = _read_clocks()
        self._has_jumped = False

    @property
    def is_here(self) -> bool:
        """Whether this is a lease of this process, not of the one that it was forked from."""
        return bool(self._mark[0])

    @property
    def state(self) -> str:
        """`new`, `claiming`, `held`, `switching`; for good `failed` (the claim was refused), `lost`, `closed`."""
        return "closed" if self._is_closed and self._state != "lost" else self._state

    def held(self) -> Optional[Ticks]:
        """The ticks of the worker ID. Claims one, and waits for the answer. Raises why there is none; None: in a child forked meanwhile."""
        has_waited = False
        while not self._claimed.is_open:
            self._start(has_waited)
            self._claimed.wait(_WATCH if has_waited else _SHORTEST_PAUSE)
            has_waited = True
            if not self.is_here:
                if self._is_closed:
                    raise self._ended()
                return None
            self._conclude()
        if self.error is not None and self.state != "closed":
            # Each caller gets one of its own, with its own traceback.
            raise copy(self.error)
        if self.ticks is None:
            raise self._ended()
        return self.ticks

    def close(self) -> None:
        """Ends the lease and gives the worker ID back. Where the registry does not answer, the worker ID rests until its window has passed."""
        if not self.is_here:
            return
        self.stop()
        while not self._over.is_open and self.is_here and self._thread is not threading.current_thread():
            self._conclude()
            self._over.wait(_WATCH)

    def stop(self) -> None:
        """The same without waiting for the answer."""
        if not self.is_here:
            return
        self._is_closed = True
        if self.ticks is not None:
            self.ticks.end(self._ended)
        self._wake.put(None)
        self._decides(_NoThread(None))
        self._conclude()
        self._claimed.open()

    def join(self) -> None:
        """After `close`: waits until the thread has ended. A subinterpreter cannot end before."""
        if self.is_here and self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def _start(self, has_waited: bool) -> None:
        """Starts the thread, if this is the first caller. If this one waited in vain: the first caller may be the frame below this one, in which
        a signal's handler runs, and cannot go on before the handler returns."""
        mine = object()
        has_tried = has_waited and not self._launched
        try:
            if self._starter.setdefault(None, mine) is mine or has_tried:
                _thread.start_new_thread(self._launch, ())
                self._is_started = True
        except BaseException as cause:
            # No thread can be started, or a signal's handler raised this before or after one was. Without a thread, all callers would wait
            # for ever; so it is decided in one step whether there is one.
            is_starter = self._starter.get(None) is mine
            has_none = (is_starter or (has_tried and not self._is_started)) and self._decides(_NoThread(self._unstarted(cause)))
            self._conclude()
            # Another caller's thread may be on its way.
            if not (isinstance(cause, RuntimeError) and (has_none or not is_starter)):
                raise

    def _decides(self, mine: object) -> bool:
        """Whether this decision is the first one, and so holds."""
        return self._launched.setdefault(None, mine) is mine

    def _conclude(self) -> None:
        """Does what follows from the decision that there is no thread. The frame that decided it may be below this one, or an exception ended it."""
        none = self._launched.get(None)
        if isinstance(none, _NoThread):
            if none.error is not None:
                self._fail(none.error)
            self._claimed.open()
            self._over.open()

    def _launch(self) -> None:
        # In a thread where no signal is handled: an exception in the middle of `Thread.start` would break that thread, and a fork the lease.
        if not self.is_here or not self._decides(object()):
            return
        try:
            self._thread = threading.Thread(target=self._run, name=f"snowlease {self._options.namespace}", daemon=True)
            self._thread.start()
        except BaseException as cause:
            self._fail(self._unstarted(cause))
            self._over.open()

    def _unstarted(self, cause: BaseException) -> SnowleaseError:
        what = f"No thread was started that renews the lease: {type(cause).__name__}: {cause}"
        return refusal("CONFIG_INVALID", f"{what}; make IDs before the interpreter ends, and in no subinterpreter with a lock of its own.")

    def _run(self) -> None:
        _running[self] = None
        try:
            self._state = "claiming"
            due = self._claim(None)
            while not self._is_closed:
                if not self._take_blocks():
                    due = 0.0
                pause(self._wake, min(due - time.monotonic(), _WATCH))
                if not self._is_closed and (self._notes_jump() or time.monotonic() >= due):
                    due = self._renew()
            if self.ticks is not None:
                self._give_back(self.ticks)
        except SnowleaseError as error:
            self._fail(error)
        except BaseException as cause:
            self._fail(refusal("REGISTRY_UNAVAILABLE", f"The thread of the lease ended: {type(cause).__name__}: {cause}; try again."))
            raise
        finally:
            _running.pop(self, None)
            self._over.open()

    def _fail(self, error: SnowleaseError) -> None:
        if self.ticks is not None:
            self.ticks.end(lambda: error)
        if not self._is_closed:
            self.error = error
            # What is lost for good does not come back by itself; a claim may be tried again.
            self._state = "failed" if self.ticks is None else "lost"
            if self.ticks is not None:
                _log.error("No more IDs of namespace `%s`: %s", self._options.namespace, error)
        self._claimed.open()

    def _claim(self, recall: Optional[str]) -> float:
        """Claims a worker ID. Returns when the renewal is due, on the monotonic clock."""
        options = self._options
        begun, retry, recalled = time.monotonic(), _FIRST_RETRY, recall
        token = _fresh()
        while not self._is_closed:
            asked, clock = time.monotonic(), _now()
            body: Dict[str, Any] = {
                "token": token,
                "now": clock,
                "host": (options.host or socket.gethostname())[:255],
                "pid": os.getpid(),
                # What the last holder used of a tick is nothing that this client reads.
                "continues": False,
            }
            if options.instance:
                body["instance"] = options.instance
            if self.layout is not None:
                body["layout"] = self.layout.canonical
            if options.window is not None:
                body["windowMs"] = round(options.window * 1000)
            if options.borrow:
                body["shared"] = True
            try:
                grant, receipt = self._call("POST", "", body, lambda json: _read_grant(json, token, options.borrow), recalled)
            except SnowleaseError as error:
                left = begun - time.monotonic()
                if error.code == "OTHER_REGISTRY" and recalled is not None:
                    # A receipt of another registry proves nothing here.
                    recalled = None
                elif error.code == "LEASE_LOST" and "reason" in error.details:
                    # The registry knows this token from before a quarantine, or a copy of this process has used it.
                    if left + max(options.operation_timeout, options.claim_timeout) <= 0:
                        raise
                    pause(self._wake, retry)
                    token = _fresh()
                else:
                    unheard = error.code == "REGISTRY_UNAVAILABLE" and not error.details.get("lasting")
                    left += max(options.operation_timeout, options.claim_timeout) if unheard else options.claim_timeout
                    wait = _quarantine_pause(error, options.window or 60, token) or error.retry_after or 0
                    # A worker ID that is held may come free long before its window ends.
                    if error.code in ("POOL_EXHAUSTED", "WORKER_ID_HELD"):
                        wait = min(wait, _LONGEST_LOOK)
                    if not error.retryable or error.code == "CLOCK_SKEW" or left <= 0:
                        raise
                    pause(self._wake, min(max(wait, retry), left))
                    retry = min(2 * retry, _LONGEST_PAUSE)
                continue
            self._begin(grant, token, receipt, clock)
            return asked + float(grant.renew_after)
        raise self._ended()

    def _begin(self, grant: _Grant, token: str, receipt: Optional[str], asked: int) -> None:
        layout, options = grant.layout, self._options
        if self.layout is not None and layout != self.layout:
            what = f"The registry granted a worker ID of {layout} to a claim for {self.layout}"
            raise refusal("SCHEMA_INCOMPATIBLE", f"{what}; check that this address is a registry of this version.")
        self._token, self._receipt, self._turns, self._heard = token, receipt, _Turns(), (asked, asked)
        self._has_jumped, self._clocks = False, _read_clocks()
        self.layout = layout
        self._blocks = Blocks(layout, lambda: self._wake.put(None)) if grant.shared else None
        ticks = Ticks(layout, grant.lease, _now(), self._blocks)
        error = self._not_lent() if options.borrow and not grant.shared else self._difference()
        if error is not None or self._is_closed:
            self._give_back(ticks)
            raise error or self._ended()
        before, self.ticks = self.ticks, ticks
        self._prefetch_at = 0.0
        self._take_blocks()
        self._state = "held"
        if self._is_closed:
            # Closed at this moment.
            ticks.end(self._ended)
        if before is not None:
            _log.warning("Worker %d of namespace `%s` takes the place of worker %d.", grant.lease.worker_id, options.namespace, before.lease.worker_id)
        self._claimed.open()

    def _not_lent(self) -> SnowleaseError:
        what = f"The registry lends no lease of namespace `{self._options.namespace}`"
        return refusal("CONFIG_INVALID", f"{what}; start its daemon with `--lend`, or leave `borrow` out to lease a worker ID for this process alone.")

    def _take_blocks(self) -> bool:
        """Asks the lender of a shared lease for the blocks that are due. False where it does not know this claim: a renewal finds out why."""
        blocks, ticks = self._blocks, self.ticks
        if blocks is None or ticks is None:
            return True
        requests = [blocks.wanted]
        if time.monotonic() >= self._prefetch_at:
            self._prefetch_at = time.monotonic() + _PREFETCH
            blocks.forget_before(ticks.newest_tick)
            requests.append(blocks.prefetch(_now()))
        return all([self._take(blocks, request, ticks.lease) for request in requests if request is not None])

    def _take(self, blocks: Blocks, request: BlocksRequest, lease: LeaseSnapshot) -> bool:
        transport = self._options.transport
        body = {**self._key(lease), **self._turns.present(), **request._asdict()}
        path = f"/v1/{self._options.namespace}/leases/{lease.worker_id}/blocks"
        timeout = min(_PREFETCH, self._options.operation_timeout)
        try:
            answer = transport.ask(transport.daemons[0], "POST", path, body, lambda json: blocks.read(request, json), None, timeout)
        except SnowleaseError as error:
            answer = Failure(error)
        if not isinstance(answer, Failure):
            blocks.put(request, answer[0])
            return True
        # Callers ask again and again.
        time.sleep(_SHORTEST_PAUSE)
        blocks.miss(request, answer.error)
        return answer.error.code != "LEASE_LOST"

    def _renew(self) -> float:
        """Renews the lease. Returns when the next renewal is due."""
        ticks = self.ticks
        assert ticks is not None
        asked, clock = time.monotonic(), _now()
        options = self._options
        body: Dict[str, Any] = {
            **self._key(ticks.lease),
            **self._turns.for_renewal(clock, ticks.lease.until),
            **({} if self._blocks else _checkpoint(ticks.usage())),
            "now": clock,
        }
        if options.window is not None:
            body["windowMs"] = round(options.window * 1000)
        try:
            (start, until, renew_after, turn), receipt = self._call("PATCH", f"/{ticks.lease.worker_id}", body, _read_renewal, self._receipt)
        except SnowleaseError as error:
            if error.code in ("LEASE_LOST", "OTHER_REGISTRY"):
                return self._switch(ticks, error)
            if error.code == "QUARANTINE":
                ticks.give_up_before(clock)
            window = options.window or 60
            wait = _quarantine_pause(error, window, self._token) or min(_LONGEST_PAUSE, max(_SHORTEST_PAUSE, window / 10))
            # Two more tries before the window ends.
            longest = max(_LONGEST_PAUSE, (ticks.lease.until - clock) / 3000)
            return time.monotonic() + max(wait, min(error.retry_after or 0, longest))
        self._turns.acknowledge(turn)
        self._receipt = receipt or self._receipt
        self._heard = (self._heard[1], clock)
        ticks.renewed(start, until)
        return asked + float(renew_after)

    def _switch(self, lost: Ticks, error: SnowleaseError) -> float:
        """The lease is lost: claims another worker ID, for as long as it takes."""
        what = f"Worker {lost.lease.worker_id} of namespace `{self._options.namespace}` was lost, and another worker ID is being claimed"
        lost.end(lambda: refusal("LEASE_EXPIRED", f"{what}; try again. {error}"))
        self._state = "switching"
        self._tell(error, lost.lease, "Another worker ID is being claimed.")
        recall = self._receipt if lost.lease.until > _now() else None
        wait = _SHORTEST_PAUSE
        while not self._is_closed:
            try:
                return self._claim(recall)
            except SnowleaseError as failure:
                if not failure.retryable:
                    raise
                pause(self._wake, _quarantine_pause(failure, self._options.window or 60, self._token) or wait)
                wait = min(2 * wait, _LONGEST_PAUSE)
        raise self._ended()

    def _tell(self, error: SnowleaseError, lease: LeaseSnapshot, then: str) -> None:
        """Tells the operator of a loss, and of IDs that may exist twice, which no other process knows."""
        doubt = _doubt(error, self._heard, lease.until)
        what = f"Worker {lease.worker_id} of namespace `{self._options.namespace}` was lost ({_reason(error)})."
        if doubt is None:
            _log.warning("%s %s", what, then)
        else:
            _log.error("%s Its IDs from %s to %s may exist twice. %s", what, time_text(doubt[0]), time_text(doubt[1]), then)

    def _give_back(self, ticks: Ticks) -> None:
        ticks.end(self._ended)
        body: Dict[str, Any] = {**self._key(ticks.lease), **self._turns.present(), "now": _now()}
        self._notes_jump()
        # After a jump this process may be a copy, which does not know what the other one used: the worker ID rests. The lender of a shared
        # lease knows more than this process.
        if not self._has_jumped and not self._blocks:
            usage = ticks.usage()
            body.update({"until": usage.until, **_checkpoint(usage)})
        try:
            self._call("DELETE", f"/{ticks.lease.worker_id}", body, lambda _: None, self._receipt)
        except SnowleaseError as error:
            # The rest of the window passes by itself.
            if error.code == "LEASE_LOST" and _doubt(error, self._heard, ticks.lease.until):
                self._tell(error, ticks.lease, "")

    def _difference(self) -> Optional[SnowleaseError]:
        """Compares the namespace at all daemons: those of two registries would grant one worker ID twice."""
        transport, namespace = self._options.transport, self._options.namespace
        if len(transport.daemons) == 1:
            return None
        known: List[Tuple[Daemon, str]] = []
        for daemon in transport.daemons:
            found = None
            for pause in (0.0, *_STANDBY_PAUSES):
                time.sleep(pause)
                found = self._id_at(daemon)
                if found != "":
                    break
            if found is not None:
                known.append((daemon, found))
        for daemon, found in known[1:]:
            if found != known[0][1]:
                what = f"The addresses {known[0][0].shown} and {daemon.shown} are daemons of different registries"
                return refusal("CONFIG_INVALID", f"{what} (namespace `{namespace}`): nothing was claimed; name only daemons of one registry.")
        return None

    def _id_at(self, daemon: Daemon) -> Optional[str]:
        """The namespace's id at a daemon; empty where it has none; None where no answer tells."""
        try:
            path = f"/v1/{self._options.namespace}"
            answer = self._options.transport.ask(daemon, "GET", path, None, lambda json: _text(json["id"]), None, _LONGEST_PAUSE)
        except SnowleaseError as error:
            return "" if error.code == "NOT_FOUND" else None
        return None if isinstance(answer, Failure) else answer[0]

    def _call(self, method: str, path: str, body: Json, read: Callable[[Json], Any], receipt: Optional[str]) -> Tuple[Any, Optional[str]]:
        return self._options.transport.call(method, f"/v1/{self._options.namespace}/leases{path}", body, read, receipt)

    def _key(self, lease: LeaseSnapshot) -> Dict[str, Any]:
        return {"token": self._token, "fence": lease.fence}

    def _notes_jump(self) -> bool:
        """Whether the wall clock has jumped since the last look."""
        before, self._clocks = self._clocks, _read_clocks()
        by = self._clocks - before
        if abs(by) < _STEP:
            return False
        self._has_jumped = self._has_jumped or by > 0
        self._turns.note_jump()
        return True

    def _ended(self) -> SnowleaseError:
        worker = "The lease" if self.ticks is None else f"The lease of worker {self.ticks.lease.worker_id}"
        return refusal("LEASE_LOST", f"{worker} of namespace `{self._options.namespace}` has ended ({self.state}); make a new Snowflake.")


class _Turns:
    """The turns of one claim: random texts that renewals pass on, so that of two copies of this process the second one to renew is lost."""

    def __init__(self) -> None:
        self._turn: Optional[str] = None
        self._next: Optional[str] = None
        self._sent: List[str] = []
        self._is_from_open_window = False
        self._has_jumped = False

    def for_renewal(self, wall: int, until: int) -> Json:
        # Repeated as it is until an answer comes. But a copy made in between would repeat it, too: so draw once more where this may be one.
        is_stale = self._has_jumped or (self._is_from_open_window and wall >= until)
        if self._next is None or (is_stale and len(self._sent) < _MOST_SENT_TURNS):
            if self._next is not None:
                self._sent.append(self._next)
            self._next = _fresh()
            self._is_from_open_window, self._has_jumped = wall < until, False
        return self.present()

    def present(self) -> Json:
        turns = {"turn": self._turn, "nextTurn": self._next, "sentTurns": list(self._sent)}
        return {name: value for name, value in turns.items() if value}

    def acknowledge(self, turn: Optional[str]) -> None:
        if turn is None or turn != self._next:
            return
        self._turn, self._next, self._sent = turn, None, []

    def note_jump(self) -> None:
        self._has_jumped = True


def _read_grant(json: Json, token: str, borrow: bool) -> _Grant:
    shared = json.get("shared", False)
    if type(shared) is not bool:
        raise TypeError("`shared` is neither true nor false")
    if shared and not borrow:
        # Its window is used by others, too: without taking blocks of it, this client would make their IDs again.
        raise refusal("CONFIG_INVALID", "This address lends a shared lease; pass `borrow=True` to use it with others, or name a daemon in its place.")
    if json.get("token", token) != token:
        raise ValueError("a lease of another claim")
    start, until = _integer(json["from"]), _integer(json["until"])
    if start > until:
        raise ValueError("`from` is behind `until`")
    lease = LeaseSnapshot(_integer(json["workerId"]), _integer(json["fence"]), start, until)
    try:
        layout = Layout(_text(json["layout"]))
    except SnowleaseError as error:
        raise ValueError(str(error)) from None
    if lease.worker_id > layout.max_worker_id:
        raise ValueError(f"worker ID {lease.worker_id} does not fit {layout}")
    return _Grant(lease, _seconds(json["renewAfterMs"]), layout, shared)


def _read_renewal(json: Json) -> Tuple[int, int, float, Optional[str]]:
    turn = json.get("turn")
    return _integer(json["from"]), _integer(json["until"]), _seconds(json["renewAfterMs"]), None if turn is None else _text(turn)


def _integer(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 1 << 53:
        raise TypeError("a number is not an integer from 0 to 2^53-1")
    return value


def _seconds(ms: Any) -> float:
    return min(_LONGEST_WINDOW, max(_SHORTEST_PAUSE * 1000, _integer(ms))) / 1000


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise TypeError("a text is missing")
    return value


def _quarantine_pause(error: SnowleaseError, window: float, token: str) -> Optional[float]:
    """In how many seconds to repeat what a quarantine refused: an operator may end it early. The token spreads those refused together."""
    if error.code != "QUARANTINE":
        return None
    share = int(token[:8], 16) / 2**32
    look = window * (0.15 + share * 0.1)
    behind = look if error.retry_after is None else error.retry_after + share * 0.05 * window
    return max(_SHORTEST_PAUSE, min(look, behind))


def _reason(error: SnowleaseError) -> str:
    reason = error.details.get("reason")
    return reason if reason in ("taken", "released", "forgotten", "cloned") else error.code


def _doubt(error: SnowleaseError, heard: Tuple[int, int], until: int) -> Optional[Tuple[int, int]]:
    """From when to when another holder may have used the same times, Unix ms. `heard`: when the last two requests were sent that were answered."""
    # Both copies of a process may have heard the last answer.
    if _reason(error) == "cloned":
        return heard[0], until
    told = error.details.get("doubt")
    if not isinstance(told, dict) or not all(type(told.get(name)) is int for name in ("from", "until")):
        return None
    # What was answered later is this holder's alone.
    begin, end = max(told["from"], heard[1]), told["until"]
    return (begin, end) if begin < end else None


def _checkpoint(usage: Usage) -> Json:
    if usage.timestamp is None:
        return {}
    return {"lastTimestamp": usage.timestamp, "lastSequence": usage.sequence}


def _fresh() -> str:
    """32 random hex digits. A machine that was copied while it ran repeats the random bytes of its kernel; the clocks tell the copies apart."""
    seed = f"{secrets.token_hex(16)} {time.monotonic_ns()} {time.time_ns()} {os.getpid()}"
    return hashlib.sha256(seed.encode()).hexdigest()[:32]


def _now() -> int:
    """Unix ms."""
    return time.time_ns() // 1_000_000


def _read_clocks() -> float:
    """By how much the wall clock is ahead of the monotonic one, seconds. Both are read again where the process was stopped in between."""
    best, least = 0.0, float("inf")
    for _ in range(10):
        before = time.monotonic()
        wall = time.time()
        apart = time.monotonic() - before
        if apart < least:
            best, least = wall - before - apart / 2, apart
        if least < 0.005:
            break
    return best


def _close_all() -> None:
    for lease in list(_running):
        lease.close()
        lease.join()


atexit.register(_close_all)
