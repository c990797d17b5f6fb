"""Claims a worker ID, renews it and gives it back, in a thread of its own."""

from __future__ import annotations

import _thread
import atexit
import contextlib
import hashlib
import logging
import math
import os
import queue
import secrets
import socket
import time
from copy import copy
from functools import partial
from typing import Any, Callable, NamedTuple

from .blocks import Blocks, Wanted
from .daemons import Body, Daemons, Failed, Json
from .errors import SnowleaseError, Unavailable, time_text
from .layout import Layout
from .mark import new_mark
from .window import Lease, Window

# The longest sleep between two looks at the clocks; a larger difference between the progress of both is a step, a smaller one the jitter of a
# busy machine. Seconds.
_WATCH, _STEP = 1.0, 0.25
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.05, 1.0
# Between two prefetches of blocks; how long a request for blocks may take; the pause after one in vain; how long a
# renewal may hold up such requests, since the blocks that there are last for some seconds. Seconds.
_PREFETCH, _BLOCKS_TIMEOUT, _BLOCKS_PAUSE, _LENT_RENEWAL_TIMEOUT = 1.0, 1.0, 0.02, 2.0
# Between two looks at whether a worker ID was granted, seconds: doubled each time.
_FIRST_LOOK, _LONGEST_LOOK = 0.001, 0.02
_MOST_SENT_TURNS = 8
# Between two questions for a namespace that a claim has just made: another daemon's standby may show it late. Seconds.
_STANDBY_PAUSES = (0.0, 0.05, 0.1, 0.2, 0.4)

_log = logging.getLogger("snowlease")
# Those whose threads run: at the exit of the interpreter they give back.
_running: dict[Holder, None] = {}


class Options(NamedTuple):
    """What a worker ID is claimed with. Times in seconds."""

    daemons: Daemons
    namespace: str
    layout: Layout | None
    borrow: bool
    claim_timeout: float
    operation_timeout: float
    instance: str | None


class _Grant(NamedTuple):
    lease: Lease
    layout: Layout
    renew_after: float
    is_shared: bool


class _Forked(Exception):
    """This is a forked child, in which a lease's thread that is none of the system's went on, as under gevent."""


