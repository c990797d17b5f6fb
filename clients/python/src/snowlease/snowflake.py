"""The generator of IDs that programs use."""

from __future__ import annotations

import asyncio
import os
import re
import time
import weakref
from time import time_ns
from types import TracebackType
from typing import List, NoReturn, Optional, Type

from .encodings import encode
from .errors import SnowleaseError, Unavailable, expected, refusal
from .layout import Layout
from .lease import Lease, LeaseOptions
from .ticks import LeaseSnapshot, OpenTick, Ticks
from .transport import Transport, read_registry

_NAMESPACE = re.compile("[a-z][a-z0-9_]{0,31}")
_TOKEN = re.compile("[\x21-\x7e]{1,1024}")
# Between two looks for a renewal, or for another worker ID, seconds.
_LOOK = 0.01


class Snowflake:
    """IDs on a worker ID that is leased from a daemon: for all threads of a process, and, with a lease of its own, for each forked child.

    The first ID claims the worker ID: so a module may make a Snowflake before a server forks its workers. Its methods raise `Unavailable`
    where there may be an ID later, `SnowleaseError` where not.
    """

    def __init__(
        self,
        registry: Optional[str] = None,
        *,
        namespace: Optional[str] = None,
        token: Optional[str] = None,
        layout: Optional[str] = None,
        window: Optional[float] = None,
        claim_timeout: float = 0,
        operation_timeout: float = 5,
        max_wait: float = 0.5,
        borrow: Optional[bool] = None,
        host: Optional[str] = None,
        instance: Optional[str] = None,
    ) -> None:
        """Checks the options; asks no daemon. Raises CONFIG_INVALID. All times are seconds.

        `registry`: `http://HOST:PORT`, several with commas, `https://…`, `unix:PATH`; default: the variable SNOWLEASE_REGISTRY.
        `namespace`: default: the registry's `?namespace=`, then SNOWLEASE_NAMESPACE, then `default`.
        `token`: for the daemon; default: the registry's `?token=`, then SNOWLEASE_TOKEN, then what is in the file SNOWLEASE_TOKEN_FILE.
        `layout`: a preset or a notation; default: the namespace's.
        `window`: how far a lease reaches ahead; default: what the daemon is set to.
        `claim_timeout`: how long a claim waits for a free worker ID. `operation_timeout`: of one operation, over all daemons.
        `max_wait`: how long `next` waits for the clock, for a renewal or for another worker ID.
        `borrow`: whether to use the lease of a daemon with `--lend` together with other processes; default: the registry's `?borrow=`, then no.
        `host`, `instance`: what the registry shows of this process; default: the host's name, and nothing.
        """
        given = registry if registry is not None else os.environ.get("SNOWLEASE_REGISTRY")
        if not given:
            raise refusal("CONFIG_INVALID", "Expected a registry, got none: pass `registry`, or set SNOWLEASE_REGISTRY.")
        daemons, settings = read_registry(given)
        name = namespace or settings.get("namespace") or os.environ.get("SNOWLEASE_NAMESPACE") or "default"
        if _NAMESPACE.fullmatch(name) is None:
            raise expected("namespace", f"to match {_NAMESPACE.pattern}", name)
        shown_token = token or settings.get("token") or _token_of_environment()
        if shown_token is not None and _TOKEN.fullmatch(shown_token) is None:
            raise refusal("CONFIG_INVALID", "Expected `token` to be 1 to 1024 visible ASCII characters, got another text.")
        borrows = settings.get("borrow") == "true" if borrow is None else borrow
        if not isinstance(borrows, bool):
            raise expected("borrow", "to be True or False", borrow)
        if borrows and len(daemons) > 1:
            raise refusal("CONFIG_INVALID", "Expected `registry` to be one daemon's address, since `borrow` asks for its lease, got several; name the one that lends.")
        self._options = LeaseOptions(
            transport=Transport(daemons, shown_token, _seconds("operation_timeout", operation_timeout, 0.001)),
            namespace=name,
            layout=None if layout is None else Layout(layout),
            window=None if window is None else _seconds("window", window, 0.003),
            claim_timeout=_seconds("claim_timeout", claim_timeout, 0),
            operation_timeout=operation_timeout,
            borrow=borrows,
            host=host,
            instance=instance,
        )
        self._max_wait = _seconds("max_wait", max_wait, 0)
        self._lease = Lease(self._options)
        # No tick yet: this one is never open.
        self._open = OpenTick(bytearray(1), 0, 0, iter(()))
        # Of this process.
        self._present = [self._lease]
        # Waits for no answer: the collector of garbage may come in the middle of anything.
        weakref.finalize(self, _stop_all, self._present).atexit = False

    def next(self) -> int:
        """An ID that no other generator makes, 1 to 2^63-1. Claims the worker ID at the first call, and waits up to `max_wait`."""
        mark, begin, end, ids = self._open
        # The mark is wiped in a forked child and where the claim ends. It is read last: no signal's handler, which may fork, runs between that
        # and the step that takes an ID. That step is one of the interpreter: another thread comes before or after it, and no ID comes twice.
        if begin <= time_ns() < end and mark[0]:
            for made in ids:
                return made
        return self._next(self._max_wait)

    def next_string(self, encoding: str = "decimal") -> str:
        """The next ID as text: `decimal`, `hex`, `base36`, `base62`, `base64url`, `crockford32`, `base62sort`, `base64sort`."""
        if encoding == "decimal":
            return str(self.next())
        encode(0, encoding)  # Before an ID is used up.
        return encode(self.next(), encoding)

    async def next_async(self) -> int:
        """The same as `next`, without blocking the event loop."""
        if self.state == "held":
            try:
                return self._next(0)
            except Unavailable:
                pass
        return await asyncio.get_running_loop().run_in_executor(None, self.next)

    def claim(self) -> "Snowflake":
        """Claims the worker ID now: for a check at the start of a program. Returns this Snowflake."""
        self._held()
        return self

    def close(self) -> None:
        """Gives the worker ID back; no ID is made from then on. Happens at the exit of the interpreter by itself, but not after `os._exit`."""
        lease = self._lease
        while self._may_be_followed(lease):
            # Another thread may be about to claim again.
            stopped = Lease(self._options)
            stopped.stop()
            lease = self._lease = self._present[0] = lease.successor.setdefault(None, stopped)
        lease.close()

    def __enter__(self) -> "Snowflake":
        return self.claim()

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        self.close()

    def __repr__(self) -> str:
        worker = "" if self.worker_id is None else f" worker {self.worker_id}"
        return f"<Snowflake {self._options.namespace}{worker} {self.state}>"

    @property
    def state(self) -> str:
        """`new` (nothing is claimed yet), `claiming`, `held`, `switching` (lost, another one is being claimed), `failed`, `lost` or `closed`."""
        return self._lease.state if self._lease.is_here or self._lease.state == "closed" else "new"

    @property
    def lease(self) -> Optional[LeaseSnapshot]:
        """The claim whose IDs `next` makes now; None without one. The same object until something of it changes."""
        lease, ticks = self._lease, self._lease.ticks
        return ticks.lease if ticks is not None and lease.state == "held" and lease.is_here else None

    @property
    def worker_id(self) -> Optional[int]:
        """The worker ID; None before the first claim of this process."""
        return self._last.worker_id if self._last else None

    @property
    def fence(self) -> Optional[int]:
        """The fence of the claim: the registry raises it with each claim of the worker ID."""
        return self._last.fence if self._last else None

    @property
    def layout(self) -> Optional[Layout]:
        """The bits of the IDs; None while neither an option nor a claim has told."""
        return self._lease.layout

    def __reduce__(self) -> NoReturn:
        raise TypeError("A Snowflake cannot be copied or pickled: its threads and forked children share it; in any other process make one.")

    @property
    def _last(self) -> Optional[LeaseSnapshot]:
        """The last claim of this process."""
        ticks = self._lease.ticks
        return ticks.lease if ticks is not None and self._lease.is_here else None

    def _next(self, max_wait: float) -> int:
        deadline: Optional[float] = None
        while True:
            ticks = self._held()
            # What the claim took does not count.
            deadline = deadline or time.monotonic() + max_wait
            wall = time_ns() // 1_000_000
            try:
                self._open = open = ticks.open(wall)
            except Unavailable as refused:
                # Other threads may have gone on since this one read the clock: for it alone the clock looks set back.
                late = (time_ns() // 1_000_000 - wall) / 1000
                pause = _LOOK if refused.retry_after is None else max(refused.retry_after - late, 0.0001)
                if pause > late and time.monotonic() + pause > deadline:
                    raise
                # Not longer: a lease that ends meanwhile is told at once.
                time.sleep(min(pause, _LOOK))
                continue
            # As in `next`.
            if open.mark[0]:
                for made in open.ids:
                    return made

    def _held(self) -> Ticks:
        while True:
            ticks = self._current().held()
            if ticks is not None:
                return ticks

    def _current(self) -> Lease:
        """The lease of this process."""
        lease = self._lease
        while self._may_be_followed(lease):
            mine = Lease(self._options._replace(layout=lease.layout))
            lease = lease.successor.setdefault(None, mine)
            if lease is mine:
                self._lease = self._present[0] = lease
        return lease

    @staticmethod
    def _may_be_followed(lease: Lease) -> bool:
        """Whether another lease takes its place: in a forked child, and after a claim that failed."""
        return lease.state != "closed" and (not lease.is_here or lease.state == "failed")


def _stop_all(leases: List[Lease]) -> None:
    for lease in leases:
        lease.stop()


def _token_of_environment() -> Optional[str]:
    token, file = os.environ.get("SNOWLEASE_TOKEN"), os.environ.get("SNOWLEASE_TOKEN_FILE")
    if token or not file:
        return token or None
    try:
        with open(file, encoding="ascii") as lines:
            return lines.read().strip()
    except (OSError, ValueError) as cause:
        why = getattr(cause, "strerror", None) or "it is not ASCII"
        raise refusal("CONFIG_INVALID", f"The file of SNOWLEASE_TOKEN_FILE cannot be read: {why}.") from None


def _seconds(name: str, value: float, least: float) -> float:
    if isinstance(value, (int, float)) and not isinstance(value, bool) and least <= value <= 86_400:
        return value
    raise expected(name, f"to be a number of seconds from {least:g} to 86400", value)

