"""What threads and signal handlers of one process wait for."""

from __future__ import annotations

import queue
from typing import List


class Latch:
    """Closed at first; once opened, it stays open.

    A handler may wait for it, or open it, in the middle of another call of its own thread: no lock is held here, as a `threading.Event` holds one.
    """

    def __init__(self) -> None:
        self.is_open = False
        self._waiting: List[queue.SimpleQueue[None]] = []

    def open(self) -> None:
        self.is_open = True
        for waiter in self._waiting:
            waiter.put(None)

    def wait(self, timeout: float) -> None:
        """Waits until it is open, or for this many seconds."""
        mine: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._waiting.append(mine)
        # After `append`: whoever opens it sees this waiter, or this waiter sees that it is open.
        if not self.is_open:
            pause(mine, timeout)


def pause(woken: "queue.SimpleQueue[None]", timeout: float) -> None:
    """Sleeps until something is put, or for this many seconds."""
    try:
        woken.get(timeout=max(0.0, timeout))
    except queue.Empty:
        pass
