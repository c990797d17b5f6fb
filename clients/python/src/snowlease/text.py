"""The text forms of an ID."""

from __future__ import annotations

import base64
import re
import string

from .errors import expected

_BASE62 = string.digits + string.ascii_lowercase + string.ascii_uppercase
# The digits of each form in ascending order. `base64url` is no number in a base, but the ID's 8 bytes.
_DIGITS: dict[str, str] = {
    "decimal": string.digits,
    "hex": "0123456789abcdef",
    "base36": _BASE62[:36],
    "base62": _BASE62,
    "crockford32": "0123456789ABCDEFGHJKMNPQRSTVWXYZ",
    "base62sort": "".join(sorted(_BASE62)),
    "base64sort": "".join(sorted(_BASE62 + "-_")),
    "base64url": "",
}


def encode(id: int, encoding: str = "decimal", *, fixed: bool = False, bits: int = 63) -> str:
    """An ID, 0 to 2^63-1, as text.

    `encoding`: `decimal`, `hex`, `base36`, `base62`, `crockford32`, `base64url`, or `base62sort` and `base64sort`, which sort like numbers.
    `fixed`: with leading zeros up to the width of the largest ID of `bits` bits. Raises CONFIG_INVALID.
    """
    digits = _digits(encoding)
    if type(id) is not int or not 0 <= id < 1 << 63:
        raise expected("id", "to be an integer from 0 to 2^63-1", id)
    if not digits:
        return base64.urlsafe_b64encode(id.to_bytes(8, "big")).decode()
    text = str(id) if encoding == "decimal" else _number(id, digits)
    least = bits if fixed else 63 if encoding.endswith("sort") else 0
    return text.rjust(len(_number((1 << least) - 1, digits)), digits[0])


def decode(text: str, encoding: str = "decimal", *, bits: int = 63) -> int:
    """The ID of a text that `encode` writes, and of no other text: no signs, spaces, other case or look-alikes. Raises CONFIG_INVALID."""
    digits, id = _digits(encoding), -1
    # The length first: a hostile megabyte costs no more than a typing error.
    if isinstance(text, str) and 0 < len(text) <= 20:
        if digits and set(text) <= set(digits):
            id = 0
            for character in text:
                id = id * len(digits) + digits.index(character)
        elif not digits and re.fullmatch("[A-Za-z0-9_-]{11}=", text):
            id = int.from_bytes(base64.urlsafe_b64decode(text), "big")
    if not 0 <= id < 1 << 63 or text not in (encode(id, encoding), encode(id, encoding, fixed=True, bits=bits)):
        raise expected(f"{encoding} text", "to be what `encode` writes", text)
    return id


def _digits(encoding: str) -> str:
    if encoding not in _DIGITS:
        raise expected("encoding", f"to be one of {', '.join(_DIGITS)}", encoding)
    return _DIGITS[encoding]


def _number(value: int, digits: str) -> str:
    text = ""
    while value or not text:
        value, digit = divmod(value, len(digits))
        text = digits[digit] + text
    return text
