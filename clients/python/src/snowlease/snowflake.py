"""The generator of IDs that programs use."""

from __future__ import annotations

import os
import re
import time
from time import time_ns
from types import TracebackType
from typing import NoReturn

from .daemons import Daemons, read_registry
from .errors import SnowleaseError, Unavailable, expected
from .holder import Holder, Options
from .layout import Layout
from .text import encode
from .window import Lease, OpenTick, Window

_NAMESPACE = re.compile("[a-z][a-z0-9_]{0,31}")
_TOKEN = re.compile("[\x21-\x7e]{1,1024}")
# Between two looks for a renewal, or for another lease, and for blocks of a lent one, seconds.
_LOOK, _LOOK_FOR_BLOCKS = 0.01, 0.002
# How long a claim of a lent lease waits: the place of a process that has ended is taken for 10 s. Seconds.
_LENT_CLAIM_TIMEOUT = 15.0


class Snowflake:
    """IDs on a worker ID that is leased from a daemon: for all threads of a process, and, with a lease of its own, for each forked child.

    The first ID claims the worker ID: so a module may make a Snowflake before a server forks its workers. After a loss the next ID claims
    another one. Its methods raise `Unavailable` where there may be an ID later, `SnowleaseError` where not.
    """

    def __init__(
        self,
        registry: str | None = None,
        *,
        namespace: str | None = None,
        token: str | None = None,
        layout: str | Layout | None = None,
        borrow: bool = False,
        claim_timeout: float | None = None,
        operation_timeout: float = 5,
        max_wait: float = 0.5,
        instance: str | None = None,
    ) -> None:
        """Checks the options; asks no daemon. Raises CONFIG_INVALID. All times are seconds.

        `registry`: `http://HOST:PORT`, several with commas, `https://…`, `unix:PATH`; default: the variable SNOWLEASE_REGISTRY.
        `namespace`: default: the registry's `?namespace=`, then SNOWLEASE_NAMESPACE, then `default`.
        `token`: for the daemon; default: the registry's `?token=`, then SNOWLEASE_TOKEN, then what is in the file SNOWLEASE_TOKEN_FILE.
        `layout`: a preset or a notation; default: the namespace's.
        `borrow`: shares the worker ID of a daemon with `--lend`, as one of up to 24 processes; default: false, or the registry's `?borrow=`.
        `claim_timeout`: how long a claim waits for a free worker ID; default: 0; with `borrow` 15, since the place of a process that has ended
        is taken for 10. `operation_timeout`: of one call, over all daemons.
        `max_wait`: how long `next` waits for the clock, for a renewal or, with `borrow`, for the daemon to give more sequences.
        `instance`: a name for this process that the registry shows; default: none.
        """
        given = registry if registry is not None else os.environ.get("SNOWLEASE_REGISTRY")
        if not isinstance(given, str) or not given:
            raise SnowleaseError("CONFIG_INVALID", "Expected a registry, got none: pass `registry`, or set SNOWLEASE_REGISTRY.")
        daemons, settings = read_registry(given)
        name = namespace or settings.get("namespace") or os.environ.get("SNOWLEASE_NAMESPACE") or "default"
        if not isinstance(name, str) or _NAMESPACE.fullmatch(name) is None:
            raise expected("namespace", f"to match {_NAMESPACE.pattern}", name)
        secret = token or settings.get("token") or _token_of_environment()
        if secret is not None and (not isinstance(secret, str) or _TOKEN.fullmatch(secret) is None):
            raise SnowleaseError("CONFIG_INVALID", "Expected `token` to be 1 to 1024 visible ASCII characters, got another text.")
        if instance is not None and not isinstance(instance, str):
            raise expected("instance", "to be a text", instance)
        if not isinstance(borrow, bool):
            raise expected("borrow", "to be True or False", borrow)
        borrow = borrow or settings.get("borrow") == "true"
        if borrow and len(daemons) > 1:
            rule = "to be one daemon's address, such as unix:/run/snowlease/daemon.sock, since `borrow` asks to borrow its lease"
            raise expected("registry", rule, ",".join(daemon.shown for daemon in daemons))
        claim_timeout = claim_timeout if claim_timeout is not None else _LENT_CLAIM_TIMEOUT if borrow else 0
        times = {"claim_timeout": (claim_timeout, 0), "operation_timeout": (operation_timeout, 0.001), "max_wait": (max_wait, 0)}
        for option, (value, least) in times.items():
            if not isinstance(value, (int, float)) or isinstance(value, bool) or not least <= value <= 86_400:
                raise expected(option, f"to be a number of seconds from {least} to 86400", value)
        self._max_wait = max_wait
        transport = Daemons(daemons, secret, operation_timeout)
        known = layout if layout is None or isinstance(layout, Layout) else Layout(layout)
        self._holder = Holder(Options(transport, name, known, borrow, claim_timeout, operation_timeout, instance))
        # No tick yet: this one is never open.
        self._tick = OpenTick(bytearray(1), 0, 0, iter(()))

    def next(self) -> int:
        """An ID that no other generator makes, 1 to 2^63-1. Claims the worker ID at the first call."""
        mark, begin, end, ids = self._tick
        if begin <= time_ns() < end:
            # One step of the interpreter: another thread comes before or after it, and no ID comes twice.
            for made in ids:
                # Wiped in a forked child, and where the claim ends. Read last, so that nothing comes in between.
                if mark[0]:
                    return made
                break
        return self._next()

    def next_string(self, encoding: str = "decimal") -> str:
        """The next ID as text: `decimal`, `hex`, `base36`, `base62`, `base64url`, `crockford32`, `base62sort` or `base64sort`."""
        encode(0, encoding)  # Before an ID is used up.
        return encode(self.next(), encoding)

    async def next_async(self) -> int:
        """The same as `next`, without blocking the event loop."""
        import asyncio  # As slow to load as all else here.

        window = self._holder.window
        if window is not None and self.lease is not None:
            try:
                made = self._take(window, time_ns() // 1_000_000)
                if made is not None:
                    return made
            except SnowleaseError:
                pass
        return await asyncio.get_running_loop().run_in_executor(None, self.next)

    def claim(self) -> Snowflake:
        """Claims the worker ID now: for a check at the start of a program. Returns this Snowflake."""
        while self._current().wait() is None:
            pass
        return self

    def close(self) -> None:
        """Gives the worker ID back; no ID is made from then on. Happens at the exit of the interpreter by itself, but not after `os._exit`."""
        holder = self._holder
        while holder.has_ended:
            # Another thread may be about to claim again.
            closed = holder.follower()
            closed.stop()
            holder = self._holder = holder.next.setdefault(None, closed)
        holder.close()

    def __enter__(self) -> Snowflake:
        return self.claim()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __del__(self) -> None:
        # Waits for no answer: the collector of garbage may come in the middle of anything.
        if "_holder" in self.__dict__:
            self._holder.stop()

    def __repr__(self) -> str:
        lease = self.lease
        return f"<Snowflake {f'on worker {lease.worker_id}' if lease else 'without a worker ID'}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("A Snowflake cannot be copied or pickled: its threads and forked children share it; in any other process make one.")

    @property
    def lease(self) -> Lease | None:
        """The claim whose IDs `next` makes now; None before the first one of this process, after a loss, and once it is closed."""
        return self._holder.lease()

    @property
    def layout(self) -> Layout | None:
        """The bits of the IDs; None while neither an option nor a claim has told."""
        return self._holder.layout

    def _next(self) -> int:
        deadline: float | None = None
        look = _LOOK_FOR_BLOCKS
        while True:
            window = self._current().wait()
            if window is None:
                continue
            # What the claim took does not count.
            deadline = deadline or time.monotonic() + self._max_wait
            wall = time_ns() // 1_000_000
            try:
                made = self._take(window, wall)
                if made is not None:
                    return made
            except Unavailable as refused:
                # Other threads may have gone on since this one read the clock: for it alone the clock looks set back.
                late = (time_ns() // 1_000_000 - wall) / 1000
                pause = _LOOK if refused.retry_after is None else max(refused.retry_after - late, 0.0001)
                if window.blocks and refused.code == "SEQUENCE_EXHAUSTED":
                    # More blocks may come before the next tick.
                    pause = min(pause, look)
                    look = min(2 * look, _LOOK)
                if pause > late and time.monotonic() + pause > deadline:
                    raise
                # Not longer: a lease that ends meanwhile is told at once.
                time.sleep(min(pause, _LOOK))

    def _take(self, window: Window, wall: int) -> int | None:
        """An ID of the tick of this time, Unix ms; None: look again. Raises why there is none."""
        self._tick = tick = window.open(wall)
        # As in `next`.
        for made in tick.ids:
            return made if tick.mark[0] else None
        return None

    def _current(self) -> Holder:
        """The holder of this process."""
        holder = self._holder
        while holder.has_ended:
            holder = self._holder = holder.next.setdefault(None, holder.follower())
        return holder


def _token_of_environment() -> str | None:
    token, file = os.environ.get("SNOWLEASE_TOKEN"), os.environ.get("SNOWLEASE_TOKEN_FILE")
    if token or not file:
        return token or None
    try:
        with open(file, encoding="ascii") as lines:
            return lines.read().strip()
    except (OSError, ValueError) as cause:
        why = getattr(cause, "strerror", None) or "it is not ASCII"
        raise SnowleaseError("CONFIG_INVALID", f"The file of SNOWLEASE_TOKEN_FILE cannot be read: {why}.") from None
