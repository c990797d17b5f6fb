"""The errors of this package."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

_LONGEST_LINE = 1000


class SnowleaseError(Exception):
    """Why there is no ID, or why a value was refused. `str` is one line without tokens.

    `code`: the code of the error, as the daemon names it too. `retry_after`: seconds after which the same call may succeed; None where that is
    not known, or waiting does not help. `details`: what else a daemon said.
    """

    def __init__(self, code: str, message: str, retry_after: float | None = None, details: Mapping[str, Any] | None = None) -> None:
        # All of them: a pool of processes pickles the errors of its children.
        super().__init__(code, message, retry_after, details)
        self.code, self.message, self.retry_after, self.details = code, message, retry_after, details or {}

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


class Unavailable(SnowleaseError):
    """There is no ID now; a later call may get one. A service answers 503."""


def expected(name: str, rule: str, value: object) -> SnowleaseError:
    """The error of a value that is not what it has to be."""
    text = one_line(str(value))
    return SnowleaseError("CONFIG_INVALID", f"Expected `{name}` {rule}, got `{text if len(text) <= 60 else text[:57] + '...'}`.")


def one_line(text: str) -> str:
    """The text without ends of lines, control characters and the passwords of URLs."""
    # Cut first: the second pattern takes the square of the length.
    return re.sub(r"(\w:/+)\S*@", r"\1***@", re.sub(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]+", " ", text[:_LONGEST_LINE])).strip()


def time_text(ms: float) -> str:
    """Unix ms as messages show it."""
    try:
        return datetime.fromtimestamp(ms / 1000, timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):
        return f"{ms} (Unix ms)"
