"""The window of one claim, tick by tick: which IDs its holder may still make."""

from __future__ import annotations

import math
import sys
import threading
from collections.abc import Iterator
from operator import length_hint
from typing import Callable, NamedTuple

from .blocks import Blocks
from .errors import SnowleaseError, Unavailable, time_text
from .layout import Layout
from .mark import Mark, new_mark

# The only block of a tick, where all sequences are this claim's.
_WHOLE = (0,)


class Lease(NamedTuple):
    """A claim of a worker ID as it is now. `fence`: the registry raises it with each claim. Each ID carries a time in [start, until), Unix ms."""

    worker_id: int
    fence: int
    start: int
    until: int


class OpenTick(NamedTuple):
    """A tick that lies wholly in the window. While the wall clock, in ns, shows from `begin` to before `end`, an ID of `ids` counts if the mark is
    still set once it is taken."""

    mark: Mark
    begin: int
    end: int
    ids: Iterator[int]


class Usage(NamedTuple):
    """What a holder used: the end of it, its newest tick (both Unix ms), and the highest sequence in that."""

    until: int
    timestamp: int | None = None
    sequence: int | None = None


class _Tick:
    __slots__ = ("before", "blocks", "ids", "next", "number", "why")

    def __init__(self, number: float, ids: Iterator[int], blocks: tuple[int, ...] = (), why: Callable[[], SnowleaseError] | None = None) -> None:
        # The IDs are those of the last of these blocks; the nodes before this one had the other blocks of this tick.
        self.number, self.ids, self.blocks = number, ids, blocks
        # Of the tick behind all others: why there are no more.
        self.why = why
        self.before: _Tick | None = None
        # The tick opened after this one. `setdefault` is one step, and the first caller wins: there is no lock that a forked child or a
        # signal handler could wait for.
        self.next: dict[None, _Tick] = {}


