"""What every client has to do alike: clients/vectors."""

import json
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

import pytest
from snowlease import Layout, LeaseSnapshot, SnowleaseError, decode, encode
from snowlease.blocks import Blocks, BlocksRequest
from snowlease.errors import refusal
from snowlease.ticks import Ticks, Usage

VECTORS = Path(__file__).parents[2] / "vectors"


def read(name: str, part: str) -> List[Dict[str, Any]]:
    whole = json.loads((VECTORS / f"{name}.json").read_text())
    assert whole["version"] == 1
    assert whole[part]
    return list(whole[part])


@pytest.mark.parametrize("given", read("layouts", "layouts"), ids=lambda given: given["text"][:40])
def test_layout(given: Dict[str, Any]) -> None:
    layout = Layout(given["text"])
    assert layout.canonical == given["canonical"]
    assert [field._asdict() for field in layout.fields] == given["fields"]
    for name, value in {
        "epoch": layout.epoch,
        "tick": layout.tick,
        "wraps": layout.wraps,
        "totalBits": layout.total_bits,
        "workerBits": layout.worker_bits,
        "maxWorkerId": layout.max_worker_id,
        "maxSequence": layout.max_sequence,
        "maxRollback": layout.max_rollback,
        "maxTick": layout.max_tick,
        "endOfLife": layout.end_of_life,
    }.items():
        assert value == given[name], name


@pytest.mark.parametrize("given", read("layouts", "refused"), ids=lambda given: given["why"])
def test_refused_layout(given: Dict[str, Any]) -> None:
    with pytest.raises(SnowleaseError) as refused:
        Layout(given["text"])
    assert refused.value.code == given["code"]


def test_ids() -> None:
    for given in read("ids", "ids"):
        layout = Layout(given["layout"])
        parts = (given["timestamp"], given["workerId"], given["sequence"], given.get("rollback", 0))
        made = layout.compose(*parts)
        assert made == int(given["id"])
        apart = layout.decompose(made, given["decoded"].get("at"))
        assert apart.timestamp == given["decoded"]["timestamp"]
        assert apart.fields == given["decoded"]["fields"]
        assert (apart.worker_id, apart.sequence, apart.rollback) == parts[1:]
        for fixed, texts in ((False, given["texts"]), (True, given["fixedTexts"])):
            for encoding, text in texts.items():
                assert encode(made, encoding, fixed, layout.total_bits) == text
                assert decode(text, encoding, layout.total_bits) == made


@pytest.mark.parametrize("given", read("ids", "refused"), ids=lambda given: given["why"])
def test_refused_parts(given: Dict[str, Any]) -> None:
    with pytest.raises(SnowleaseError) as refused:
        Layout(given["layout"]).compose(given["timestamp"], given["workerId"], given["sequence"], given.get("rollback", 0))
    assert refused.value.code == given["code"]


@pytest.mark.parametrize("given", read("ids", "refusedTexts"), ids=lambda given: f"{given['encoding']}: {given['why']}")
def test_refused_text(given: Dict[str, Any]) -> None:
    with pytest.raises(SnowleaseError) as refused:
        decode(given["text"], given["encoding"])
    assert refused.value.code == given["code"]


@pytest.mark.parametrize("given", read("windows", "windows"), ids=lambda given: given["why"])
def test_window(given: Dict[str, Any]) -> None:
    layout = Layout(given["layout"])
    lease = LeaseSnapshot(1, 1, given["from"], given["until"])

    def usable(tick: int) -> bool:
        wall = layout.time_of(tick)
        try:
            Ticks(layout, lease, min(wall, given["from"])).open(wall)
        except SnowleaseError:
            return False
        return True

    first, last = given["firstTick"], given["lastTick"]
    if first is None:
        around = layout.tick_of(given["from"])
        assert not any(usable(tick) for tick in range(max(0, around - 2), around + 4))
    else:
        assert usable(first) and usable(last)
        assert not usable(first - 1) and not usable(last + 1)


@pytest.mark.parametrize("script", read("clocks", "scripts"), ids=lambda script: script["why"])
def test_clock(script: Dict[str, Any]) -> None:
    layout, grant = Layout(script["layout"]), script["grant"]
    ticks = Ticks(layout, lease_of(grant), grant["clock"])
    for step in script["steps"]:
        run_step(ticks, step)


def lease_of(grant: Dict[str, Any]) -> LeaseSnapshot:
    return LeaseSnapshot(grant["workerId"], grant.get("fence", 1), grant["from"], grant["until"])