class Holder:
    """One lease in one process, from its claim to its end: given back, lost, refused, or left to the parent by a fork. Then another one follows."""

    def __init__(self, options: Options, before: Holder | None = None) -> None:
        """`before`: the holder that this one follows."""
        self._options, self._mark, self._is_closed = options, new_mark(), False
        # Its own: under gevent, one of before a fork may still use its own.
        self._daemons = copy(options.daemons)
        self.layout: Layout | None = before.layout if before else options.layout
        # The lease that this one takes the place of, and its receipt while its window is open: that shows a registry what it forgot.
        self._lost = before._lease_lost() if before else None
        self._receipt: str | None = before._receipt if before and self._lost and self._lost.until > _now() else None
        self.window: Window | None = None
        # Why the claim was refused, or the lease lost.
        self.error: SnowleaseError | None = None
        # The holder that follows, and the thread of this one. `setdefault` is one step: the first caller wins.
        self.next: dict[None, Holder] = {}
        self._thread: dict[None, int] = {}
        # Ends the sleeps of the thread.
        self._wake: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._is_over = False
        self._token, self._turns = "", _Turns()
        # When to prefetch blocks, and from when on to ask for those that a caller wants, on the monotonic clock.
        self._prefetch_due, self._wants_from = 0.0 if options.borrow else math.inf, 0.0
        # The wall clock when the last two requests were sent that the registry answered.
        self._heard = (0, 0)
        self._clocks, self._has_jumped = _difference_of_clocks(), False

    @property
    def has_ended(self) -> bool:
        """Whether another holder has to follow."""
        return not self._is_closed and (self.error is not None or not self._mark[0])

    def lease(self) -> Lease | None:
        """The claim as it is now; None while there is none, and in a forked child."""
        return self.window.lease if self.window and self._mark[0] and not self.error and not self._is_closed else None

    def wait(self) -> Window | None:
        """Claims a worker ID, if no caller did, and waits for the answer. Raises why there is none. None: ask the holder that follows."""
        pause = 0.0
        while self.window is None and self.error is None and not self._is_closed:
            if not self._mark[0]:
                return None
            if pause == 0 and not self._thread:
                # Perhaps more than one, of which the first becomes the thread of this lease: another caller that is about to start it may be the
                # frame below this one, in which a signal's handler runs, and cannot go on before the handler returns.
                self._start()
            pause = min(max(_FIRST_LOOK, 2 * pause), _LONGEST_LOOK)
            time.sleep(pause)
        if self._is_closed:
            raise self._ended()
        if self.window is None and self.error is not None:
            # Each caller gets one of its own, with its own traceback.
            raise copy(self.error)
        return self.window if self._mark[0] else None

    def follower(self) -> Holder:
        """The holder to follow this one."""
        return Holder(self._options, self)

    def _lease_lost(self) -> Lease | None:
        # In a forked child it is the parent's.
        if not self._mark[0]:
            return None
        return self.window.lease if self.window and self.error else self._lost

    def stop(self) -> None:
        """Makes no more IDs, and gives the worker ID back soon. Waits for nothing."""
        if self._mark[0]:
            self._is_closed = True
            if self.window is not None:
                self.window.end(self._ended)
            self._wake.put(None)

    def close(self) -> None:
        """The same, and waits until it is given back, or for as long as its calls take: each up to `operation_timeout`."""
        self.stop()
        while self._thread.get(None, _thread.get_ident()) != _thread.get_ident() and not self._is_over and self._mark[0]:
            time.sleep(_FIRST_LOOK)

    def _start(self) -> None:
        try:
            _thread.start_new_thread(self._run, ())
        except RuntimeError as cause:
            what = f"No thread can be started that claims and renews a lease ({cause})"
            advice = "try again; at the end of the interpreter, and in a subinterpreter with a lock of its own, there is none"
            raise Unavailable("REGISTRY_UNAVAILABLE", f"{what}; {advice}.") from None

    def _run(self) -> None:
        own = _thread.get_ident()
        if self._is_over or not self._mark[0] or self._thread.setdefault(None, own) != own:
            return
        _running[self] = None
        try:
            window, due = self._claim()
            while self._goes_on():
                wants = self._wants_from if window.blocks and window.blocks.wanted else math.inf
                _pause(self._wake, min(min(due, self._prefetch_due, wants) - time.monotonic(), _WATCH))
                if self._goes_on() and (self._notes_jump() or time.monotonic() >= due):
                    due = self._renew(window)
                if self._goes_on() and not self._borrow(window):
                    due = 0.0
            if self._mark[0]:
                self._give_back(window)
        except _Forked:
            pass
        except SnowleaseError as error:
            self._lose(error)
        except BaseException as cause:
            self._lose(Unavailable("REGISTRY_UNAVAILABLE", f"The thread of the lease ended: {type(cause).__name__}: {cause}; try again."))
            raise
        finally:
            self._is_over = True
            _running.pop(self, None)

    def _goes_on(self) -> bool:
        return not self._is_closed and bool(self._mark[0])

    def _claim(self) -> tuple[Window, float]:
        """Claims a worker ID. Returns its window, and when to renew it, on the monotonic clock."""
        options, daemons, recall = self._options, self._daemons, self._receipt
        begun, pause = time.monotonic(), _FIRST_LOOK
        self._draw_token()
        while not self._is_closed:
            try:
                grant, receipt = self._call("POST", "", self._claimed, self._read_grant, recall)
                return self._begin(grant, receipt, self._due(grant.renew_after, grant.lease))
            except SnowleaseError as error:
                waits = options.claim_timeout - (time.monotonic() - begun)
                wait = error.retry_after or 0.0
                if error.code == "OTHER_REGISTRY" and recall is not None:
                    # A receipt of another registry proves nothing here.
                    recall = None
                    continue
                if error.code == "LEASE_LOST":
                    # The registry knows this token from before, or a copy of this process has used it.
                    waits += options.operation_timeout
                    self._draw_token()
                elif error.code in ("CLOCK_SKEW", "CLOCK_ROLLBACK") and time.monotonic() - daemons.sent >= _LONGEST_PAUSE:
                    # The request itself took as long as the clocks seem to differ.
                    waits += options.operation_timeout
                elif self._lost is not None and error.details.get("lends") is False:
                    # In the place of one that did. A daemon that lends may come back: the next call of a program that goes on calling asks again.
                    _pause(self._wake, _LONGEST_PAUSE)
                    raise Unavailable(error.code, error.message, error.retry_after, error.details) from None
                elif not isinstance(error, Unavailable) or error.code in ("CLOCK_SKEW", "CLOCK_ROLLBACK"):
                    raise
                if error.code in ("POOL_EXHAUSTED", "WORKER_ID_HELD"):
                    # A worker ID may come free long before its window ends.
                    wait = min(wait, _LONGEST_PAUSE)
                elif error.code == "QUARANTINE":
                    wait = _quarantine_pause(error, 60)
                if waits <= 0:
                    raise
                _pause(self._wake, min(max(wait, pause), waits))
                pause = min(2 * pause, _LONGEST_PAUSE)
        raise self._ended()

    def _begin(self, grant: _Grant, receipt: str | None, due: float) -> tuple[Window, float]:
        self._receipt, self._heard = None if grant.is_shared else receipt, (self._daemons.clock, self._daemons.clock)
        blocks = Blocks(grant.layout, partial(_wake, self._wake)) if grant.is_shared else None
        window = Window(grant.layout, grant.lease, _now(), blocks)
        unfit = self._not_lent() if self._options.borrow and not grant.is_shared else self._difference()
        if unfit is not None:
            self._give_back(window)
            raise unfit
        # Callers find blocks, or why there are none. Where it is closed, blocks would keep its place taken.
        due = due if self._is_closed or self._borrow(window) else 0.0
        self.layout, self.window = grant.layout, window
        if self._is_closed:
            # At this moment.
            window.end(self._ended)
        if self._lost is not None:
            told = (grant.lease.worker_id, self._options.namespace, self._lost.worker_id)
            _log.warning("Worker %d of namespace `%s` takes the place of worker %d.", *told)
        return window, due

    def _renew(self, window: Window) -> float:
        """Renews the lease. Returns when to do so again. Raises where it is lost."""
        daemons, lease, used, length = self._daemons, window.lease, _used(window), self._length(window.lease)
        timeout = length / 3 if window.blocks is None else min(length / 3, _LENT_RENEWAL_TIMEOUT)

        def body(now: int) -> Json:
            self._notes_jump()
            return {**self._key(lease), **self._turns.draw(now, lease.until), **used}

        try:
            (start, until, renew_after, turn), receipt = self._call("PATCH", f"/{lease.worker_id}", body, _read_renewal, self._receipt, timeout)
        except SnowleaseError as error:
            if error.code in ("LEASE_LOST", "OTHER_REGISTRY"):
                self._lose(error)
                raise
            if error.code == "QUARANTINE":
                window.give_up_before(daemons.highest)
            if error.code not in ("REGISTRY_UNAVAILABLE", window.trouble and window.trouble.code):
                _log.warning("Worker %d of namespace `%s` is not renewed: %s", lease.worker_id, self._options.namespace, error)
            window.trouble = error
            if error.code == "QUARANTINE":
                return time.monotonic() + _quarantine_pause(error, length)
            return time.monotonic() + min(_LONGEST_PAUSE, max(_SHORTEST_PAUSE, length / 10))
        if not self._turns.acknowledge(turn):
            # The answer to a copy of this process.
            return time.monotonic() + _SHORTEST_PAUSE
        self._receipt = None if window.blocks else receipt or self._receipt
        self._heard = (self._heard[1], daemons.clock)
        window.trouble = None
        window.renewed(start, until)
        return self._due(renew_after, window.lease)

    def _borrow(self, window: Window) -> bool:
        """Asks for blocks of a lent lease, once, where there is need. Returns whether the daemon still knows the claim."""
        blocks, now = window.blocks, time.monotonic()
        if blocks is None:
            return True
        wanted = blocks.prefetch(_now()) if now >= self._prefetch_due else None
        if wanted is None and now >= self._wants_from:
            wanted = blocks.wanted
        is_known, pause = True, 0.0
        if wanted is not None:
            is_known, pause = self._ask(window, blocks, wanted)
        if now >= self._prefetch_due:
            self._prefetch_due = time.monotonic() + _PREFETCH
        self._wants_from = max(self._wants_from, time.monotonic() + pause)
        return is_known

    def _ask(self, window: Window, blocks: Blocks, wanted: Wanted) -> tuple[bool, float]:
        """Asks for blocks. Returns whether the daemon still knows the claim, and for how long it is of no use to ask for what a caller wants."""
        try:
            return True, 0.0 if blocks.put(wanted, self._take(window, blocks, wanted)) else _BLOCKS_PAUSE
        except SnowleaseError as error:
            blocks.put(wanted, [], error)
            if error.code == "LEASE_LOST":
                # A renewal decides. The turns were the present ones, as this thread renews, too.
                return False, _PREFETCH
            return True, min(max(_SHORTEST_PAUSE, error.retry_after or 0.0), _PREFETCH)

    def _take(self, window: Window, blocks: Blocks, wanted: Wanted) -> list[int]:
        daemons, lease = self._daemons, window.lease
        body = {**self._key(lease), **self._turns.present(), **wanted._asdict()}
        timeout = min(_BLOCKS_TIMEOUT, self._options.operation_timeout, self._length(lease) / 3)
        path = f"/v1/{self._options.namespace}/leases/{lease.worker_id}/blocks"
        try:
            # Not repeated: what a lost answer gave is lost.
            given, _ = daemons.ask(daemons.all[0], "POST", path, lambda _: body, lambda json: blocks.read(wanted, json["blocks"]), None, timeout)
            return given
        except Failed as failed:
            raise failed.error from None
        finally:
            if not self._mark[0]:
                raise _Forked

    def _length(self, lease: Lease) -> float:
        """Of its window, seconds."""
        return max(_SHORTEST_PAUSE, (lease.until - self._heard[1]) / 1000)

    def _due(self, renew_after: float, lease: Lease) -> float:
        third = (lease.until - self._daemons.clock) / 3000
        return self._daemons.sent + max(_SHORTEST_PAUSE, min(renew_after, third))

    def _lose(self, error: SnowleaseError) -> None:
        """The claim was refused, or the lease is lost. Tells the operator of IDs that may exist twice, since no other process knows of them."""
        if self.error is None and self._mark[0]:
            self.error = error
            if self.window is not None:
                # The call that meets this asks the holder that follows.
                self.window.end(lambda: Unavailable("LEASE_EXPIRED", f"The lease was lost; try again. {error}"))
                self._tell(error, self.window.lease)

    def _tell(self, error: SnowleaseError, lease: Lease) -> None:
        reason = error.details.get("reason")
        told = reason if reason in ("taken", "released", "forgotten", "cloned") else error.code
        what = f"Worker {lease.worker_id} of namespace `{self._options.namespace}` was lost ({told})"
        doubt = _doubt(error, self._heard, lease.until)
        if doubt is None:
            _log.warning("%s%s.", what, "" if self._is_closed else "; the next ID claims another one")
        else:
            _log.error("%s. Its IDs from %s to %s may exist twice.", what, time_text(doubt[0]), time_text(doubt[1]))

    def _give_back(self, window: Window) -> None:
        window.end(self._ended)
        lease = window.lease
        body: dict[str, Any] = {**self._key(lease), **self._turns.present()}
        self._notes_jump()
        # After a jump this process may be a copy, which does not know what the other one used: the worker ID rests.
        if not self._has_jumped and not window.blocks:
            body.update({"until": window.usage().until, **_used(window)})
        # A daemon of a version before has the DELETE alone.
        for method, path in (("POST", f"/{lease.worker_id}/release"), ("DELETE", f"/{lease.worker_id}")):
            try:
                self._call(method, path, lambda _: body, lambda _: None, self._receipt)
                return
            except SnowleaseError as error:
                if error.code == "LEASE_LOST" and _doubt(error, self._heard, lease.until):
                    self._tell(error, lease)
                # The rest of the window passes by itself.
                if error.code != "NOT_FOUND":
                    return

    def _difference(self) -> SnowleaseError | None:
        """Compares the namespace at all daemons: those of two registries would grant one worker ID twice."""
        daemons, namespace = self._daemons, self._options.namespace
        ids: dict[str, str] = {}
        for daemon in daemons.all if len(daemons.all) > 1 else ():
            for pause in _STANDBY_PAUSES:
                time.sleep(pause)
                try:
                    ids[daemon.shown], _ = daemons.ask(daemon, "GET", f"/v1/{namespace}", None, lambda json: _text(json["id"]), None, _LONGEST_PAUSE)
                    break
                except Failed:
                    break
                except SnowleaseError as error:
                    if error.code != "NOT_FOUND":
                        break
                    ids[daemon.shown] = "none"
        if len(set(ids.values())) < 2:
            return None
        what = f"The addresses {', '.join(ids)} are daemons of different registries (namespace `{namespace}`)"
        return SnowleaseError("CONFIG_INVALID", f"{what}: nothing was claimed; name only daemons of one registry.")

    def _call(
        self, method: str, path: str, body: Body, read: Callable[[Json], Any], receipt: str | None, timeout: float = 86_400
    ) -> tuple[Any, str | None]:
        try:
            return self._daemons.call(method, f"/v1/{self._options.namespace}/leases{path}", body, read, receipt, timeout)
        finally:
            if not self._mark[0]:
                raise _Forked

    def _draw_token(self) -> None:
        # What a copy of this process, made from now on, would repeat.
        self._token, self._clocks, self._has_jumped = _fresh(), _difference_of_clocks(), False

    def _claimed(self, _: int) -> Json:
        if self._notes_jump():
            # This may be a copy, and the other one may have sent this token.
            self._draw_token()
        # What the last holder used of a tick is nothing that this client reads.
        body: dict[str, Any] = {"token": self._token, "host": socket.gethostname()[:255], "pid": os.getpid(), "continues": False}
        body.update({"instance": self._options.instance} if self._options.instance else {})
        body.update({"layout": self.layout.canonical} if self.layout else {})
        body.update({"shared": True} if self._options.borrow else {})
        return body

    def _key(self, lease: Lease) -> dict[str, Any]:
        return {"token": self._token, "fence": lease.fence}

    def _read_grant(self, json: Json) -> _Grant:
        shared = json.get("shared", False)
        if shared is not False and not self._options.borrow:
            # Its window is used by others, too.
            raise SnowleaseError("CONFIG_INVALID", "This address lends a lease that others use, too; name a daemon in its place.")
        lease, layout = Lease(*(_integer(json[name]) for name in ("workerId", "fence", "from", "until"))), Layout(_text(json["layout"]))
        if json["token"] != self._token or json["layout"] != layout.canonical or lease.start > lease.until:
            raise ValueError("it grants the lease of another claim")
        if lease.worker_id > layout.max_worker_id or self.layout not in (None, layout):
            raise ValueError(f"it grants worker ID {lease.worker_id} of {layout} to a claim for {self.layout or 'any layout'}")
        return _Grant(lease, layout, _integer(json["renewAfterMs"]) / 1000, shared is True)

    def _notes_jump(self) -> bool:
        """Whether the wall clock has jumped since the last look."""
        before, self._clocks = self._clocks, _difference_of_clocks()
        by = self._clocks - before
        self._has_jumped = self._has_jumped or by >= _STEP
        self._turns.has_jumped = self._turns.has_jumped or abs(by) >= _STEP
        return abs(by) >= _STEP

    def _not_lent(self) -> SnowleaseError:
        what = f"The registry lends no lease of namespace `{self._options.namespace}`"
        advice = "start its daemon with `--lend`, or leave `borrow` out to lease a worker ID for this process alone"
        return SnowleaseError("CONFIG_INVALID", f"{what}; {advice}.", details={"lends": False})

    def _ended(self) -> SnowleaseError:
        return SnowleaseError("LEASE_LOST", f"This Snowflake of namespace `{self._options.namespace}` was closed; make a new one.")


