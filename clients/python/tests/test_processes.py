"""Threads, forks, signals and clocks: no ID comes twice."""

import asyncio
import copy
import ctypes
import faulthandler
import gc
import mmap
import multiprocessing
import os
import pickle
import random
import signal
import struct
import subprocess
import sys
import threading
import time
from typing import Any, Callable

import pytest
from daemon import LAYOUT, Daemon, granted, now, refused

import snowlease.holder
import snowlease.mark
import snowlease.snowflake
from snowlease import Layout, Snowflake, SnowleaseError, Unavailable, decode

Make = Callable[..., Snowflake]


@pytest.fixture
def numbered(daemon: Daemon) -> Daemon:
    """Each claim gets another worker ID."""
    daemon.answer = lambda request: granted(request, worker_id=len(daemon.of("POST")))
    return daemon


def take(ids: Snowflake, count: int) -> list[int]:
    return [ids.next() for _ in range(count)]


def in_child(fork: Callable[[], int], work: Callable[[], list[int]]) -> list[int]:
    """What `work` returns in a forked child."""
    reader, writer = os.pipe()
    child = fork()
    if child == 0:
        try:
            os.close(reader)
            with os.fdopen(writer, "wb") as pipe:
                made = work()
                pipe.write(struct.pack(f"{len(made)}q", *made))
        finally:
            os._exit(0)
    os.close(writer)
    # A child that hangs shows as one without IDs.
    watchdog = threading.Timer(30, os.kill, (child, signal.SIGKILL))
    watchdog.start()
    with os.fdopen(reader, "rb") as pipe:
        data = pipe.read()
    watchdog.cancel()
    watchdog.join()
    os.waitpid(child, 0)
    return list(struct.unpack(f"{len(data) // 8}q", data))


