"""A Snowflake that is used before and after each fork, by threads in each process: `crew.py CHILDREN THREADS IDS`. Prints every ID."""

import contextlib
import os
import sys
import threading

from snowlease import Snowflake, Unavailable

children, threads, count = map(int, sys.argv[1:])
ids = Snowflake(max_wait=20, claim_timeout=20)


def take(count):
    lines = []
    while len(lines) < count:
        with contextlib.suppress(Unavailable):
            lines.append(f"{ids.next()}\n")
        if len(lines) % 50 == 0:
            threading.Event().wait(0.001)
    # One write: the processes share the file.
    os.write(1, "".join(lines).encode())


def take_in_threads():
    own = [threading.Thread(target=take, args=(count,)) for _ in range(threads)]
    for thread in own:
        thread.start()
    return own


take(1)
running = take_in_threads()
for _ in range(children):
    # Beside the threads, which are in the middle of `next`.
    if os.fork() == 0:
        take(1)
        for thread in take_in_threads():
            thread.join()
        ids.close()
        os._exit(0)
take(1)
for thread in running:
    thread.join()
for _ in range(children):
    assert os.waitstatus_to_exitcode(os.wait()[1]) == 0
ids.close()
