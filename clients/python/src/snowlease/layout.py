"""What an ID is: the bits of its timestamp, worker ID and sequence."""

from __future__ import annotations

import re
from typing import Dict, List, NamedTuple, Optional, Tuple

from .errors import expected, refusal, time_text

# Canonical notations by name. Their origins: docs/layouts.md.
PRESETS: Dict[str, str] = {
    "westid": "timestamp:41,worker:10,sequence:12@1490346283706/1",
    "twitter": "timestamp:41,datacenter:5,worker:5,sequence:12@1288834974657/1",
    "discord": "timestamp:41,worker:5,process:5,sequence:12@1420070400000/1",
    "instagram": "timestamp:40,shard:13,sequence:10@1314220021721/1",
    "rollback": "timestamp:41,machine:3,process:5,rollback:2,sequence:12@1580486400000/1",
    "uid": "timestamp:28,worker:22,sequence:13@1463673600000/1000",
    "uid-datacenter": "timestamp:28,datacenter:5,worker:17,sequence:13@1463673600000/1000",
    "sonyflake": "timestamp:39,sequence:8,worker:16@1409529600000/10",
    "safe53": "timestamp:41,worker:5,sequence:7@1577836800000/1",
    "scene": "timestamp:21,worker:5,sequence:5@1490346283706/1/wraps",
}

_NUMBER = "(?:0|[1-9][0-9]{0,15})"
_PAIR = f"[^:,@/]+:{_NUMBER}"
_NOTATION = re.compile(f"({_PAIR}(?:,{_PAIR})*)@({_NUMBER})(?:/({_NUMBER}))?(/wraps)?")
_NAME = re.compile("[a-z][a-z0-9]{0,15}")
_LAST_EPOCH = 4_102_444_800_000
_LAST_DATE = 8_640_000_000_000_000


class IdParts(NamedTuple):
    """The parts of an ID. `timestamp`: Unix ms of the start of its tick. `fields`: each identity field of the worker ID, by name."""

    timestamp: int
    worker_id: int
    sequence: int
    rollback: int
    fields: Dict[str, int]


class Field(NamedTuple):
    """Adjacent bits of an ID, `shift` of them below it."""

    name: str
    bits: int
    shift: int


