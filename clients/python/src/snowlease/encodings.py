"""The text forms of an ID."""

from __future__ import annotations

import base64
import string
from typing import Callable, Dict, NamedTuple, Optional

from .errors import expected

_LARGEST = (1 << 63) - 1
_BASE62 = string.digits + string.ascii_lowercase + string.ascii_uppercase
_BASE64URL = string.ascii_uppercase + string.ascii_lowercase + string.digits + "-_"


class _Alphabet(NamedTuple):
    digits: str
    # Always written with all digits.
    wide: bool = False
    write: Optional[Callable[[int], str]] = None


# Numbers in the base of their alphabet, the digits in ascending order. `base64url` is no such number, but the ID's 8 bytes.
_ALPHABETS: Dict[str, _Alphabet] = {
    "decimal": _Alphabet(string.digits, write=str),
    "hex": _Alphabet("0123456789abcdef", write="{:x}".format),
    "base36": _Alphabet(_BASE62[:36]),
    "base62": _Alphabet(_BASE62),
    "crockford32": _Alphabet("0123456789ABCDEFGHJKMNPQRSTVWXYZ"),
    "base62sort": _Alphabet("".join(sorted(_BASE62)), wide=True),
    "base64sort": _Alphabet("".join(sorted(_BASE64URL)), wide=True),
}

ENCODINGS = (*_ALPHABETS, "base64url")


def encode(id: int, encoding: str = "decimal", fixed: bool = False, bits: int = 63) -> str:
    """An ID, 0 to 2^`bits`-1, as text.

    `encoding`: `decimal`, `hex`, `base36`, `base62`, `crockford32`, `base64url`, or `base62sort` and `base64sort`, which sort like numbers.
    `fixed`: with leading zeros up to the width of the largest ID of `bits` bits. Raises CONFIG_INVALID.
    """
    if type(id) is not int or not 0 <= id <= _largest(bits):
        raise expected("id", f"to be an integer from 0 to {_largest(bits)}", id)
    if encoding == "base64url":
        return base64.urlsafe_b64encode(id.to_bytes(8, "big")).decode()
    alphabet = _alphabet(encoding)
    digits = alphabet.digits
    text = alphabet.write(id) if alphabet.write else _written(id, digits)
    if fixed:
        return text.rjust(_width(digits, bits), digits[0])
    return text.rjust(_width(digits, 63), digits[0]) if alphabet.wide else text


def decode(text: str, encoding: str = "decimal", bits: int = 63) -> int:
    """The ID of a text that `encode` writes, and of no other text: no signs, spaces, other case or look-alikes. Raises CONFIG_INVALID."""
    if encoding == "base64url":
        return _decode_base64url(text, bits)
    digits, wide, _ = _alphabet(encoding)
    longest, fixed = _width(digits, 63 if wide else bits), _width(digits, bits)
    # The length first: a hostile megabyte must cost no more than a typing error.
    if not isinstance(text, str) or not 1 <= len(text) <= longest:
        raise expected(f"{encoding} text", f"to be a string of 1 to {longest} characters", text)
    if not set(text) <= set(digits):
        raise expected(f"{encoding} text", f"to have no characters but `{digits}`", text)
    if wide and len(text) not in (longest, fixed):
        raise expected(f"{encoding} text", f"to have {fixed} or {longest} characters", text)
    if not wide and text[0] == digits[0] and 1 < len(text) < fixed:
        raise expected(f"{encoding} text", f"to have no leading zeros unless they fill it up to {fixed} characters", text)
    id = 0
    for character in text:
        id = id * len(digits) + digits.index(character)
    if id > _largest(bits):
        raise expected(f"{encoding} text", f"to be at most 2^{bits}-1", text)
    return id


def _decode_base64url(text: str, bits: int) -> int:
    if not isinstance(text, str) or len(text) != 12 or text[-1] != "=" or not set(text[:11]) <= set(_BASE64URL):
        raise expected("base64url text", "to be 11 characters of base64url and `=`", text)
    id = int.from_bytes(base64.urlsafe_b64decode(text), "big")
    if id > _largest(bits) or base64.urlsafe_b64encode(id.to_bytes(8, "big")).decode() != text:
        raise expected("base64url text", f"to be at most 2^{bits}-1 and to end in two zero bits", text)
    return id


def _alphabet(encoding: str) -> _Alphabet:
    try:
        return _ALPHABETS[encoding]
    except (KeyError, TypeError):
        raise expected("encoding", f"to be one of {', '.join(ENCODINGS)}", encoding) from None


def _written(id: int, digits: str) -> str:
    text, base = "", len(digits)
    while id >= base:
        id, digit = divmod(id, base)
        text = digits[digit] + text
    return digits[id] + text


def _width(digits: str, bits: int) -> int:
    return len(_written(_largest(bits), digits))


def _largest(bits: int) -> int:
    if type(bits) is not int or not 1 <= bits <= 63:
        raise expected("bits", "to be an integer from 1 to 63", bits)
    return (1 << bits) - 1
