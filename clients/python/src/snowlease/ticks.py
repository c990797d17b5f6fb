"""The ticks of one claim: which IDs its holder may still make."""

from __future__ import annotations

import math
import sysconfig
import threading
from operator import length_hint
from typing import Callable, Dict, Iterator, NamedTuple, Optional

from .blocks import Share, Whole
from .errors import SnowleaseError, refusal, time_text
from .layout import Layout
from .mark import Mark, new_mark


class LeaseSnapshot(NamedTuple):
    """A claim of a worker ID as it is now. `fence`: the registry raises it with each claim. Each ID carries a time in [start, until), Unix ms."""

    worker_id: int
    fence: int
    start: int
    until: int


class OpenTick(NamedTuple):
    """A tick that lies wholly in the window. IDs come of it while the mark is set and the wall clock, in ns, shows from `begin` to before `end`."""

    mark: Mark
    begin: int
    end: int
    ids: Iterator[int]


class Usage(NamedTuple):
    """What a holder used: its newest tick (Unix ms), the highest sequence in it, and the end of what it used, Unix ms."""

    until: int
    timestamp: Optional[int]
    sequence: Optional[int]


class _Tick:
    """A tick, or where a process has only blocks of its sequences, one of these blocks."""

    __slots__ = ("at", "before", "ids", "next", "number", "why")

    def __init__(self, number: float, at: int, ids: Iterator[int], why: Optional[Callable[[], SnowleaseError]] = None) -> None:
        self.number = number
        # Which block of the tick this is, from 0.
        self.at = at
        self.ids = ids
        # Of the tick behind all others: why there are no more.
        self.why = why
        self.before: Optional[_Tick] = None
        # The tick opened after this one. `setdefault` is one step, and the first caller wins: no lock is held here that a forked child or a
        # signal handler could wait for.
        self.next: Dict[None, _Tick] = {}