class _Turns:
    """The turns of one claim: random texts that renewals pass on, so that of two copies of this process the second one to renew is lost."""

    def __init__(self) -> None:
        self._turn: str | None = None
        self._next: str | None = None
        self._sent: list[str] = []
        self._is_from_open_window = False
        # Whether the wall clock has jumped since the next turn was drawn.
        self.has_jumped = False

    def draw(self, clock: int, until: int) -> Json:
        # Repeated until an answer comes. But a copy made in between would repeat it, too: so another one is drawn where this may be one.
        may_be_copy = self.has_jumped or (self._is_from_open_window and clock >= until)
        if self._next is not None and may_be_copy:
            self._sent, self._next = [*self._sent, self._next][-_MOST_SENT_TURNS:], None
        if self._next is None:
            self._next, self._is_from_open_window, self.has_jumped = _fresh(), clock < until, False
        return self.present()

    def present(self) -> Json:
        turns = {"turn": self._turn, "nextTurn": self._next, "sentTurns": self._sent}
        return {name: value for name, value in turns.items() if value}

    def acknowledge(self, turn: str | None) -> bool:
        """A renewal was answered. A daemon of a version before tells no turn."""
        if turn is not None and turn != self._next:
            return False
        if turn is not None:
            self._turn, self._next, self._sent = turn, None, []
        return True


