#!/usr/bin/env python3
"""Snowflake IDs in Python, on a worker ID leased from a Snowlease daemon. Needs nothing but Python's own library.

    SNOWLEASE_REGISTRY=http://127.0.0.1:7070 python3 examples/client.py [how many] [ms between them]      # 0: until it is stopped

    with Snowflake("http://127.0.0.1:7070", "orders") as ids:
        ids.next_id()

It is also how a client in any other language has to work. A lease is a window of time that is stored before anybody uses it: an ID may
carry a millisecond only if it lies in [from, until). That one comparison, in `next_id`, is all that safety rests on: not a renewal that
comes in time, not a clock that is right, nor this process being awake.

  claim      POST   /v1/{ns}/leases             with a random token, so that it can be asked again if the answer was lost
  emit       timestamps in the window, none below the last one
  renew      PATCH  /v1/{ns}/leases/{workerId}  after renewAfterMs; the window in the answer replaces the one before. Each renewal names
             the turn of the last answer and a new one, so that of two copies of this process one is lost
  receipt    the header of the last answer goes back with the next request: it shows a registry that went back in time what it forgot
  stop       at `until` by itself, as long as renewals fail; for good once one is answered LEASE_LOST or OTHER_REGISTRY
  give back  DELETE /v1/{ns}/leases/{workerId}  behind the last ID, with its timestamp and sequence
"""

import http.client
import json
import os
import secrets
import signal
import socket
import sys
import threading
import time
import urllib.error
import urllib.request

# Bits, epoch in Unix ms, tick in ms. A claim for another layout than the namespace has is refused with LAYOUT_MISMATCH.
LAYOUT = "timestamp:41,worker:10,sequence:12@1490346283706/1"
EPOCH, WORKER_BITS, SEQUENCE_BITS = 1490346283706, 10, 12

# How long a request may take, and how soon one that failed is repeated, in seconds.
REQUEST_TIMEOUT, RETRY = 5.0, 0.5

# No answer, or none of a daemon's: nobody knows what became of the request.
UNANSWERED = (OSError, ValueError, LookupError, TypeError, http.client.HTTPException)


class Refused(Exception):
    """What the daemon answered in place of what it was asked for."""

    def __init__(self, code, detail, retry_after=None):
        super().__init__(f"{code}: {detail}")
        self.code = code
        self.retry_after = retry_after  # seconds; None where waiting does not help


class Unavailable(Exception):
    """There is no ID to be had now. There may be one later."""


