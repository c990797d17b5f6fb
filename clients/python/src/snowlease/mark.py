"""Marks that a forked child finds wiped."""

from __future__ import annotations

import mmap
import os
from typing import Union

# Linux since 4.14: the child of any fork finds the page zeroed, also of one that runs no hooks of Python's. No constant of `mmap` names it.
_WIPE_ON_FORK = 18
_NO_ADVICE = -1

_forks = 0


class _ProcessMark:
    """The same where the system has no such pages: by the process ID, and by Python's hook, since process IDs come again."""

    def __init__(self) -> None:
        self._is_set, self._process = True, (os.getpid(), _forks)

    def __getitem__(self, index: int) -> int:
        return self._is_set and self._process == (os.getpid(), _forks)

    def __setitem__(self, index: int, value: int) -> None:
        self._is_set = bool(value)


# `mark[0]` is true in the process that made it, until it is set to 0. Reading it costs less than a system call.
Mark = Union[mmap.mmap, bytearray, _ProcessMark]


def new_mark() -> Mark:
    """A mark of this process."""
    if not _has_pages:
        return _ProcessMark()
    page = mmap.mmap(-1, mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    page.madvise(_WIPE_ON_FORK)
    page[0] = 1
    return page


def _find_pages() -> bool:
    try:
        page = mmap.mmap(-1, mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        page.madvise(_WIPE_ON_FORK)
    except (AttributeError, OSError, ValueError):
        return False
    try:
        page.madvise(_NO_ADVICE)
    except (OSError, ValueError):
        return True
    # An emulator that takes any advice, and follows none.
    return False


def _count_fork() -> None:
    global _forks
    _forks += 1


_has_pages = _find_pages()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_count_fork)