class Ticks:
    """The window of one claim, tick by tick.

    Only the newest tick is ever opened again, and only for the sequences that were not taken: an iterator is shared by all threads, and gives
    each ID once. Safety needs no more than that and the check of the window: no clock, no lock, no renewal in time.
    """

    def __init__(self, layout: Layout, lease: LeaseSnapshot, clock: int, share: Optional[Share] = None) -> None:
        """`clock`: the wall clock at the grant, Unix ms. `share`: of a lease that other processes use, too."""
        self.layout = layout
        self.lease = lease
        self._share = share or Whole(layout)
        self._mark = new_mark()
        self._newest_clock = clock
        self._last = _Tick(-1, 0, iter(()))

    @property
    def newest_tick(self) -> int:
        """The newest tick; -1 where there is none."""
        last = self._newest()
        return int((last.before or last).number)

    def open(self, wall: int) -> OpenTick:
        """Opens the tick of the wall clock, Unix ms. Raises what `clients/vectors/README.md` says, in that order."""
        layout = self.layout
        while True:
            # Before the window: where `from` is raised meanwhile, this mark is wiped.
            mark = self._mark
            worker_id, _, start, until = self.lease
            last = self._newest()
            if last.why is not None:
                raise last.why()
            layout.check_time(wall)
            number = layout.tick_of(wall)
            floor = max(int(last.number), layout.first_whole_tick(start))
            if number < floor:
                raise self._too_early(wall, layout.time_of(floor))
            if layout.time_of(number + 1) > until:
                what = f"The window of worker {worker_id} ended at {time_text(until)} and the clock shows {time_text(wall)}"
                raise refusal("LEASE_EXPIRED", f"{what}; IDs go on when a renewal succeeds.")
            self._newest_clock = max(self._newest_clock, wall)
            is_new = number > last.number
            if is_new or not length_hint(last.ids):
                at = 0 if is_new else last.at + 1
                blocks = self._share.of(number)
                if at >= len(blocks):
                    raise self._full(number, wall, len(blocks))
                mine = _Tick(number, at, self._ids_of(number, blocks[at]))
                if last.next.setdefault(None, mine) is not mine:
                    continue
                self._last = last = mine
            begin = layout.time_of(number) * 1_000_000
            return OpenTick(mark, begin, begin + layout.tick * 1_000_000, last.ids)

    def renewed(self, start: int, until: int) -> None:
        """A renewal was answered. Raises both ends of the window, and lowers neither."""
        was = self.lease
        now = was._replace(start=max(was.start, start), until=max(was.until, until))
        if now != was:
            self.lease = now
        if now.start > was.start:
            self._wipe()

    def give_up_before(self, clock: int) -> None:
        """A quarantine refused a renewal of this clock, Unix ms: the registry may have granted the times before it to others."""
        self.renewed(min(clock, self.lease.until), 0)

    def usage(self) -> Usage:
        """What was used so far."""
        return self._usage_at(self._newest())

    def end(self, why: Callable[[], SnowleaseError]) -> Optional[Usage]:
        """Ends this claim: `open` raises `why()` from now on. Returns what was used; None if it had ended."""
        sealed = _Tick(math.inf, 0, iter(()), why)
        while True:
            last = self._newest()
            if last.why is not None:
                return None
            sealed.before = last
            if last.next.setdefault(None, sealed) is sealed:
                self._wipe()
                return self._usage_at(last)

    def _newest(self) -> _Tick:
        last = self._last
        while last.next:
            last = last.next[None]
        return last

    def _wipe(self) -> None:
        """Ends each open tick at once, for all threads."""
        old, self._mark = self._mark, new_mark()
        old[0] = 0

    def _usage_at(self, last: _Tick) -> Usage:
        layout, start = self.layout, self.lease.start
        last = last.before or last
        if last.number < 0:
            return Usage(start, None, None)
        timestamp = layout.time_of(int(last.number))
        used = layout.max_sequence - length_hint(last.ids)
        return Usage(max(start, timestamp + layout.tick), timestamp, max(0, used))

    def _ids_of(self, tick: int, block: int) -> Iterator[int]:
        layout, size, worker_id = self.layout, self._share.size, self.lease.worker_id
        first = block * size
        base, step = layout.encode(tick, worker_id, 0), layout.sequence_step
        # 0 is never an ID.
        skipped = 1 if base == 0 and first == 0 else 0
        return _shared(iter(range(base + (first + skipped) * step, base + (first + size) * step, step)))

    def _full(self, tick: int, wall: int, blocks: int) -> SnowleaseError:
        end = self.layout.time_of(tick + 1)
        why = self._share.want(tick)
        advice = f"try again in {end - wall} ms" if why is None else f"more are asked for, but {why}"
        return refusal(
            "SEQUENCE_EXHAUSTED",
            f"Each of the {blocks * self._share.size} sequences of this tick is used; {advice}.",
            (end - wall) / 1000,
        )

    def _too_early(self, wall: int, opens: int) -> SnowleaseError:
        wait = opens - wall
        if wall < self._newest_clock:
            back = f"The clock was set back by {self._newest_clock - wall} ms, to before what worker {self.lease.worker_id} may use again"
            return refusal("CLOCK_ROLLBACK", f"{back}; it is usable in {wait} ms: wait, or ask another server.", wait / 1000)
        what = f"The window of worker {self.lease.worker_id} opens at {time_text(opens)}, in {wait} ms"
        return refusal("WINDOW_NOT_OPEN", f"{what}; wait, or correct the clock if it is wrong.", wait / 1000)


class _LockedIterator:
    """An iterator for all threads of a Python without the global lock, which alone makes a step of `iter(range())` one step."""

    def __init__(self, ids: Iterator[int]) -> None:
        self._ids = ids
        # A signal handler may come here while its thread is here.
        self._lock = threading.RLock()

    def __iter__(self) -> Iterator[int]:
        return self

    def __next__(self) -> int:
        with self._lock:
            return next(self._ids)

    def __length_hint__(self) -> int:
        return length_hint(self._ids)


_shared: Callable[[Iterator[int]], Iterator[int]] = iter
if sysconfig.get_config_var("Py_GIL_DISABLED"):
    _shared = _LockedIterator
