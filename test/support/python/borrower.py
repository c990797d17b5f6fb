"""Makes IDs until SIGTERM, whatever becomes of the lender: in a thread and in the main one, and in a forked child of `borrower.py CHILDREN`. Prints every ID."""

import os
import signal
import sys
import threading

from snowlease import Snowflake, Unavailable

ids = Snowflake(max_wait=0.2)
over = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: over.set())


def take():
    while not over.is_set():
        try:
            # One write: the processes share the file.
            os.write(1, "".join(f"{ids.next()}\n" for _ in range(5)).encode())
        except Unavailable:
            pass
        over.wait(0.005)


def take_twice():
    other = threading.Thread(target=take)
    other.start()
    take()
    other.join()
    ids.close()


children = []
for _ in range(int(sys.argv[1])):
    os.write(1, f"{ids.next()}\n".encode())
    child = os.fork()
    if child == 0:
        take_twice()
        os._exit(0)
    children.append(child)
take_twice()
for child in children:
    os.kill(child, signal.SIGTERM)
    os.waitpid(child, 0)
