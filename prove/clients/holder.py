"""A holder of the proof suite, README.md beside it: makes IDs, and writes down each of them and each window."""

from __future__ import annotations

import json
import logging
import os
import re
import struct
import sys
import threading
import time
from typing import Any


def set_clock(file: str) -> None:
    """Sets the wall clock, before the client comes to know it: it is ahead by what the file says."""
    system = time.time_ns

    def time_ns() -> int:
        with open(file, "rb", 0) as lines:
            return system() + int(float(lines.read().rstrip(b"s\n")) * 1e9)

    time.time_ns, time.time = time_ns, lambda: time_ns() / 1e9


TASK = dict(arg.split("=", 1) for arg in sys.argv[1:])
if TASK["clock"]:
    set_clock(TASK["clock"])

from snowlease import Lease, Snowflake, SnowleaseError, Unavailable  # noqa: E402


class Holder(logging.Handler):
    def __init__(self, task: dict[str, str]) -> None:
        super().__init__()
        self.ids = Snowflake(
            task["registry"],
            namespace=task["namespace"],
            operation_timeout=int(task["operationTimeout"]) / 1000,
            max_wait=int(task["maxWait"]) / 1000,
        )
        self.id_log = os.open(task["log"] + ".ids", os.O_WRONLY | os.O_APPEND)
        self.fact_log = os.open(task["log"] + ".facts", os.O_WRONLY | os.O_APPEND)
        self.bulk, self.pause = int(task["bulk"]), int(task["pause"]) / 1000
        self.made, self.claims = 0, 0
        self.unwritten: list[int] = []
        self.known: Lease | None = None
        # Why the last lease was lost, as the client's log told.
        self.reason: str | None = None
        self.errors: dict[str, int] = {}
        # Guards all of it: commands come beside IDs.
        self.mutex = threading.Lock()
        logging.getLogger("snowlease").addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        found = re.search(r"was lost \((\w+)\)", record.getMessage())
        # The client waits for this.
        self.reason = found[1] if found else self.reason

    def run(self) -> None:
        while True:
            with self.mutex:
                for _ in range(self.bulk):
                    if not self.next():
                        break
                self.write()
            time.sleep(self.pause)

    def next(self) -> bool:
        before = self.look()
        try:
            made = self.ids.next()
        except SnowleaseError as error:
            self.count(error)
            return False
        # It was made before the window changed, or behind it.
        if not self.fits(made, before):
            self.look()
        self.unwritten.append(made)
        self.made += 1
        return True

    def fits(self, made: int, lease: Lease | None) -> bool:
        layout = self.ids.layout
        if lease is None or layout is None:
            return False
        parts = layout.decompose(made)
        return parts.worker_id == lease.worker_id and lease.start <= parts.timestamp < lease.until

    def look(self) -> Lease | None:
        """Writes down the window before anything that is made in it, and the end of the one before."""
        known, lease = self.known, self.ids.lease
        if lease != known:
            self.write()
            is_same = lease is not None and known is not None and lease[:2] == known[:2]
            if known is not None and not is_same:
                self.note(left="own will")
                if self.reason:
                    self.note(left="lost", reason=self.reason, fence=known.fence)
                    self.reason = None
            if lease is not None:
                self.claims += not is_same
                window = {"workerId": lease.worker_id, "fence": lease.fence, "from": lease.start, "until": lease.until}
                self.note(window={**window, "knownFrom": lease.start, "generation": self.claims})
            self.known = lease
        return lease

    def write(self) -> None:
        os.write(self.id_log, struct.pack(f"<{len(self.unwritten)}q", *self.unwritten))
        self.unwritten.clear()

    def count(self, error: SnowleaseError) -> None:
        self.errors[error.code] = self.errors.get(error.code, 0) + 1
        if error.code == "QUARANTINE":
            self.note(heard="quarantine")
        if not isinstance(error, Unavailable) and error.code != "LEASE_LOST":
            self.note(strange=str(error))

    def end(self) -> None:
        # For good: no ID comes behind the last fact.
        self.mutex.acquire()
        if self.look() is not None:
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
    holder = Holder(TASK)
    for work in (holder.tell, holder.run):
        threading.Thread(target=work, daemon=True).start()
    if sys.stdin.readline():
        holder.end()
    os._exit(0)


main()
