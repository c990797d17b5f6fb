"""What an ID is: the bits of its timestamp, worker ID and sequence."""

from __future__ import annotations

import re
from typing import NamedTuple

from .errors import SnowleaseError, expected, time_text

# Canonical notations by name.
PRESETS: dict[str, str] = {
    "westid": "timestamp:41,worker:10,sequence:12@1490346283706/1",
    "twitter": "timestamp:41,datacenter:5,worker:5,sequence:12@1288834974657/1",
    "rollback": "timestamp:41,machine:3,process:5,rollback:2,sequence:12@1580486400000/1",
    "uid": "timestamp:28,worker:22,sequence:13@1463673600000/1000",
    "uid-datacenter": "timestamp:28,datacenter:5,worker:17,sequence:13@1463673600000/1000",
    "sonyflake": "timestamp:39,sequence:8,worker:16@1409529600000/10",
    "discord": "timestamp:42,worker:5,process:5,sequence:12@1420070400000/1",
    "instagram": "timestamp:41,shard:13,sequence:10@1314220021721/1",
    "mastodon": "timestamp:48,sequence:16@0/1",
    "safe53": "timestamp:41,worker:5,sequence:7@1577836800000/1",
}

_FIELD = "[a-z][a-z0-9]{0,15}:[1-9][0-9]?"
_NUMBER = "(0|[1-9][0-9]{0,15})"
_NOTATION = re.compile(f"({_FIELD}(?:,{_FIELD})*)@{_NUMBER}(?:/{_NUMBER})?(/wraps)?")
_LAST_EPOCH, _LAST_DATE = 4_102_444_800_000, 8_640_000_000_000_000
_NO_WORKER = ("timestamp", "sequence", "rollback")


class Field(NamedTuple):
    """Adjacent bits of an ID, `shift` of them below it."""

    name: str
    bits: int
    shift: int


class IdParts(NamedTuple):
    """The parts of an ID. `timestamp`: Unix ms of the begin of its tick. `fields`: what the worker ID consists of, by name."""

    timestamp: int
    worker_id: int
    sequence: int
    rollback: int
    fields: dict[str, int]


