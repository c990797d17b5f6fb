import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Callable

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from daemon import Daemon

from snowlease import Snowflake


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    started = Daemon()
    yield started
    started.close()


@pytest.fixture
def other() -> Iterator[Daemon]:
    started = Daemon()
    yield started
    started.close()


@pytest.fixture
def make(daemon: Daemon) -> Iterator[Callable[..., Snowflake]]:
    """Makes Snowflakes that are closed at the end."""
    made = []

    def make(registry: str = daemon.url, **options: Any) -> Snowflake:
        ids = Snowflake(registry, **{"operation_timeout": 5.0, **options})
        made.append(ids)
        return ids

    yield make
    daemon.over.set()
    for ids in made:
        ids.close()
