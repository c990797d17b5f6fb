"""What an ID costs beside other generators for Python: bench.py REGISTRY. All take turns in one run, so that a busy moment hits them alike.

Prints the medians, a JSON line each. A millisecond has room for 4096 IDs of 12 bits of sequence (244 ns), more than Python makes.
"""

import json
import statistics
import sys
import time
from functools import partial
from typing import Callable

import simpleflake
from snowflake import SnowflakeGenerator

from snowlease import Snowflake

ROUNDS = 31
COUNT = 20_000


def main() -> None:
    with Snowflake(sys.argv[1], namespace="bench", max_wait=60) as ids:
        peer = SnowflakeGenerator(1)
        subjects: dict[str, Callable[[], object]] = {
            "snowlease": ids.next,
            "snowflake-id": partial(next, peer),
            "simpleflake": simpleflake.simpleflake,
            "yardstick: time.time_ns()": time.time_ns,
        }
        figures: dict[str, list[float]] = {name: [] for name in subjects}
        for _ in range(ROUNDS):
            for name, make in subjects.items():
                begun = time.perf_counter_ns()
                for _ in range(COUNT):
                    make()
                figures[name].append((time.perf_counter_ns() - begun) / COUNT)
    for name, all_of_it in figures.items():
        print(json.dumps({"subject": name, "nsPerId": statistics.median(all_of_it)}))


main()
