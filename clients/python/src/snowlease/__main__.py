"""Prints IDs: `python -m snowlease [HOW_MANY] [MS_BETWEEN]`; 0: until it is stopped. SNOWLEASE_REGISTRY names the daemon."""

from __future__ import annotations

import signal
import sys
import threading

from .errors import SnowleaseError
from .snowflake import Snowflake


def main() -> str | None:
    try:
        count = int(sys.argv[1]) if len(sys.argv) > 1 else 10
        pause = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    except ValueError:
        return str(__doc__)
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    made = 0
    try:
        with Snowflake(max_wait=5) as ids:
            while not stop.is_set() and (count == 0 or made < count):
                print(ids.next(), flush=pause > 0)
                made += 1
                stop.wait(pause / 1000)
    except SnowleaseError as error:
        return str(error)
    return None


sys.exit(main())