class Window:
    """Only the newest tick is ever opened again, and only for the sequences that were not taken: its iterator gives each ID once, to whichever
    thread. Safety needs no more than that and the check of the window: no clock, no lock, no renewal in time. A lent lease has several such
    iterators in a tick, one for each block."""

    def __init__(self, layout: Layout, lease: Lease, clock: int, blocks: Blocks | None = None) -> None:
        """`clock`: the wall clock at the grant, Unix ms. `blocks`: those of a lent lease; None: each sequence is this claim's."""
        self.layout, self.lease, self.blocks = layout, lease, blocks
        # The ID of sequence 0 in tick 0, and by what IDs grow from one block to the next.
        self._first = layout.compose(layout.epoch, lease.worker_id, 0)
        self._block_step = layout.sequence_step * (layout.max_sequence + 1 if blocks is None else blocks.size)
        self._mark, self._newest_clock, self._last = new_mark(), clock, _Tick(-1, iter(()))
        # Why the last renewal failed.
        self.trouble: SnowleaseError | None = None

    def open(self, wall: int) -> OpenTick:
        """Opens the tick of the wall clock, Unix ms. Raises why there is none."""
        layout = self.layout
        while True:
            # Read before the window: where `start` is raised meanwhile, this mark is wiped.
            mark = self._mark
            worker_id, _, start, until = self.lease
            last = self._newest()
            if last.why is not None:
                raise last.why()
            if wall < layout.epoch:
                times = f"The clock shows {time_text(wall)}, and the layout begins at {time_text(layout.epoch)}"
                raise Unavailable("WINDOW_NOT_OPEN", f"{times}; correct the clock if it is wrong, or wait.", (layout.epoch - wall) / 1000)
            layout.check_end(wall)
            number, floor = layout.tick_of(wall), max(int(last.number), layout.first_whole_tick(start))
            if number < floor:
                raise self._too_early(wall, layout.time_of(floor))
            begin, end = layout.time_of(number), layout.time_of(number + 1)
            if end > until:
                what = f"The window of worker {worker_id} ended at {time_text(until)} and the clock shows {time_text(wall)}"
                why_not = f" The last one did not: {self.trouble}" if self.trouble else ""
                raise Unavailable("LEASE_EXPIRED", f"{what}; IDs go on when a renewal succeeds.{why_not}")
            self._newest_clock = max(self._newest_clock, wall)
            if number != last.number or not length_hint(last.ids):
                used = last.blocks if number == last.number else ()
                for block in _WHOLE if self.blocks is None else self.blocks.of(number):
                    if block not in used:
                        break
                else:
                    raise self._exhausted(number, end - wall)
                mine = _Tick(number, self._ids_of(number, block), (*used, block))
                if last.next.setdefault(None, mine) is not mine:
                    continue
                self._last = last = mine
            return OpenTick(mark, begin * 1_000_000, end * 1_000_000, last.ids)

    def renewed(self, start: int, until: int) -> None:
        """A renewal was answered. Raises both ends of the window, and lowers neither."""
        was = self.lease
        self.lease = was._replace(start=max(was.start, start), until=max(was.until, until))
        if self.lease.start > was.start:
            self._wipe()

    def give_up_before(self, clock: int) -> None:
        """A quarantine refused a renewal of this clock, Unix ms: the registry may have granted the times before it to others."""
        self.renewed(min(clock, self.lease.until), 0)

    def usage(self) -> Usage:
        """What was used so far."""
        return self._usage_at(self._newest())

    def end(self, why: Callable[[], SnowleaseError]) -> Usage | None:
        """Ends this claim: `open` raises `why()` from now on. Returns what was used; None if it had ended before."""
        sealed = _Tick(math.inf, iter(()), why=why)
        while True:
            sealed.before = last = self._newest()
            if last.why is None and last.next.setdefault(None, sealed) is not sealed:
                continue
            # Also where it had ended: another thread, or the frame below this one, may not have come to this yet.
            self._mark[0] = 0
            return self._usage_at(last) if last.why is None else None

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
        layout, last = self.layout, last.before or last
        if last.number < 0:
            return Usage(self.lease.start)
        timestamp = layout.time_of(int(last.number))
        return Usage(max(self.lease.start, timestamp + layout.tick), timestamp, max(0, layout.max_sequence - length_hint(last.ids)))

    def _ids_of(self, number: int, block: int) -> Iterator[int]:
        layout = self.layout
        base, step = self._first + number * layout.tick_step + block * self._block_step, layout.sequence_step
        # 0 is never an ID.
        return _shared(iter(range(base or step, base + self._block_step, step)))

    def _exhausted(self, number: int, wait: int) -> SnowleaseError:
        what, why_not = f"Each of the {self.layout.max_sequence + 1} sequences of this tick is used", ""
        if self.blocks:
            self.blocks.want(number)
            what = f"Each of the {len(self.blocks.of(number)) * self.blocks.size} sequences that this process has of this tick is used"
            if self.blocks.trouble:
                why_not = f" The last request for more brought none: {self.blocks.trouble}"
            elif not self.blocks.of(number):
                what = "The daemon has given no block of this tick: others have them all, or this clock is ahead of its own by more than 8 s"
        return Unavailable("SEQUENCE_EXHAUSTED", f"{what}; try again in {wait} ms.{why_not}", wait / 1000)

    def _too_early(self, wall: int, opens: int) -> SnowleaseError:
        wait = opens - wall
        if wall < self._newest_clock:
            back = f"The clock was set back by {self._newest_clock - wall} ms, to before what worker {self.lease.worker_id} may use again"
            return Unavailable("CLOCK_ROLLBACK", f"{back}; it is usable in {wait} ms: wait, or ask another server.", wait / 1000)
        what = f"The window of worker {self.lease.worker_id} opens at {time_text(opens)}, in {wait} ms"
        return Unavailable("WINDOW_NOT_OPEN", f"{what}; wait, or correct the clock if it is wrong.", wait / 1000)


class _LockedIterator:
    """An iterator for all threads of a Python without the global lock, which alone makes a step of `iter(range())` one step."""

    def __init__(self, ids: Iterator[int]) -> None:
        # A signal handler may come here while its thread is here.
        self._ids, self._lock = ids, threading.RLock()

    def __iter__(self) -> Iterator[int]:
        return self

    def __next__(self) -> int:
        with self._lock:
            return next(self._ids)

    def __length_hint__(self) -> int:
        return length_hint(self._ids)


_shared: Callable[[Iterator[int]], Iterator[int]] = iter if getattr(sys, "_is_gil_enabled", lambda: True)() else _LockedIterator
