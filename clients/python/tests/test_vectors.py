"""What every client does alike: clients/vectors. Needs nothing but Python: `python3 -m unittest discover -s tests -t tests`."""

import json
import unittest
from pathlib import Path
from typing import Any

from snowlease import Layout, Lease, SnowleaseError, decode, encode
from snowlease.blocks import Blocks, Wanted
from snowlease.window import Usage, Window

VECTORS = Path(__file__).parents[2] / "vectors"


def read(name: str, part: str) -> list[dict[str, Any]]:
    whole = json.loads((VECTORS / f"{name}.json").read_text())
    assert whole["version"] == 1
    assert whole[part]
    return list(whole[part])


class Vectors(unittest.TestCase):
    def assert_refused(self, given: dict[str, Any], act: Any) -> SnowleaseError:
        with self.assertRaises(SnowleaseError, msg=given) as refused:
            act()
        self.assertEqual(refused.exception.code, given["code"], given)
        self.assertNotIn("\n", str(refused.exception))
        return refused.exception

    def test_layouts(self) -> None:
        for given in read("layouts", "layouts"):
            with self.subTest(given["text"]):
                if given["wraps"]:
                    # What a client may refuse, and this one does.
                    self.assert_refused({"code": "CONFIG_INVALID"}, lambda: Layout(given["text"]))
                    continue
                layout = Layout(given["text"])
                self.assertEqual(layout.canonical, given["canonical"])
                self.assertEqual([field._asdict() for field in layout.fields], given["fields"])
                limits = {
                    "epoch": layout.epoch,
                    "tick": layout.tick,
                    "totalBits": layout.total_bits,
                    "workerBits": layout.worker_bits,
                    "maxWorkerId": layout.max_worker_id,
                    "maxSequence": layout.max_sequence,
                    "maxRollback": layout.max_rollback,
                    "maxTick": layout.max_tick,
                    "endOfLife": layout.end_of_life,
                }
                self.assertEqual(limits, {name: given[name] for name in limits})

    def test_refused_layouts(self) -> None:
        for given in read("layouts", "refused"):
            with self.subTest(given["why"]):
                self.assert_refused(given, lambda: Layout(given["text"]))

    def test_ids(self) -> None:
        for given in read("ids", "ids"):
            with self.subTest(given["id"]):
                if "at" in given["decoded"]:
                    self.assert_refused({"code": "CONFIG_INVALID"}, lambda: Layout(given["layout"]))
                    continue
                layout = Layout(given["layout"])
                parts = (given["timestamp"], given["workerId"], given["sequence"], given.get("rollback", 0))
                made = layout.compose(*parts)
                self.assertEqual(made, int(given["id"]))
                apart = layout.decompose(made)
                self.assertEqual((apart.timestamp, apart.fields), (given["decoded"]["timestamp"], given["decoded"]["fields"]))
                self.assertEqual((apart.worker_id, apart.sequence, apart.rollback), parts[1:])
                for fixed, texts in ((False, given["texts"]), (True, given["fixedTexts"])):
                    for encoding, text in texts.items():
                        self.assertEqual(encode(made, encoding, fixed=fixed, bits=layout.total_bits), text)
                        self.assertEqual(decode(text, encoding, bits=layout.total_bits), made)

    def test_refused_parts(self) -> None:
        for given in read("ids", "refused"):
            with self.subTest(given["why"]):
                layout = Layout(given["layout"])
                self.assert_refused(given, lambda: layout.compose(given["timestamp"], given["workerId"], given["sequence"], given.get("rollback", 0)))

    def test_refused_texts(self) -> None:
        for given in read("ids", "refusedTexts"):
            with self.subTest(f"{given['encoding']}: {given['why']}"):
                self.assert_refused(given, lambda: decode(given["text"], given["encoding"]))

    def test_windows(self) -> None:
        for given in read("windows", "windows"):
            with self.subTest(given["why"]):
                self.check_window(given)

    def check_window(self, given: dict[str, Any]) -> None:
        layout = Layout(given["layout"])
        first, last = given["firstTick"], given["lastTick"]

        def is_usable(tick: int) -> bool:
            wall = layout.time_of(tick)
            try:
                Window(layout, Lease(1, 1, given["from"], given["until"]), min(wall, given["from"])).open(wall)
            except SnowleaseError:
                return False
            return True

        around = layout.tick_of(given["from"]) if first is None else first
        for tick in (*range(max(0, around - 2), around + 4), *([] if last is None else [last - 1, last, last + 1])):
            self.assertEqual(is_usable(tick), first is not None and first <= tick <= last, tick)

    def test_clocks(self) -> None:
        for script in read("clocks", "scripts"):
            grant = script["grant"]
            window = Window(Layout(script["layout"]), Lease(grant["workerId"], 1, grant["from"], grant["until"]), grant["clock"])
            for at, step in enumerate(script["steps"]):
                with self.subTest(script["why"], at=at):
                    self.run_step(window, step)

    def run_step(self, window: Window, step: dict[str, Any]) -> None:
        clock, do = step["clock"], step["do"]
        if do == "next" and "id" in step:
            self.assertEqual(str(next(window.open(clock).ids)), step["id"])
        elif do == "next":
            refused = self.assert_refused(step["refused"], lambda: next(window.open(clock).ids))
            wait = step["refused"].get("retryAfterMs")
            self.assertEqual(refused.retry_after, None if wait is None else wait / 1000)
        elif do == "close":
            used = window.end(lambda: SnowleaseError("LEASE_LOST", "closed"))
            self.assertEqual(None if used is None else {"until": used.until, **told(used)}, step["gives"])
        else:
            self.assertEqual(told(window.usage()), step["sends"])
            if do == "renewed":
                window.renewed(step["from"], step["until"])
            elif do == "quarantine":
                window.give_up_before(clock)
            else:
                self.assertEqual(do, "lost")
                window.end(lambda: SnowleaseError("LEASE_LOST", "lost"))

    def test_division_into_blocks(self) -> None:
        for given in read("blocks", "layouts"):
            with self.subTest(given["text"]):
                layout = Layout(given["text"])
                blocks = Blocks(layout, lambda: None)
                division = {"ticks": blocks.ticks, "blocks": blocks.count, "sequences": blocks.size, "ahead": blocks.ahead}
                self.assertEqual(division, {name: given[name] for name in division})
                for at in given["spans"]:
                    self.assertEqual(blocks.span_of(layout.tick_of(at["at"])), at["span"])

    def test_blocks(self) -> None:
        for script in read("blocks", "scripts"):
            borrower = Borrower(Layout(script["layout"]), script["grant"])
            if script["steps"][0]["do"] == "given":
                borrower.prefetch(script["grant"]["clock"])
            for at, step in enumerate(script["steps"]):
                with self.subTest(script["why"], at=at):
                    self.run_borrower(borrower, step)

    def run_borrower(self, borrower: "Borrower", step: dict[str, Any]) -> None:
        clock, do, window = step["clock"], step["do"], borrower.window
        if do == "next":
            wanted = borrower.blocks.wanted
            if "id" in step:
                self.assertEqual(str(borrower.next(clock)), step["id"])
            else:
                refused = self.assert_refused(step["refused"], lambda: borrower.next(clock))
                wait = step["refused"].get("retryAfterMs")
                self.assertEqual(refused.retry_after, None if wait is None else wait / 1000)
            more = borrower.blocks.wanted
            self.assertEqual(None if more is wanted else borrower.sent(more), step.get("wants"))
        elif do == "prefetch":
            self.assertEqual(borrower.prefetch(clock), step["wants"])
        elif do in ("given", "silent"):
            of, asked = borrower.open.pop(0)
            self.assertEqual(asked.first, step.get("first", asked.first))
            trouble = SnowleaseError("REGISTRY_UNAVAILABLE", "No answer.") if do == "silent" else None
            of.put(asked, of.read(asked, step.get("blocks", [])), trouble)
        elif do == "renewed":
            window.renewed(step["from"], step["until"])
        elif do == "granted":
            borrower.begin(step)
        else:
            self.assertIn(do, ("lost", "close"))
            window.end(lambda: SnowleaseError("LEASE_LOST", do))


class Borrower:
    """A window with blocks, and the requests for more that are on their way."""

    def __init__(self, layout: Layout, grant: dict[str, Any]) -> None:
        self.layout, self.open = layout, list[tuple[Blocks, Wanted]]()
        self.begin(grant)

    def begin(self, grant: dict[str, Any]) -> None:
        self.blocks = Blocks(self.layout, lambda: None)
        lease = Lease(grant["workerId"], grant["fence"], grant["from"], grant["until"])
        self.window = Window(self.layout, lease, grant["clock"], self.blocks)

    def next(self, clock: int) -> int:
        # A Snowflake looks again where a block has nothing but the ID 0.
        return next(self.window.open(clock).ids, None) or next(self.window.open(clock).ids)

    def prefetch(self, clock: int) -> Any:
        return self.sent(self.blocks.prefetch(clock))

    def sent(self, wanted: Any) -> Any:
        if wanted is None:
            return None
        self.open.append((self.blocks, wanted))
        return wanted._asdict()


def told(used: Usage) -> dict[str, int]:
    whole = {"lastTimestamp": used.timestamp, "lastSequence": used.sequence}
    return {name: value for name, value in whole.items() if value is not None}


if __name__ == "__main__":
    unittest.main()