def run_step(ticks: Ticks, step: Dict[str, Any]) -> None:
    clock, do = step["clock"], step["do"]
    if do == "next":
        check_next(ticks, step)
    elif do == "close":
        used = ticks.end(lambda: refusal("LEASE_LOST", "closed"))
        assert (None if used is None else told(used, "until")) == step["gives"], step
    else:
        assert told(ticks.usage()) == step["sends"], step
        if do == "renewed":
            ticks.renewed(step["from"], step["until"])
        elif do == "quarantine":
            ticks.give_up_before(clock)
        else:
            assert do == "lost"
            ticks.end(lambda: refusal("LEASE_LOST", "lost"))


def check_next(ticks: Ticks, step: Dict[str, Any]) -> None:
    if "id" in step:
        assert next_of(ticks, step["clock"]) == int(step["id"]), step
        return
    with pytest.raises(SnowleaseError) as refused:
        next_of(ticks, step["clock"])
    assert refused.value.code == step["refused"]["code"], step
    wait = step["refused"].get("retryAfterMs")
    assert refused.value.retry_after == (None if wait is None else wait / 1000), step


def next_of(ticks: Ticks, clock: int) -> int:
    while True:
        for made in ticks.open(clock).ids:
            return made


def told(used: Usage, *names: str) -> Dict[str, int]:
    whole = {"until": used.until, "lastTimestamp": used.timestamp, "lastSequence": used.sequence}
    names = (*names, "lastTimestamp", "lastSequence")
    return {name: value for name, value in whole.items() if name in names and value is not None}


@pytest.mark.parametrize("given", read("blocks", "layouts"), ids=lambda given: given["text"][:40])
def test_division(given: Dict[str, Any]) -> None:
    layout = Layout(given["text"])
    blocks = Blocks(layout, lambda: None)
    assert blocks.size == given["sequences"]
    assert blocks.size * given["blocks"] == layout.max_sequence + 1
    for each in given["spans"]:
        assert blocks.span_of(layout.tick_of(each["at"])) == each["span"]
    assert blocks.span_of(given["ticks"] - 1) == 0 and blocks.span_of(given["ticks"]) == 1
    assert blocks.prefetch(layout.epoch) == BlocksRequest(0, given["ahead"] + 1, 1, 0)


class Borrower:
    """What the thread of a lease does with blocks, step by step."""

    def __init__(self, script: Dict[str, Any]) -> None:
        self.layout = Layout(script["layout"])
        # Requests without an answer, the oldest first.
        self.sent: List[Tuple[Blocks, BlocksRequest]] = []
        self.begin(script["grant"])

    def begin(self, grant: Dict[str, Any]) -> None:
        self.blocks = Blocks(self.layout, lambda: self.sent.append((self.blocks, self.blocks.wanted)))  # type: ignore[arg-type]
        self.ticks = Ticks(self.layout, lease_of(grant), grant["clock"], self.blocks)

    def prefetch(self, clock: int) -> Optional[BlocksRequest]:
        self.blocks.forget_before(self.ticks.newest_tick)
        request = self.blocks.prefetch(clock)
        if request is not None:
            self.sent.append((self.blocks, request))
        return request

    def run(self, step: Dict[str, Any]) -> None:
        do, clock, before = step["do"], step["clock"], len(self.sent)
        if do == "next":
            check_next(self.ticks, step)
            wanted = [request._asdict() for _, request in self.sent[before:]]
            assert wanted == ([step["wants"]] if "wants" in step else []), step
        elif do == "prefetch":
            request = self.prefetch(clock)
            assert (request and request._asdict()) == step["wants"], step
        elif do == "given":
            blocks, request = self.sent.pop(0)
            blocks.put(request, blocks.read(request, step))
        elif do == "silent":
            blocks, request = self.sent.pop(0)
            blocks.miss(request, refusal("REGISTRY_UNAVAILABLE", "silent"))
        elif do == "renewed":
            self.ticks.renewed(step["from"], step["until"])
        elif do == "granted":
            self.begin(step)
        else:
            assert do in ("lost", "close")
            self.ticks.end(lambda: refusal("LEASE_LOST", do))


@pytest.mark.parametrize("script", read("blocks", "scripts"), ids=lambda script: script["why"])
def test_blocks(script: Dict[str, Any]) -> None:
    borrower = Borrower(script)
    if script["steps"][0]["do"] == "given":
        borrower.prefetch(script["grant"]["clock"])
    for step in script["steps"]:
        borrower.run(step)
