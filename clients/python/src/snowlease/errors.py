"""The errors of this package: each has a code of Snowlease's closed set, and a message of one line."""

from __future__ import annotations

import re
import time
from typing import Any, Dict, Mapping, Optional, Tuple

# Each code, and whether the same call may succeed later without any other change.
RETRYABLE: Dict[str, bool] = {
    "CONFIG_INVALID": False,
    "POOL_EXHAUSTED": True,
    "WORKER_ID_HELD": True,
    "LEASE_LOST": False,
    "LEASE_EXPIRED": True,
    "WINDOW_NOT_OPEN": True,
    "CLOCK_SKEW": True,
    "CLOCK_ROLLBACK": True,
    "SEQUENCE_EXHAUSTED": True,
    "QUARANTINE": True,
    "OTHER_REGISTRY": False,
    "LAYOUT_MISMATCH": False,
    "LAYOUT_EXPIRED": False,
    "SCHEMA_INCOMPATIBLE": False,
    "REGISTRY_UNAVAILABLE": True,
    "DRIVER_MISSING": False,
    "NOT_FOUND": False,
    "UNAUTHORIZED": False,
    "FORBIDDEN": False,
    "RATE_LIMITED": True,
}

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]+")
_LOGIN = re.compile(r"([A-Za-z][\w+.-]*:/+)\S*@")
_SECRET_PARAMETER = re.compile(r"([?&]\w*(?:password|token)=)[^&\s`]*", re.IGNORECASE)


class SnowleaseError(Exception):
    """Why there is no ID, or why a value was refused. Its message is one line, without passwords and tokens.

    `code`: one of the keys of `RETRYABLE`. `retry_after`: seconds after which the same call may succeed; None where that is not known or
    waiting does not help. `details`: what else a daemon said.
    """

    def __init__(
        self,
        code: str,
        message: str,
        retry_after: Optional[float] = None,
        details: Optional[Mapping[str, Any]] = None,
    ) -> None:
        super().__init__(f"{code}: {one_line(message)}")
        self.code = code
        self.retry_after = retry_after
        self.details: Mapping[str, Any] = details or {}

    @property
    def retryable(self) -> bool:
        """Whether the same call may succeed later without any other change."""
        return RETRYABLE[self.code]

    def __reduce__(self) -> Tuple[Any, ...]:
        # A pool of processes pickles the errors of its children.
        return refusal, (self.code, str(self).partition(": ")[2], self.retry_after, self.details)


class Unavailable(SnowleaseError):
    """There is no ID now; there may be one later. A service answers 503."""


def refusal(
    code: str,
    message: str,
    retry_after: Optional[float] = None,
    details: Optional[Mapping[str, Any]] = None,
) -> SnowleaseError:
    """The error of this code: an `Unavailable` where the call may succeed later."""
    return (Unavailable if RETRYABLE[code] else SnowleaseError)(code, message, retry_after, details)


def expected(name: str, rule: str, value: object, code: str = "CONFIG_INVALID") -> SnowleaseError:
    """The error of a value that is not what it has to be."""
    return refusal(code, f"Expected `{name}` {rule}, got {shown(value)}.")


def shown(value: object) -> str:
    """A rejected value for a message: a short text, then its type."""
    text = str(value)
    return f"`{one_line(text if len(text) <= 60 else text[:57] + '...')}` ({type(value).__name__})"


def one_line(text: str) -> str:
    """The text without line ends, control characters and the logins of URLs."""
    text = _LOGIN.sub(r"\1***@", _CONTROL.sub(" ", text))
    return _SECRET_PARAMETER.sub(r"\1***", text).strip()


def time_text(ms: float) -> str:
    """Unix ms as messages show it."""
    if not 0 <= ms < 253_402_300_800_000:
        return f"{ms} (Unix ms)"
    whole = int(ms)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(whole // 1000))}.{whole % 1000:03}Z"