class Snowflake:
    """IDs on a lease of its own, for all threads of a process. A child that was forked has to make its own."""

    def __init__(self, url, namespace="default", token=None, claim_timeout=10.0, max_wait=5.0):
        """Claims a worker ID. Waits up to `claim_timeout` seconds for one, and in `next_id` up to `max_wait` for the time to use it."""
        self._leases = f"{url.rstrip('/')}/v1/{namespace}/leases"
        self._headers = {"content-type": "application/json"}
        if token:
            self._headers["authorization"] = f"Bearer {token}"
        self._max_wait = max_wait
        self._pid = os.getpid()
        # Guards all below, and is notified of every change of window and state.
        self._changed = threading.Condition()
        self._last, self._sequence = -1, 0  # newest timestamp in an ID, highest sequence in that
        self._end = None  # why there are no IDs any more
        self._token = secrets.token_hex(16)
        self._receipt = None  # of the last answer
        self._turn, self._next_turn = None, None  # of the last renewal that was answered; of the one that is under way
        grant, asked = self._claim(time.monotonic() + claim_timeout)
        self.worker_id, self._fence = grant["workerId"], grant["fence"]
        self._from, self._until = grant["from"], grant["until"]
        self._renewer = threading.Thread(target=self._keep, args=(asked + grant["renewAfterMs"] / 1000,), daemon=True)
        self._renewer.start()

    def next_id(self):
        """An ID that nobody else makes. Raises Unavailable, and Refused or RuntimeError when there will never be another."""
        deadline = time.monotonic() + self._max_wait
        while True:
            with self._changed:
                if self._pid != os.getpid():
                    raise RuntimeError("This process was forked, and its parent goes on with the worker ID: claim another one.")
                if self._end is not None:
                    raise self._end
                # Where the clock went back, the last millisecond is used up, and then the clock is waited for.
                timestamp = max(now(), self._last)
                sequence = self._sequence + 1 if timestamp == self._last else 0
                if timestamp >= self._until:
                    reason, pause = "The window has passed, and it was not renewed", REQUEST_TIMEOUT
                elif timestamp < self._from:
                    reason, pause = "The window is not open yet", (self._from - timestamp) / 1000
                elif sequence >> SEQUENCE_BITS:
                    reason, pause = "The clock stands still, or was set back", 0.001
                else:
                    self._last, self._sequence = timestamp, sequence
                    time_and_worker = (timestamp - EPOCH) << WORKER_BITS | self.worker_id
                    return time_and_worker << SEQUENCE_BITS | sequence
                left = deadline - time.monotonic()
                if left <= 0:
                    raise Unavailable(f"{reason}; try again later.")
                self._changed.wait(min(pause, left))

    def close(self):
        """Gives the worker ID back. No ID is made from then on, whether or not the daemon could be told."""
        if self._pid != os.getpid():
            return
        with self._changed:
            if isinstance(self._end, RuntimeError):
                return
            lost, self._end = self._end is not None, RuntimeError("The worker ID was given back.")
            self._changed.notify_all()
        self._renewer.join()
        if lost:
            return
        used = self._used() or {"until": self._from}  # the next holder may begin behind it
        try:
            self._call("DELETE", f"/{self.worker_id}", {**self._name(), "now": now(), **used})
        except (Refused, *UNANSWERED):
            pass  # The rest of the window passes by itself.

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _claim(self, deadline):
        """Returns the grant, and when it was asked for."""
        wish = {
            "token": self._token,
            "layout": LAYOUT,
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "continues": False,  # what the last holder used of a millisecond is nothing that this client reads
        }
        while True:
            asked = time.monotonic()
            try:
                # Asked again with the same token: where only the answer was lost, it is the same grant.
                return self._call("POST", "", {**wish, "now": now()}), asked
            except Refused as refused:
                pause = refused.retry_after
                if pause is None or asked + pause > deadline:
                    raise
            except UNANSWERED:
                pause = RETRY
                if asked + pause > deadline:
                    raise
            time.sleep(max(pause, 0.01))

    def _keep(self, due):
        """Renews until the lease ends."""
        while True:
            with self._changed:
                if self._changed.wait_for(lambda: self._end is not None, due - time.monotonic()):
                    return
                used = self._used()
            # From before the request: its answer may take its time.
            asked = time.monotonic()
            self._next_turn = self._next_turn or secrets.token_hex(16)  # the same until its answer arrives
            try:
                answer = self._call("PATCH", f"/{self.worker_id}", {**self._name(), "now": now(), **used})
            except Refused as refused:
                if refused.code in ("LEASE_LOST", "OTHER_REGISTRY"):
                    with self._changed:
                        self._end = self._end or refused
                        self._changed.notify_all()
                    return
                due = asked + max(RETRY, refused.retry_after or 0)
            except UNANSWERED:
                due = asked + RETRY
            else:
                with self._changed:
                    self._from, self._until = answer["from"], answer["until"]
                    self._changed.notify_all()
                self._turn, self._next_turn = answer.get("turn"), None
                due = asked + answer["renewAfterMs"] / 1000

    def _name(self):
        turns = {"turn": self._turn, "nextTurn": self._next_turn}
        return {"token": self._token, "fence": self._fence, **{name: turn for name, turn in turns.items() if turn}}

    def _used(self):
        return {} if self._last < 0 else {"lastTimestamp": self._last, "lastSequence": self._sequence}

    def _call(self, method, path, body):
        """Raises Refused, or one of UNANSWERED."""
        headers = {**self._headers, **({"snowlease-receipt": self._receipt} if self._receipt else {})}
        request = urllib.request.Request(self._leases + path, json.dumps(body).encode(), headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=REQUEST_TIMEOUT) as response:
                text = response.read()
                self._receipt = response.headers.get("snowlease-receipt") or self._receipt
                return json.loads(text) if text else None
        except urllib.error.HTTPError as error:
            problem = json.load(error)
            wait = problem.get("retryAfterMs")
            raise Refused(problem["code"], problem["detail"], None if wait is None else wait / 1000) from None


def now():
    """Unix ms."""
    return time.time_ns() // 1_000_000


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    pause = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    url = os.environ.get("SNOWLEASE_REGISTRY", "http://127.0.0.1:7070")
    with Snowflake(url, os.environ.get("SNOWLEASE_NAMESPACE", "default"), os.environ.get("SNOWLEASE_TOKEN")) as ids:
        made = 0
        while not stop.is_set() and (count == 0 or made < count):
            print(ids.next_id(), flush=pause > 0)
            made += 1
            stop.wait(pause / 1000)


if __name__ == "__main__":
    try:
        main()
    except (Refused, Unavailable) as error:
        sys.exit(f"{error}")
