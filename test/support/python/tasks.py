"""A Celery worker's task, and its caller, with folders as broker and as result store: `tasks.py HOW_MANY` prints every ID."""

import os
import sys

from celery import Celery

from snowlease import Snowflake

folder = os.environ["QUEUE"]
app = Celery("tasks", broker="filesystem://", backend=f"file://{folder}/results")
app.conf.broker_transport_options = {"data_folder_in": f"{folder}/queue", "data_folder_out": f"{folder}/queue"}
app.conf.worker_prefetch_multiplier = 1
for name in ("queue", "results"):
    os.makedirs(f"{folder}/{name}", exist_ok=True)

ids = Snowflake(max_wait=5)


@app.task(name="take")
def take():
    return os.getpid(), ids.lease and ids.lease.worker_id, [str(ids.next()) for _ in range(100)]


if __name__ == "__main__":
    asked = [take.delay() for _ in range(int(sys.argv[1]))]
    for answer in asked:
        process, _, made = answer.get(timeout=100)
        print(process, *made)