class Layout:
    """The bits of an ID as data. Immutable.

    `text`: a preset (`westid`, `twitter`, `uid`, `sonyflake`, …) or a notation: `name:bits` from the top field down, `@` and the epoch in
    Unix ms, `/` and the length of a tick in ms. A timestamp that wraps is refused. Raises CONFIG_INVALID.
    """

    def __init__(self, text: str) -> None:
        match = _NOTATION.fullmatch(PRESETS.get(text, text)) if isinstance(text, str) and len(text) < 1024 else None
        if match is None:
            raise expected("layout", f"to be a preset ({', '.join(PRESETS)}) or a notation like `{PRESETS['westid']}`", text)
        pairs = [(name, int(bits)) for name, bits in (pair.split(":") for pair in match[1].split(","))]
        names, bits = [name for name, _ in pairs], dict(pairs)
        total, sequence, rollback = sum(width for _, width in pairs), bits.get("sequence", 0), bits.get("rollback", 0)
        # The top bit of 64 is the sign.
        sign = 1 if total == 64 else 0
        timestamp = bits.get("timestamp", 0) - sign
        self.worker_bits = sum(width for name, width in pairs if name not in _NO_WORKER)
        self.epoch, self.tick = int(match[2]), int(match[3] or 1)
        self.canonical = f"{match[1]}@{self.epoch}/{self.tick}"
        self.total_bits = total - sign
        self.max_worker_id, self.max_sequence, self.max_rollback = (1 << self.worker_bits) - 1, (1 << sequence) - 1, (1 << rollback) - 1
        self.max_tick = (1 << max(0, timestamp)) - 1
        # The first Unix ms that no longer fits.
        self.end_of_life = self.time_of(self.max_tick + 1)
        rules = {
            "to have a timestamp that does not wrap: this client makes no such IDs": match[4] is None,
            "to have each name once": len(bits) == len(names),
            "to begin with `timestamp`, of 21 to 47 bits, or 22 to 48 where all are 64": names[0] == "timestamp" and 21 <= timestamp <= 47,
            "to have at most 64 bits": total <= 64,
            "to have a `sequence` of 1 to 31 bits": 1 <= sequence <= 31,
            "to have `rollback` directly above `sequence`": not rollback or names.index("rollback") + 1 == names.index("sequence"),
            "to have at most 8 bits of `rollback`, and 31 with the sequence": rollback <= 8 and rollback + sequence <= 31,
            "to have at most 31 bits of worker ID": self.worker_bits <= 31,
            f"to have an epoch up to {_LAST_EPOCH}": self.epoch <= _LAST_EPOCH,
            "to have a tick of 1 to 60000 ms": 1 <= self.tick <= 60_000,
            f"to end by {_LAST_DATE}": self.end_of_life <= _LAST_DATE,
        }
        for rule, holds in rules.items():
            if not holds:
                raise expected("layout", rule, text)
        self.fields = tuple(Field(name, width, sum(below for _, below in pairs[at + 1 :])) for at, (name, width) in enumerate(pairs))
        self._shift = {name: shift for name, _, shift in self.fields}
        # What an ID grows by from one sequence, and from one tick, to the next.
        self.sequence_step, self.tick_step = 1 << self._shift["sequence"], 1 << self._shift["timestamp"]

    def __str__(self) -> str:
        return self.canonical

    def __repr__(self) -> str:
        return f"Layout({self.canonical!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Layout) and other.canonical == self.canonical

    def __hash__(self) -> int:
        return hash(self.canonical)

    def tick_of(self, ms: int) -> int:
        """The tick that contains this time, Unix ms; negative before the epoch."""
        return (ms - self.epoch) // self.tick

    def time_of(self, tick: int) -> int:
        """Unix ms of the begin of a tick."""
        return self.epoch + tick * self.tick

    def first_whole_tick(self, ms: int) -> int:
        """The first tick that lies wholly at or after this time, Unix ms."""
        return max(0, -((self.epoch - ms) // self.tick))

    def compose(self, timestamp: int, worker_id: int, sequence: int, rollback: int = 0) -> int:
        """The ID of these parts. `timestamp`: any ms of the tick, Unix ms. Raises CONFIG_INVALID; LAYOUT_EXPIRED from the end of life on."""
        limits = {"worker_id": (worker_id, self.max_worker_id), "sequence": (sequence, self.max_sequence), "rollback": (rollback, self.max_rollback)}
        for name, (value, most) in limits.items():
            if type(value) is not int or not 0 <= value <= most:
                raise expected(name, f"to be an integer from 0 to {most}", value)
        if type(timestamp) is not int or timestamp < self.epoch:
            raise expected("timestamp", f"to be an integer of at least {self.epoch}, the layout's epoch", timestamp)
        self.check_end(timestamp)
        made, left = (
            self.tick_of(timestamp) << self._shift["timestamp"] | sequence * self.sequence_step | rollback << self._shift.get("rollback", 0),
            self.worker_bits,
        )
        for name, bits, shift in self.fields:
            if name not in _NO_WORKER:
                left -= bits
                made |= (worker_id >> left & (1 << bits) - 1) << shift
        return made

    def decompose(self, id: int) -> IdParts:
        """Takes an ID apart. Raises CONFIG_INVALID."""
        if type(id) is not int or not 0 <= id < 1 << self.total_bits:
            raise expected("id", f"to be an integer from 0 to 2^{self.total_bits}-1", id)
        values = {name: id >> shift & (1 << bits) - 1 for name, bits, shift in self.fields}
        worker_id = 0
        for name, bits, _ in self.fields:
            if name not in _NO_WORKER:
                worker_id = worker_id << bits | values[name]
        fields = {name: value for name, value in values.items() if name not in _NO_WORKER}
        return IdParts(self.time_of(values["timestamp"]), worker_id, values["sequence"], values.get("rollback", 0), fields)

    def check_end(self, ms: int) -> None:
        """Raises LAYOUT_EXPIRED from the end of life on."""
        if ms >= self.end_of_life:
            what = f"The timestamp bits of the layout ran out on {time_text(self.end_of_life)}"
            raise SnowleaseError("LAYOUT_EXPIRED", f"{what}; move to another layout in another namespace.")
