"""Snowflake IDs on worker IDs that are leased from a Snowlease daemon.

from snowlease import Snowflake

ids = Snowflake("http://127.0.0.1:7070", namespace="orders")
ids.next()
"""

from .errors import SnowleaseError, Unavailable
from .layout import IdParts, Layout
from .snowflake import Snowflake
from .text import decode, encode
from .window import Lease

__all__ = ["IdParts", "Layout", "Lease", "Snowflake", "SnowleaseError", "Unavailable", "decode", "encode"]