class Layout:
    """The bits of an ID as data. Immutable.

    `text`: a preset's name (`westid`, `twitter`, `uid`, `sonyflake`, `safe53`, …) or a notation: `name:bits` from the top field down, `@`
    and the epoch in Unix ms, `/` and the length of a tick in ms, `/wraps` where the timestamp starts again. Raises CONFIG_INVALID.
    """

    def __init__(self, text: str) -> None:
        notation = PRESETS.get(text, text) if isinstance(text, str) else ""
        match = _NOTATION.fullmatch(notation) if len(notation) < 1024 else None
        if match is None:
            rule = f"to be a preset ({', '.join(PRESETS)}) or a notation like `{PRESETS['westid']}`"
            raise expected("layout", rule, text)
        pairs = [(name, int(bits)) for name, _, bits in (pair.partition(":") for pair in match[1].split(","))]
        self.epoch = _within("epoch", int(match[2]), 0, _LAST_EPOCH)
        self.tick = _within("tick", int(match[3] or 1), 1, 60_000)
        self.wraps = match[4] is not None
        self.fields = _placed(pairs)
        bits = {name: width for name, width, _ in self.fields}
        self._identity = tuple(field for field in self.fields if field.name not in ("timestamp", "rollback", "sequence"))
        self.total_bits = _within("total bits", sum(bits.values()), 1, 63)
        self.worker_bits = _within("identity bits", sum(field.bits for field in self._identity), 1, 31)
        rollback_bits = _within("rollback bits", bits.get("rollback", 0), 0, 8)
        sequence_bits = _within("sequence bits", bits["sequence"], 1, 31 - rollback_bits)
        self._ticks = 1 << _within("timestamp bits", bits["timestamp"], 21, 45)
        self.max_worker_id = (1 << self.worker_bits) - 1
        self.max_sequence = (1 << sequence_bits) - 1
        self.max_rollback = (1 << rollback_bits) - 1
        self.max_tick = (_LAST_DATE - self.epoch) // self.tick - 1 if self.wraps else self._ticks - 1
        # The first Unix ms that no longer fits.
        self.end_of_life = _within("end of life", self.time_of(self.max_tick + 1), 1, _LAST_DATE)
        self._timestamp_shift = self.fields[0].shift
        self._rollback_shift = next((field.shift for field in self.fields if field.name == "rollback"), 0)
        # The lowest bit of the sequence: two IDs of one tick differ by a multiple of it.
        self.sequence_step = 1 << next(field.shift for field in self.fields if field.name == "sequence")
        # The canonical notation: layouts with equal ones make equal IDs.
        names = ",".join(f"{name}:{width}" for name, width, _ in self.fields)
        self.canonical = f"{names}@{self.epoch}/{self.tick}{'/wraps' if self.wraps else ''}"

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
        """Unix ms of the start of a tick."""
        return self.epoch + tick * self.tick

    def first_whole_tick(self, ms: int) -> int:
        """The first tick that lies wholly at or after this time, Unix ms."""
        return max(0, -((self.epoch - ms) // self.tick))

    def encode(self, tick: int, worker_id: int, sequence: int, rollback: int = 0) -> int:
        """The ID of parts that the caller has checked. For unchecked values: `compose`."""
        made = tick % self._ticks << self._timestamp_shift | sequence * self.sequence_step
        rest = self.worker_bits
        for _, bits, shift in self._identity:
            rest -= bits
            made |= (worker_id >> rest & (1 << bits) - 1) << shift
        return made | rollback << self._rollback_shift

    def compose(self, timestamp: int, worker_id: int, sequence: int, rollback: int = 0) -> int:
        """The ID of these parts. `timestamp`: any ms of the tick, Unix ms. Raises CONFIG_INVALID, LAYOUT_EXPIRED from the end of life on."""
        _within("timestamp", timestamp, self.epoch, (1 << 53) - 1)
        if timestamp >= self.end_of_life:
            raise expected("timestamp", f"to be before {self.end_of_life}, the layout's end of life", timestamp, "LAYOUT_EXPIRED")
        _within("worker_id", worker_id, 0, self.max_worker_id)
        _within("sequence", sequence, 0, self.max_sequence)
        _within("rollback", rollback, 0, self.max_rollback)
        return self.encode(self.tick_of(timestamp), worker_id, sequence, rollback)

    def decompose(self, id: int, at: Optional[int] = None) -> IdParts:
        """Takes an ID apart. `at`: Unix ms near the time at which it was made; required where the timestamp wraps. Raises CONFIG_INVALID."""
        _within("id", id, 0, (1 << self.total_bits) - 1)
        values = {name: id >> shift & (1 << bits) - 1 for name, bits, shift in self.fields}
        fields = {field.name: values[field.name] for field in self._identity}
        worker_id = 0
        for name, bits, _ in self._identity:
            worker_id = worker_id << bits | values[name]
        tick = values["timestamp"]
        if self.wraps:
            if at is None:
                raise refusal("CONFIG_INVALID", "The timestamp of this layout wraps; tell a time near the ID's making (`at`, Unix ms).")
            _within("at", at, self.epoch, _LAST_DATE)
            # Halves round up, as in the other clients.
            wraps = (2 * (self.tick_of(at) - tick) + self._ticks) // (2 * self._ticks)
            tick += max(0, wraps) * self._ticks
        return IdParts(self.time_of(tick), worker_id, values["sequence"], values.get("rollback", 0), fields)

    def check_time(self, ms: int) -> None:
        """Raises WINDOW_NOT_OPEN for a time before the epoch, LAYOUT_EXPIRED from the end of life on."""
        if ms < self.epoch:
            times = f"The clock shows {time_text(ms)}, and the layout begins at {time_text(self.epoch)}"
            raise refusal("WINDOW_NOT_OPEN", f"{times}; set the clock if it is wrong, or wait.", (self.epoch - ms) / 1000)
        if ms >= self.end_of_life:
            raise refusal("LAYOUT_EXPIRED", f"The timestamp bits of the layout ran out on {time_text(self.end_of_life)}; move to another layout.")


def _placed(pairs: List[Tuple[str, int]]) -> Tuple[Field, ...]:
    names = [name for name, _ in pairs]
    for name, bits in pairs:
        if _NAME.fullmatch(name) is None:
            raise expected("field name", f"to match {_NAME.pattern}", name)
        _within(f"{name} bits", bits, 1, 63)
    listed = ", ".join(names)
    if names[0] != "timestamp":
        raise expected("fields", "to start with `timestamp`", listed)
    if "sequence" not in names:
        raise expected("fields", "to have a `sequence`", listed)
    if len(set(names)) < len(names):
        raise expected("fields", "to have every name once", listed)
    if "rollback" in names and names.index("rollback") != names.index("sequence") - 1:
        raise expected("fields", "to have `rollback` directly above `sequence`", listed)
    widths = [bits for _, bits in pairs]
    return tuple(Field(name, bits, sum(widths[at + 1 :])) for at, (name, bits) in enumerate(pairs))


def _within(name: str, value: int, first: int, last: int) -> int:
    if type(value) is int and first <= value <= last:
        return value
    raise expected(name, f"to be an integer from {first} to {last}", value)
