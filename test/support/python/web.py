"""A WSGI service that makes its Snowflake as it is loaded: with --preload, in the process that is forked for each worker."""

import os

from snowlease import Snowflake, Unavailable

ids = Snowflake(max_wait=5)


def app(environ, start_response):
    try:
        made = [str(ids.next()) for _ in range(100)]
    except Unavailable as error:
        start_response("503 Service Unavailable", [("content-type", "text/plain")])
        return [str(error).encode()]
    start_response("200 OK", [("content-type", "text/plain"), ("x-worker", f"{os.getpid()} {ids.lease.worker_id}")])
    return ["\n".join(made).encode()]
