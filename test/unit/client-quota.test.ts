import { expect, test } from "vitest";
import type { Grant } from "../../src/rule/registry.ts";
import { ClientQuota } from "../../src/http/access/client-quota.ts";
import type { Tokens } from "../../src/serving/tokens.ts";
import { fakeClock, memoryRegistry } from "../../src/testing.ts";
import { type Api, makeApi } from "../support/api.ts";

const window = 60_000;
const pool = { first: 0, last: 19 };
const tokens: Tokens = { clientOf: (token) => token, may: () => true, knows: () => true };

type Reply = Awaited<ReturnType<Api["call"]>>;

/** The API with a pool of 20 worker IDs, of which a client may have a quarter: 5. */
function start(percent = 25): {
  api: Api;
  claim: (client?: string, body?: object) => Promise<Reply>;
  lease: (method: "PATCH" | "DELETE", claimed: Reply, body?: object, client?: string) => Promise<Reply>;
  fill: (client?: string) => Promise<Reply[]>;
} {
  const clock = fakeClock();
  const api = makeApi({
    clock,
    registry: memoryRegistry({ clock }),
    pool,
    tokens,
    quota: new ClientQuota(percent, clock),
  });
  const claim = (client = "a", body = {}): Promise<Reply> =>
    api.call("POST", "/v1/orders/leases", { now: clock.now(), ...body }, { authorization: `Bearer ${client}` });
  return {
    api: { ...api, clock },
    claim,
    lease(method, { body: { token, workerId } }, body = {}, client = "a") {
      const headers = { authorization: `Bearer ${client}` };
      return api.call(method, `/v1/orders/leases/${workerId}`, { token, now: clock.now(), ...body }, headers);
    },
    async fill(client = "a") {
      const granted: Reply[] = [];
      for (;;) {
        const reply = await claim(client);
        if (reply.status !== 201) {
          expect([reply.status, reply.body.code]).toEqual([429, "RATE_LIMITED"]);
          return granted;
        }
        granted.push(reply);
      }
    },
  };
}

test("a client has its share of the pool and no more; another one has its own", async () => {
  const { claim, fill } = start();
  expect(await fill("a")).toHaveLength(5);
  expect((await claim("a")).body).toMatchObject({
    detail: expect.stringMatching(/^This client has 5 of the 20 worker IDs of namespace `orders`.*`clientQuota`/),
    retryAfterMs: window,
  });
  expect(await fill("b")).toHaveLength(5);
});

test.each([
  [1, 1],
  [26, 5],
  [100, 20],
])("%i percent of 20 worker IDs are %i", async (percent, most) => {
  const { claim } = start(percent);
  const replies = await Promise.all(Array.from({ length: 30 }, () => claim()));
  expect(replies.filter(({ status }) => status === 201)).toHaveLength(most);
});

test("claims at once are no more than claims one by one, and a claim that is refused takes no place", async () => {
  const { claim, fill } = start();
  const refused = await claim("a", { windowMs: 3_600_000 });
  expect(refused.status).toBe(400);
  const taken = await claim("b", { workerId: 3 });
  expect((await claim("a", { workerId: 3 })).body.code).toBe("WORKER_ID_HELD");
  expect(taken.status).toBe(201);
  expect(await fill()).toHaveLength(5);
});

test("what is given back clean makes room at once, what is not when its window has passed", async () => {
  const { api, claim, lease, fill } = start();
  const [first, second] = await fill();
  if (first === undefined || second === undefined) throw new Error("Nothing was granted.");
  await api.clock.advance(10);
  expect((await lease("DELETE", first, { lastTimestamp: api.clock.now() - 5 })).status).toBe(204);
  expect((await claim()).status).toBe(201);
  expect((await lease("DELETE", second)).status).toBe(204);
  expect((await claim()).status).toBe(429);
  await api.clock.advance(window);
  expect((await claim()).status).toBe(201);
});

test("leases count for as long as they are renewed", async () => {
  const { api, claim, lease, fill } = start();
  const granted = await fill();
  for (let i = 0; i < 4; i++) {
    await api.clock.advance(window / 2);
    for (const reply of granted) expect((await lease("PATCH", reply)).status).toBe(200);
    expect((await claim()).status).toBe(429);
  }
  await api.clock.advance(window + 1);
  expect(await fill()).toHaveLength(5);
});

test("after a restart renewals tell what a client has, and none is refused", async () => {
  const { api, fill } = start();
  const granted = [...(await fill()), ...(await fill("b"))];
  const quota = new ClientQuota(25, api.clock);
  const again = makeApi({ clock: api.clock, registry: api.registry, pool, tokens, quota });
  for (const { body } of granted) {
    const renewal = { token: body.token, now: api.clock.now() };
    const path = `/v1/orders/leases/${body.workerId}`;
    expect((await again.call("PATCH", path, renewal, { authorization: "Bearer a" })).status).toBe(200);
  }
  const claim = { now: api.clock.now() };
  expect((await again.call("POST", "/v1/orders/leases", claim, { authorization: "Bearer a" })).status).toBe(429);
});

test("a claim that is repeated because its answer was lost gets its grant again", async () => {
  const { claim } = start();
  const token = "0123456789abcdef".repeat(2);
  const first = await claim("a", { token });
  for (let i = 0; i < 4; i++) await claim();
  expect((await claim()).status).toBe(429);
  const again = await claim("a", { token });
  expect([again.status, again.body.workerId]).toEqual([201, first.body.workerId]);
});

test("clients without a token are told apart by their addresses", async () => {
  const { api } = start();
  const quota = new ClientQuota(25, api.clock);
  const open = makeApi({ clock: api.clock, registry: api.registry, pool, quota });
  const statuses: number[] = [];
  for (let i = 0; i < 6; i++) {
    statuses.push((await open.call("POST", "/v1/orders/leases", { now: api.clock.now() })).status);
  }
  expect(statuses).toEqual([201, 201, 201, 201, 201, 429]);
});

test("of more clients than are remembered, those who lease nothing are forgotten first", async () => {
  const clock = fakeClock();
  const quota = new ClientQuota(50, clock);
  const claim = (client: string, token: string, windowMs = window): Promise<unknown> => {
    const grant: Grant = {
      outcome: "granted",
      workerId: 0,
      fence: 1,
      from: 0,
      until: clock.now() + windowMs,
      clock: 0,
    };
    return quota.claim({ client, namespace: "orders", token }, 2, async () => grant);
  };
  await claim("a", "1");
  for (let i = 0; i < 9999; i++) await claim(`b${i}`, "1", 1000);
  await clock.advance(1000);
  await claim("c", "1");
  await expect(claim("a", "2")).rejects.toMatchObject({ code: "RATE_LIMITED" });
});
