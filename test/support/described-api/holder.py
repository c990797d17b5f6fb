"""A holder that claims, renews, makes IDs and gives back, by a client that was generated from the description."""

import json
import secrets
import sys
import time

from snowlease_api import AuthenticatedClient, Client
from snowlease_api.api.ids import explain_id, make_ids
from snowlease_api.api.leases import claim_lease, delete_lease, release_lease, renew_lease
from snowlease_api.api.namespaces import read_namespace
from snowlease_api.models import (
    ClaimLeaseRequest,
    MakeIdsRequest,
    Problem,
    ReleaseLeaseRequest,
    RenewLeaseRequest,
)

url, token = sys.argv[1:3]
client = AuthenticatedClient(url, token) if token else Client(url)
EPOCH, WORKER_BITS, SEQUENCE_BITS = 1490346283706, 10, 12


def now():
    return time.time_ns() // 1_000_000


class Holder:
    def __init__(self):
        self.token = secrets.token_hex(16)
        body = ClaimLeaseRequest(now=now(), token=self.token, continues=False, host="generated")
        grant = claim_lease.sync("default", client=client, body=body)
        again = claim_lease.sync("default", client=client, body=body)
        assert (again.worker_id, again.fence) == (grant.worker_id, grant.fence)
        self.worker, self.fence, self.start, self.until = grant.worker_id, grant.fence, grant.from_, grant.until
        self.turn, self.last = None, None

    def renew(self):
        following = secrets.token_hex(16)
        turn = {"turn": self.turn} if self.turn else {}
        body = RenewLeaseRequest(token=self.token, fence=self.fence, now=now(), next_turn=following, **turn)
        answer = renew_lease.sync("default", self.worker, client=client, body=body)
        assert answer.turn == following
        self.turn, self.start, self.until = answer.turn, max(self.start, answer.from_), max(self.until, answer.until)

    def make(self, count):
        made = []
        tick, sequence = self.last or (-1, 0)
        while len(made) < count:
            clock = now()
            if clock < max(self.start, tick) or clock + 1 > self.until:
                continue
            sequence = sequence + 1 if clock == tick else 0
            if sequence >> SEQUENCE_BITS:
                continue
            tick = clock
            made.append(((tick - EPOCH) << WORKER_BITS | self.worker) << SEQUENCE_BITS | sequence)
            self.last = (tick, sequence)
        return [str(id) for id in made]

    def release(self, call):
        used = {"last_timestamp": self.last[0], "last_sequence": self.last[1]}
        told = ReleaseLeaseRequest(token=self.token, fence=self.fence, now=now(), turn=self.turn, **used)
        answer = call.sync_detailed("default", self.worker, client=client, body=told)
        assert answer.status_code == 204, answer


ids = make_ids.sync("default", client=client, body=MakeIdsRequest(count=3)).ids
holders = [Holder() for _ in range(3)]
assert len({holder.worker for holder in holders}) == 3
for holder in holders:
    ids += holder.make(1000)
    holder.renew()
    holder.renew()
    ids += holder.make(1000)
for holder, call in zip(holders, [release_lease, delete_lease]):
    holder.release(call)
# Released ones are claimed again behind what was used.
for _ in range(2):
    follower = Holder()
    ids += follower.make(1000)

lost = renew_lease.sync_detailed(
    "default", holders[0].worker, client=client, body=RenewLeaseRequest(token="0" * 32, fence=1, now=now())
)
assert isinstance(lost.parsed, Problem) and lost.parsed.code == "LEASE_LOST", lost
assert read_namespace.sync("default", client=client).max_window == 120_000
if not token:
    assert explain_id.sync("default", ids[-1], client=client).worker_id == follower.worker
print(json.dumps(ids))
