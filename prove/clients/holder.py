"""A holder of the proof suite, README.md beside it: makes IDs, and writes down each of them and each window."""

import json
import logging
import os
import re
import struct
import sys
import threading
import time
from typing import Any, Dict, List, Optional

from snowlease import LeaseSnapshot, SnowleaseError, Snowflake


class Holder(logging.Handler):
    def __init__(self, task: Dict[str, str]) -> None:
        super().__init__()
        self.ids = Snowflake(
            task["registry"],
            namespace=task["namespace"],
            host=task["host"],
            window=int(task["window"]) / 1000,
            operation_timeout=int(task["operationTimeout"]) / 1000,
            max_wait=int(task["maxWait"]) / 1000,
        )
        self.id_log = os.open(task["log"] + ".ids", os.O_WRONLY | os.O_APPEND)
        self.fact_log = os.open(task["log"] + ".facts", os.O_WRONLY | os.O_APPEND)
        self.bulk = int(task["bulk"])
        self.pause = int(task["pause"]) / 1000
        self.made = 0
        self.unwritten: List[int] = []
        self.known: Optional[LeaseSnapshot] = None
        self.claims = 0
        self.errors: Dict[str, int] = {}
        # Of the lost leases that were told of, the last one's reason.
        self.reason = ""
        # Guards all of it: commands come beside IDs.
        self.mutex = threading.Lock()
        logging.getLogger("snowlease").addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        found = re.search(r"was lost \((\w+)\)", record.getMessage())
        if found:
            self.reason = found[1]

    def run(self) -> None:
        while True:
            with self.mutex:
                for _ in range(self.bulk):
                    if not self.next():
                        break
                self.write()
            time.sleep(self.pause)

    def next(self) -> bool:
        before = self.ids.lease
        self.look(before)
        try:
            made = self.ids.next()
        except SnowleaseError as error:
            self.count(error)
            return False
        after = self.ids.lease
        # Made before the window changed, or behind it.
        if after is not before and not self.fits(made, before):
            self.look(after)
        self.unwritten.append(made)
        self.made += 1
        self.look(after)
        return True

    def fits(self, made: int, lease: Optional[LeaseSnapshot]) -> bool:
        layout = self.ids.layout
        if lease is None or layout is None:
            return False
        parts = layout.decompose(made)
        return parts.worker_id == lease.worker_id and lease.start <= parts.timestamp < lease.until

    def look(self, lease: Optional[LeaseSnapshot]) -> None:
        """Writes down a window before anything that was made in it."""
        known = self.known
        if lease is known:
            return
        self.write()
        is_same = lease is not None and known is not None and lease[:2] == known[:2]
        if known is not None and not is_same:
            self.note(left="lost", fence=known.fence, reason=self.reason)
        if lease is not None:
            self.claims += not is_same
            window = {"workerId": lease.worker_id, "fence": lease.fence, "from": lease.start, "until": lease.until}
            self.note(window={**window, "knownFrom": lease.start, "generation": self.claims})
        self.known = lease

    def write(self) -> None:
        os.write(self.id_log, struct.pack(f"<{len(self.unwritten)}q", *self.unwritten))
        self.unwritten.clear()

    def count(self, error: SnowleaseError) -> None:
        self.errors[error.code] = self.errors.get(error.code, 0) + 1
        if error.code == "QUARANTINE":
            self.note(heard="quarantine")
        if not error.retryable and error.code != "LEASE_LOST":
            self.note(strange=str(error))

    def end(self) -> None:
        # For good: no ID comes behind the last fact.
        self.mutex.acquire()
        self.look(self.ids.lease)
        if self.known is not None:
            self.note(left="own will")
        self.ids.close()
        self.note(errors=self.errors)

    def note(self, **fact: Any) -> None:
        line = json.dumps({"at": self.made, "time": time.monotonic() * 1000, **fact})
        os.write(self.fact_log, f"{line}\n".encode())

    def tell(self) -> None:
        while True:
            with self.mutex:
                self.note(errors=self.errors)
                print(json.dumps({"made": self.made}), flush=True)
            time.sleep(0.5)


def main() -> None:
    holder = Holder(dict(arg.split("=", 1) for arg in sys.argv[1:]))
    for work in (holder.run, holder.tell):
        threading.Thread(target=work, daemon=True).start()
    if sys.stdin.readline():
        holder.end()
    sys.stdout.flush()
    os._exit(0)


main()