def test_threads(numbered: Daemon, make: Make) -> None:
    ids = make()
    made: list[list[int]] = [[] for _ in range(8)]
    threads = [threading.Thread(target=lambda own=own: own.extend(take(ids, 20_000))) for own in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    everything = [id for own in made for id in own]
    assert len(set(everything)) == 160_000
    assert all(own == sorted(own) for own in made)
    assert len(numbered.of("POST")) == 1


@pytest.mark.parametrize("has_pages", [True, False])
def test_a_forked_child_claims_its_own(numbered: Daemon, make: Make, monkeypatch: pytest.MonkeyPatch, has_pages: bool) -> None:
    if not has_pages:
        monkeypatch.setattr(snowlease.mark, "_has_pages", False)
    ids = make()
    before = take(ids, 5000)
    inner: list[int] = []

    def child() -> list[int]:
        # At once, while the tick of the parent's last ID is still open; and a child of the child.
        own = take(ids, 5000)
        inner.extend(in_child(os.fork, lambda: take(ids, 5000)))
        own += take(ids, 5000) + inner
        ids.close()
        return own

    made = [before, in_child(os.fork, child), take(ids, 5000), in_child(os.fork, child), take(ids, 5000)]
    everything = [id for own in made for id in own]
    assert len(everything) == 15_000 + 2 * 15_000
    assert len(set(everything)) == len(everything)
    assert {Layout(LAYOUT).decompose(id).worker_id for id in everything} == {1, 2, 3, 4, 5}
    assert ids.lease is not None and ids.lease.worker_id == 1
    # The parent's lease is the parent's: only the children gave theirs back.
    assert {request.path.split("/")[-2] for request in numbered.of("RELEASE")} == {"2", "4"}


def test_a_thread_that_a_fork_does_not_end_leaves_the_lease_to_the_parent(numbered: Daemon, make: Make) -> None:
    """Under gevent it is none of the system's, and goes on in the child."""
    ids = make()
    made = take(ids, 1)

    def child() -> list[int]:
        holder = ids._holder
        window = holder.window
        assert window is not None and holder.wait() is None
        for went_on in (lambda: holder._renew(window), lambda: holder._call("GET", "", lambda _: {}, lambda _: None, None)):
            with pytest.raises(snowlease.holder._Forked):
                went_on()
        return [*take(ids, 1), 0 if holder.error is None else 1]

    own, failed = in_child(os.fork, child)
    assert not failed and Layout(LAYOUT).decompose(own).worker_id == 2
    assert own not in made + take(ids, 1000)


def test_an_emulator_that_takes_any_advice_has_no_pages_that_are_wiped(monkeypatch: pytest.MonkeyPatch) -> None:
    class Page(mmap.mmap):
        def madvise(self, *_: int) -> None:
            pass

    assert snowlease.mark._find_pages()
    monkeypatch.setattr(mmap, "mmap", Page)
    assert not snowlease.mark._find_pages()


def test_a_fork_without_hooks(numbered: Daemon, make: Make) -> None:
    # Of the C library, with Python's lock held. Such a child may hang in Python itself where another thread waits for that lock: the alarm ends it.
    library = ctypes.PyDLL(None)
    ids = make()

    def child() -> list[int]:
        signal.alarm(5)
        return take(ids, 2000)

    made = [take(ids, 2000)]
    for _ in range(5):
        made += [in_child(library.fork, child), take(ids, 2000)]
    everything = [id for own in made for id in own]
    assert len(set(everything)) == len(everything)
    assert len({Layout(LAYOUT).decompose(id).worker_id for id in everything}) > 1


def test_a_late_reading_of_the_clock_is_no_setback(numbered: Daemon, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = make()
    ids.next()
    time.sleep(0.002)
    # This thread stands still for longer than `max_wait` once it has read the clock, and another one makes IDs.
    late = iter([0, -600_000_000])
    monkeypatch.setattr("snowlease.snowflake.time_ns", lambda: time.time_ns() + next(late, 0))
    assert ids.next() > 0


def test_forks_beside_busy_threads(numbered: Daemon, make: Make) -> None:
    ids = make()
    stop = threading.Event()
    made: list[list[int]] = [[] for _ in range(3)]

    def work(own: list[int]) -> None:
        while not stop.is_set():
            own.append(ids.next())

    threads = [threading.Thread(target=work, args=(own,)) for own in made]
    for thread in threads:
        thread.start()
    children = [in_child(os.fork, lambda: take(ids, 2000)) for _ in range(20)]
    stop.set()
    for thread in threads:
        thread.join()
    everything = [id for own in made + children for id in own]
    assert all(len(own) == 2000 for own in children)
    assert len(set(everything)) == len(everything)


def test_a_fork_before_the_first_id_costs_no_worker_id(numbered: Daemon, make: Make) -> None:
    ids = make()
    made = [in_child(os.fork, lambda: take(ids, 100)) for _ in range(3)]
    assert len({id for own in made for id in own}) == 300
    assert ids.lease is None and len(numbered.of("POST")) == 3


def test_a_child_of_a_closed_one_is_closed(numbered: Daemon, make: Make) -> None:
    ids = make()
    ids.next()
    ids.close()

    def child() -> list[int]:
        try:
            return [ids.next()]
        except SnowleaseError as error:
            return [1 if error.code == "LEASE_LOST" else 2]

    assert in_child(os.fork, child) == [1]


def pool_task(_: int) -> list[int]:
    return take(_shared, 500)


_shared: Snowflake = None  # type: ignore[assignment]


def test_multiprocessing(numbered: Daemon, make: Make) -> None:
    global _shared
    _shared = make()
    mine = take(_shared, 500)
    with multiprocessing.get_context("fork").Pool(3) as pool:
        made = pool.map(pool_task, range(12), chunksize=1)
    everything = [id for own in made for id in own] + mine
    assert len(set(everything)) == len(everything) == 13 * 500


class Interrupted(Exception):
    pass


def test_a_signal_handler_may_make_ids(numbered: Daemon, make: Make) -> None:
    ids = make(max_wait=5)
    ids.next()
    handled: list[int] = []
    before = signal.signal(signal.SIGALRM, lambda *_: handled.extend(take(ids, 50)))
    signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
    try:
        made = take(ids, 200_000)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert handled
    assert len(set(made + handled)) == len(made) + len(handled)


def test_an_exception_inside_next_costs_at_most_its_id(numbered: Daemon, make: Make) -> None:
    ids = make(max_wait=5)
    ids.next()
    made: list[int] = []
    interrupts = 0

    def interrupt(*_: Any) -> None:
        raise Interrupted

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        while interrupts < 300:
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.0007)
                while True:
                    made.append(ids.next())
            except Interrupted:
                interrupts += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert len(set(made)) == len(made)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Older ones handle a signal between any two steps.")
def test_a_signal_handler_may_fork(numbered: Daemon, make: Make) -> None:
    ids = make(max_wait=5)
    made = take(ids, 1)
    forks: list[bool] = []
    child = -1

    def fork(_: int, frame: Any) -> None:
        nonlocal child
        child = os.fork()
        forks.append("snowlease" in frame.f_code.co_filename)

    before = signal.signal(signal.SIGALRM, fork)
    for n in range(60):
        reader, writer = os.pipe()
        signal.setitimer(signal.ITIMER_REAL, 0.0005 + 0.00001 * n)
        while len(forks) == n:
            made.append(ids.next())
        if child == 0:
            os.write(writer, struct.pack("2q", made[-1], ids.next()))
            os._exit(0)
        os.close(writer)
        interrupted, own = struct.unpack("2q", os.read(reader, 16))
        os.close(reader)
        os.waitpid(child, 0)
        assert own not in made
        # Both ended the call that the fork came into.
        assert not forks[-1] or interrupted not in made
    signal.signal(signal.SIGALRM, before)
    assert any(forks) and len(set(made)) == len(made)


FORK_BESIDE_AN_IMPORT = """
import importlib, os, signal, sys, threading
from importlib.abc import Loader, MetaPathFinder
from importlib.util import spec_from_loader
from snowlease import Snowflake

begun = threading.Event()

class Slow(MetaPathFinder, Loader):
    def find_spec(self, name, *_):
        return spec_from_loader(name, self) if name == "stringprep" else None
    def exec_module(self, module):
        begun.set()
        threading.Event().wait()

sys.meta_path.insert(0, Slow())
threading.Thread(target=importlib.import_module, args=("encodings.idna",), daemon=True).start()
begun.wait()
ids = Snowflake(sys.argv[1])
child = os.fork()
if child == 0:
    signal.alarm(20)
    ids.next()
    os._exit(0)
sys.exit(os.waitpid(child, 0)[1])
"""


def run_script(script: str, *args: str) -> str:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run([sys.executable, "-c", script, *args], check=True, stdout=subprocess.PIPE, env=environment).stdout.decode()


def test_a_fork_beside_an_import(daemon: Daemon) -> None:
    """A thread that imports at the fork does not exist in the child: nothing there ends that import."""
    run_script(FORK_BESIDE_AN_IMPORT, daemon.url.replace("127.0.0.1", "localhost"))


def alarmed(handler: Callable[..., Any], work: Callable[[Callable[[], None]], None]) -> None:
    """Runs `work` with a function that lets a signal come soon, and a watchdog that ends a hanging process."""
    chance = random.Random(1)
    before = signal.signal(signal.SIGALRM, handler)
    faulthandler.dump_traceback_later(300, exit=True)
    try:
        work(lambda: signal.setitimer(signal.ITIMER_REAL, chance.uniform(0.00001, 0.002)) and None)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        faulthandler.cancel_dump_traceback_later()


def test_exceptions_amid_a_claim_and_a_close(numbered: Daemon, make: Make) -> None:
    numbered.answer = lambda request: granted(request, worker_id=len(numbered.of("POST")) % 1000)
    made: list[int] = []

    def interrupt(*_: Any) -> None:
        raise Interrupted

    def work(soon: Callable[[], None]) -> None:
        for _ in range(300):
            ids = make(max_wait=5)
            for call, again in ((ids.next, ids.next), (ids.close, ids.close)):
                try:
                    soon()
                    made.extend(filter(None, [call()]))
                    signal.setitimer(signal.ITIMER_REAL, 0)
                except Interrupted:
                    pass
                made.extend(filter(None, [again()]))

    alarmed(interrupt, work)
    assert len(set(made)) == len(made) >= 300


def test_handlers_that_make_ids_and_close_amid_a_claim_and_a_close(numbered: Daemon, make: Make) -> None:
    numbered.answer = lambda request: granted(request, worker_id=len(numbered.of("POST")) % 1000)
    made: list[int] = []
    current = make()
    turn = 0

    def handler(*_: Any) -> None:
        nonlocal turn
        turn += 1
        try:
            made.extend([current.next()] if turn % 2 else current.close() or [])
        except SnowleaseError as error:
            assert error.code == "LEASE_LOST"

    def work(soon: Callable[[], None]) -> None:
        nonlocal current
        for _ in range(300):
            current = make(max_wait=5)
            for call in (current.next, current.next, current.close):
                soon()
                try:
                    made.extend(filter(None, [call()]))
                except SnowleaseError as error:
                    assert error.code == "LEASE_LOST"
            signal.setitimer(signal.ITIMER_REAL, 0)
            current.close()

    alarmed(handler, work)
    assert turn > 0 and len(set(made)) == len(made)


@pytest.mark.parametrize("raises", [False, True])
def test_a_signal_amid_the_close_of_an_unused_snowflake(daemon: Daemon, make: Make, raises: bool) -> None:
    chance = random.Random(1)
    current = make()
    has_come = False

    def handler(*_: Any) -> None:
        nonlocal has_come
        has_come = True
        if raises:
            raise Interrupted
        current.close()

    def work(_: Callable[[], None]) -> None:
        nonlocal current, has_come
        for _round in range(2000):
            current, has_come = make(), False
            try:
                signal.setitimer(signal.ITIMER_REAL, chance.uniform(0.000001, 0.00003))
                current.close()
                while not has_come:
                    time.sleep(0)
            except Interrupted:
                pass
            current.close()
            with pytest.raises(SnowleaseError, match="LEASE_LOST"):
                current.next()

    alarmed(handler, work)
    assert daemon.of("POST") == []


def test_no_thread_can_be_started(daemon: Daemon, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> int:
        raise RuntimeError("can't start new thread")

    ids = make()
    with monkeypatch.context() as there:
        there.setattr(snowlease.holder._thread, "start_new_thread", refuse)
        with pytest.raises(SnowleaseError, match="No thread can be started"):
            ids.next()
    assert ids.next() > 0


def test_no_id_after_a_close_that_follows_a_failed_claim(daemon: Daemon, make: Make) -> None:
    ids = make()
    daemon.answer = lambda request: refused(409, "POOL_EXHAUSTED")
    with pytest.raises(SnowleaseError, match="POOL_EXHAUSTED"):
        ids.next()
    daemon.answer = granted
    ids.close()
    with pytest.raises(SnowleaseError, match="LEASE_LOST"):
        ids.next()
    assert len(daemon.of("POST")) == 1


def test_a_handler_that_forks_before_the_start_leaves_the_child_one_claim(numbered: Daemon, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = make()
    start = snowlease.holder._thread.start_new_thread
    child = -1

    def interrupted(*args: Any) -> int:
        nonlocal child
        monkeypatch.undo()
        child = os.fork()
        return start(*args)

    monkeypatch.setattr(snowlease.holder._thread, "start_new_thread", interrupted)
    ids.next()
    ids.close()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    assert (len(numbered.of("POST")), len(numbered.of("RELEASE"))) == (2, 2)


@pytest.mark.parametrize("closes", [False, True])
def test_a_handler_between_the_choice_of_a_starter_and_the_start(numbered: Daemon, make: Make, monkeypatch: pytest.MonkeyPatch, closes: bool) -> None:
    """What it waits for is what its own frame was about to do."""
    ids = make()
    made: list[int] = []
    start = snowlease.holder._thread.start_new_thread

    def interrupted(*args: Any) -> int:
        monkeypatch.undo()
        made.extend([ids.next()] if not closes else ids.close() or [])
        return start(*args)

    monkeypatch.setattr(snowlease.holder._thread, "start_new_thread", interrupted)
    if closes:
        with pytest.raises(SnowleaseError, match="LEASE_LOST"):
            ids.next()
        assert numbered.of("POST") == []
    else:
        made.append(ids.next())
        assert len(set(made)) == 2 and len(numbered.of("POST")) == 1


def test_a_snowflake_is_neither_copied_nor_pickled(daemon: Daemon, make: Make) -> None:
    ids = make()
    for use in (False, True):
        for copy_of in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match="cannot be copied"):
                copy_of(ids)
        assert use or ids.next() > 0


def test_the_collector_of_garbage_waits_for_no_daemon(daemon: Daemon) -> None:
    goes_on = threading.Event()
    daemon.answer = lambda request: granted(request) if request.method == "POST" or goes_on.wait() else None
    ids = Snowflake(daemon.url, operation_timeout=600)
    ids.next()
    # It may run while its thread holds a lock that the answer depends on.
    del ids
    gc.collect()
    goes_on.set()
    while not daemon.of("RELEASE"):
        time.sleep(0.005)


EXIT = """
import sys
from snowlease import Snowflake
ids = [Snowflake(sys.argv[1]) for _ in range(2)]
for each in ids:
    each.next()
del ids[0], each
"""


def test_the_exit_of_the_interpreter_waits_for_the_give_back(daemon: Daemon) -> None:
    run_script(EXIT, daemon.url)
    assert len(daemon.of("RELEASE")) == 2


IMPORTS = """
import sys
from snowlease import Snowflake
before = set(sys.modules)
with Snowflake(sys.argv[1]) as ids:
    ids.next_string("base62")
print(*set(sys.modules) - before)
"""


def test_nothing_is_imported_behind_the_package(daemon: Daemon) -> None:
    assert run_script(IMPORTS, daemon.url.replace("127.0.0.1", "localhost")).strip() == ""


class Clock:
    """A wall clock that a test sets."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ms = now()
        monkeypatch.setattr(snowlease.snowflake, "time_ns", lambda: self.ms * 1_000_000)


def test_a_clock_that_goes_back_is_told(daemon: Daemon, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    ids = make(max_wait=0.05)
    made = take(ids, 100)
    clock.ms -= 3000
    with pytest.raises(Unavailable) as refusal:
        ids.next()
    assert (refusal.value.code, refusal.value.retry_after) == ("CLOCK_ROLLBACK", 3)
    clock.ms += 3000
    made += take(ids, 100)
    assert len(set(made)) == 200


def test_a_clock_that_goes_back_a_little_is_waited_for(daemon: Daemon, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    ids = make(max_wait=60)
    made = take(ids, 4000)
    clock.ms -= 20
    timer = threading.Timer(0.05, lambda: setattr(clock, "ms", clock.ms + 21))
    timer.start()
    made += take(ids, 4000)
    timer.join()
    assert len(set(made)) == 8000


def test_a_full_tick_is_waited_for(daemon: Daemon, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    ids = make(max_wait=0)
    made = take(ids, 4096)
    with pytest.raises(Unavailable) as refusal:
        ids.next()
    assert (refusal.value.code, refusal.value.retry_after) == ("SEQUENCE_EXHAUSTED", 0.001)
    clock.ms += 1
    assert len(set(made + take(ids, 4096))) == 8192


def test_an_old_open_tick_ends_with_its_claim(daemon: Daemon, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    Clock(monkeypatch)
    ids = make(max_wait=0)
    ids.next()
    # What a thread has at hand that was stopped in the middle of `next`.
    kept = ids._tick
    assert kept.mark[0]
    ids.close()
    assert not kept.mark[0]
    # Of two closes, the first one may be stopped in the middle.
    kept.mark[0] = 1
    ids.close()
    assert not kept.mark[0]


def test_asyncio(numbered: Daemon, make: Make) -> None:
    ids = make()

    async def take_async(count: int) -> list[int]:
        return [await ids.next_async() for _ in range(count)]

    async def crowd() -> list[list[int]]:
        return await asyncio.gather(*[take_async(2000) for _ in range(5)])

    made = [id for own in asyncio.run(crowd()) for id in own]
    assert len(set(made)) == 10_000


def test_forms(daemon: Daemon, make: Make) -> None:
    ids = make()
    assert int(ids.next_string()) > 0
    assert decode(ids.next_string("crockford32"), "crockford32") > 0
    with pytest.raises(SnowleaseError):
        ids.next_string("base99")
    assert repr(ids) == "<Snowflake on worker 7>"
