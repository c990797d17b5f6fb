"""Marks that a forked child finds wiped."""

from __future__ import annotations

import mmap
import os
from typing import Protocol

# Linux since 4.14: the child of any fork finds the page zeroed, also of one that runs no hooks of Python's. No constant of `mmap` names it.
_WIPE_ON_FORK = 18

_forks = 0


class Mark(Protocol):
    """`mark[0]` is true in the process that made it, until it is set to 0. Reading it costs less than a system call."""

    def __getitem__(self, index: int, /) -> int: ...

    def __setitem__(self, index: int, value: int, /) -> None: ...


class _ProcessMark:
    """The same where the system has no such pages: by the process ID, and by Python's hook, since process IDs come again."""

    def __init__(self) -> None:
        self._is_set, self._process = True, (os.getpid(), _forks)

    def __getitem__(self, index: int) -> int:
        return self._is_set and self._process == (os.getpid(), _forks)

    def __setitem__(self, index: int, value: int) -> None:
        self._is_set = bool(value)


def new_mark() -> Mark:
    """A mark of this process."""
    try:
        page = mmap.mmap(-1, mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        page.madvise(_WIPE_ON_FORK)
    except (AttributeError, OSError, ValueError):
        return _ProcessMark()
    page[0] = 1
    return page


def _count_fork() -> None:
    global _forks
    _forks += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_count_fork)