def _read_renewal(json: Json) -> tuple[int, int, float, str | None]:
    start, until = _integer(json["from"]), _integer(json["until"])
    if start > until:
        raise ValueError("its `from` is behind its `until`")
    return start, until, _integer(json["renewAfterMs"]) / 1000, _text(json["turn"]) if "turn" in json else None


def _integer(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 1 << 53:
        raise TypeError("a number of it is no integer from 0 to 2^53-1")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise TypeError("a text of it is missing")
    return value


def _used(window: Window) -> Json:
    usage = window.usage()
    # A daemon knows which blocks of its lease are taken.
    return {} if usage.timestamp is None or window.blocks else {"lastTimestamp": usage.timestamp, "lastSequence": usage.sequence}


def _quarantine_pause(error: SnowleaseError, length: float) -> float:
    """In how many seconds to repeat what a quarantine refused, of a window of this length: an operator may end it early. Not all at once."""
    share = secrets.randbelow(1000) / 1000
    look = length * (0.15 + share * 0.1)
    return max(_SHORTEST_PAUSE, min(look, (look if error.retry_after is None else error.retry_after) + share * 0.05 * length))


def _doubt(error: SnowleaseError, heard: tuple[int, int], until: int) -> tuple[int, int] | None:
    """From when to when another holder may have used the same times, Unix ms. `heard`: when the last two requests were sent that were answered."""
    # Both copies of a process may have heard the last answer.
    if error.details.get("reason") == "cloned":
        return heard[0], until
    told = error.details.get("doubt")
    if not isinstance(told, dict) or not all(type(told.get(name)) is int for name in ("from", "until")):
        return None
    # What was answered later is this holder's alone.
    begin, end = max(told["from"], heard[1]), told["until"]
    return (begin, end) if begin < end else None


def _fresh() -> str:
    """32 random hex digits. A machine that was copied while it ran repeats the random bytes of its kernel; the clocks tell the copies apart."""
    seed = f"{secrets.token_hex(16)} {time.monotonic_ns()} {time.time_ns()} {os.getpid()}"
    return hashlib.sha256(seed.encode()).hexdigest()[:32]


def _now() -> int:
    """Unix ms."""
    return time.time_ns() // 1_000_000


def _difference_of_clocks() -> float:
    """By how much the wall clock is ahead of the monotonic one, seconds: of three reads the shortest, since a process may be stopped in one."""
    reads = []
    for _ in range(3):
        before, wall, after = time.monotonic(), time.time(), time.monotonic()
        reads.append((after - before, wall - (before + after) / 2))
    return min(reads)[1]


def _pause(woken: queue.SimpleQueue[None], timeout: float) -> None:
    """Sleeps until something is put, or for this many seconds."""
    with contextlib.suppress(queue.Empty):
        woken.get(timeout=max(0.0, timeout))


def _wake(sleeper: queue.SimpleQueue[None]) -> None:
    if sleeper.empty():
        sleeper.put(None)


def _close_all() -> None:
    running = list(_running)
    for holder in running:
        holder.stop()
    for holder in running:
        holder.close()


atexit.register(_close_all)
