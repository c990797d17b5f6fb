"""Snowflake IDs on worker IDs that are leased from a Snowlease daemon.

    from snowlease import Snowflake

    ids = Snowflake("http://127.0.0.1:7070", namespace="orders")
    ids.next()
"""

from .encodings import decode, encode
from .errors import SnowleaseError, Unavailable
from .layout import IdParts, Layout
from .snowflake import Snowflake
from .ticks import LeaseSnapshot

__all__ = ["IdParts", "Layout", "LeaseSnapshot", "SnowleaseError", "Snowflake", "Unavailable", "decode", "encode"]
