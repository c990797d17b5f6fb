# Prints IDs, a line each, through redis-py: redis-py.py PORT. Goes on after errors, until it is killed.

import sys
import time

import redis

client = redis.Redis(port=int(sys.argv[1]), decode_responses=True)
while True:
    try:
        made = [client.get("orders"), *client.mget(["orders"] * 5), *client.execute_command("SNOWLEASE.IDS", "orders", 10)]
        with client.pipeline(transaction=False) as pipeline:
            for _ in range(50):
                pipeline.get("orders")
            made += pipeline.execute()
        sys.stdout.write("".join(f"{id}\n" for id in made))
        sys.stdout.flush()
    except redis.RedisError:
        time.sleep(0.05)
