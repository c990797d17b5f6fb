import { expect, test } from "vitest";
import { makeObserved, type ObservedApi } from "../support/observed.ts";

interface Block {
  readonly id: string;
  readonly event: string;
  readonly data: Readonly<Record<string, unknown>> | undefined;
}

/** The blocks that a stream has brought, one by one; the first block without an event ends the stored ones. */
class Reader {
  readonly response: Response;
  readonly #reader: ReadableStreamDefaultReader<string>;
  #text = "";

  constructor(response: Response) {
    this.response = response;
    if (response.body === null) throw new Error("There is no body.");
    this.#reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  }

  /** The next block; undefined at the end. */
  async next(): Promise<Block | undefined> {
    for (;;) {
      const end = this.#text.indexOf("\n\n");
      if (end >= 0) {
        const fields = Object.fromEntries(
          this.#text
            .slice(0, end)
            .split("\n")
            .map((line) => [line.slice(0, line.indexOf(": ")), line.slice(line.indexOf(": ") + 2)]),
        );
        this.#text = this.#text.slice(end + 2);
        const { id = "", event = "", data } = fields;
        return { id, event, data: data === undefined ? undefined : (JSON.parse(data) as Block["data"]) };
      }
      const { done, value } = await this.#reader.read();
      if (done) return undefined;
      this.#text += value;
    }
  }

  /** Everything up to the mark that ends the stored events, or up to a heartbeat. */
  async untilMark(): Promise<readonly Block[]> {
    const blocks: Block[] = [];
    for (let block = await this.next(); block !== undefined; block = await this.next()) {
      blocks.push(block);
      if (block.event === "") break;
    }
    return blocks;
  }

  async stop(): Promise<void> {
    await this.#reader.cancel();
  }
}

let served = 0;

async function claim(
  { send, clock }: ObservedApi,
  namespace = "orders",
  more: object = {},
): Promise<{ token: string; fence: number; workerId: number }> {
  const token = (++served).toString(16).padStart(32, "0");
  const body = { token, now: clock.now(), host: "here", ip: "10.0.0.7", pid: 42, ...more };
  const response = await send("POST", `/v1/${namespace}/leases`, body);
  expect(response.status).toBe(201);
  return (await response.json()) as { token: string; fence: number; workerId: number };
}

async function listen(observed: ObservedApi, lastEventId?: string): Promise<Reader> {
  const headers = lastEventId === undefined ? {} : { "last-event-id": lastEventId };
  const response = await observed.send("GET", "/v1/orders/events", undefined, headers);
  expect(response.status).toBe(200);
  return new Reader(response);
}

test("each event in the namespace comes once, as in the log, and without a token", async () => {
  const observed = makeObserved();
  const { send, memory, lines } = observed;
  await observed.registry.init({ namespace: "orders", layout: "timestamp:41,worker:10,sequence:12@1490346283706/1" });
  const reader = await listen(observed);
  expect(reader.response.headers.get("content-type")).toBe("text/event-stream");
  expect(await reader.untilMark()).toHaveLength(1);

  const now = observed.clock.now();
  const first = await claim(observed);
  const second = await claim(observed);
  await claim(observed, "other");
  const again = { token: first.token, now, host: "here", ip: "10.0.0.7", pid: 42 };
  expect((await send("POST", "/v1/orders/leases", again)).status).toBe(201);
  for (let i = 0; i < 2; i++) {
    expect((await send("DELETE", "/v1/orders/leases/0", { token: first.token, fence: 1, now })).status).toBe(204);
  }
  await send("POST", "/v1/orders/workers/1/release", { force: true });
  for (let i = 0; i < 2; i++) {
    expect((await send("PATCH", "/v1/orders/leases/1", { token: second.token, fence: 1, now })).status).toBe(410);
  }
  await send("PUT", "/v1/orders/workers/9/pin", { reason: 'a "reason"\u2028' });
  await send("PUT", "/v1/orders/workers/9/pin", { reason: 'data: "more"' });
  await send("DELETE", "/v1/orders/workers/9/pin");
  observed.streams.close();

  const blocks: Block[] = [];
  for (let block = await reader.next(); block !== undefined; block = await reader.next()) blocks.push(block);
  expect(blocks.map(({ event, data }) => `${event} ${String(data?.["workerId"])}`)).toEqual([
    "claimed 0",
    "claimed 1",
    "released 0",
    "forced 1",
    "lost 1",
    "pinned 9",
    "unpinned 9",
  ]);
  expect(blocks[0]?.data).toMatchObject({
    namespace: "orders",
    fence: 1,
    host: "here",
    ip: "10.0.0.7",
    pid: 42,
    at: now,
  });
  const logged = lines.filter(({ namespace }) => namespace === "orders");
  expect(blocks.map(({ data }) => ({ ...data, at: 0 }))).toEqual(
    logged.map((line) => ({ ...(JSON.parse(JSON.stringify(line)) as object), at: 0 })),
  );
  for (const { token } of [first, second]) expect(JSON.stringify([blocks, lines])).not.toContain(token);
  expect(await memory.worker("orders", 0)).toBeDefined();
});

test("a claim of a worker ID that was not given back is a take-over; any other claim is not", async () => {
  const observed = makeObserved();
  const only = { workerId: 3, windowMs: 1000 };
  await claim(observed, "orders", only);
  const reader = await listen(observed);
  await reader.untilMark();
  await observed.clock.advance(1001);
  const second = await claim(observed, "orders", { ...only, host: "there" });
  const body = { token: second.token, fence: second.fence, now: observed.clock.now() };
  const events = [await reader.next(), await reader.next()];
  expect(events.map((block) => block?.event)).toEqual(["claimed", "taken-over"]);
  expect(events[1]?.data).toMatchObject({ workerId: 3, fence: 2, previousFence: 1, host: "here", pid: 42 });

  expect((await observed.send("DELETE", "/v1/orders/leases/3", body)).status).toBe(204);
  await observed.clock.advance(1001);
  await claim(observed, "orders", only);
  await observed.clock.advance(1);
  observed.streams.close();
  const rest: (string | undefined)[] = [];
  for (let block = await reader.next(); block !== undefined; block = await reader.next()) rest.push(block.event);
  expect(rest).toEqual(["released", "claimed"]);
});

test("a reader that comes again goes on at its place, and learns whether it missed something", async () => {
  const observed = makeObserved();
  await claim(observed);
  const reader = await listen(observed);
  const [mark] = await reader.untilMark();
  await claim(observed);
  const seen = await reader.next();
  await reader.stop();
  await claim(observed);
  await claim(observed, "other");

  const events = async (place: string): Promise<readonly string[]> => {
    const again = await listen(observed, place);
    const blocks = await again.untilMark();
    await again.stop();
    return blocks
      .slice(0, -1)
      .map(({ event, data }) => (data === undefined ? event : [event, data["workerId"]].join(" ").trim()));
  };
  expect(await events(mark?.id ?? "")).toEqual(["claimed 1", "claimed 2"]);
  expect(await events(seen?.id ?? "")).toEqual(["claimed 2"]);
  expect(await events("00000000-3")).toEqual(["missed", "claimed 0", "claimed 1", "claimed 2"]);
  for (let i = 0; i < 1000; i++) observed.journal.info({ event: "renew-failed", namespace: "other" }, "no");
  expect(await events(seen?.id ?? "")).toEqual(["missed"]);
});

test("a stream without events has a heartbeat, and no event of another namespace counts as missed after it", async () => {
  const observed = makeObserved({ streamLimits: { heartbeat: 5 } });
  await claim(observed);
  const reader = await listen(observed);
  await reader.untilMark();
  for (let i = 0; i < 1500; i++) observed.journal.info({ event: "renew-failed", namespace: "other" }, "no");
  let beat = await reader.next();
  while (beat?.id !== observed.journal.placeOf()) beat = await reader.next();
  expect(beat).toEqual({ id: observed.journal.placeOf(), event: "", data: undefined });
  await reader.stop();
  const again = await listen(observed, beat.id);
  expect(await again.untilMark()).toHaveLength(1);
  await again.stop();
});

test("a slow reader loses its stream, gets the waiting events, and can go on; other readers notice nothing", async () => {
  const observed = makeObserved({ streamLimits: { backlog: 2000 } });
  await claim(observed);
  const slow = await observed.send("GET", "/v1/orders/events");
  const quick = await listen(observed);
  await quick.untilMark();
  for (let i = 0; i < 20; i++) {
    await claim(observed);
    expect((await quick.next())?.data).toMatchObject({ workerId: i + 1 });
  }
  expect(observed.streams.open).toBe(1);
  expect(observed.streams.cut).toBe(1);
  const late = new Reader(slow);
  const blocks: Block[] = [];
  for (let block = await late.next(); block !== undefined; block = await late.next()) blocks.push(block);
  const got = blocks.slice(1).map(({ data }) => data?.["workerId"]);
  expect(got).toEqual(Array.from(got, (_, i) => i + 1));
  expect(got.length).toBeLessThan(20);
  const again = await listen(observed, blocks.at(-1)?.id);
  const rest = (await again.untilMark()).slice(0, -1).map(({ data }) => data?.["workerId"]);
  expect([...got, ...rest]).toEqual(Array.from({ length: 20 }, (_, i) => i + 1));
});

test("a reader that missed more events than the buffer holds gets all of them, and the new ones", async () => {
  const observed = makeObserved({ streamLimits: { backlog: 1000 } });
  await claim(observed);
  const place = observed.journal.placeOf();
  for (let i = 0; i < 20; i++) await claim(observed);
  const response = await observed.send("GET", "/v1/orders/events", undefined, { "last-event-id": place });
  await claim(observed);
  const reader = new Reader(response);
  const got = (await reader.untilMark()).slice(0, -1).map(({ data }) => data?.["workerId"]);
  expect(got).toEqual(Array.from({ length: 20 }, (_, i) => i + 1));
  expect((await reader.next())?.data).toMatchObject({ workerId: 21 });
  expect(observed.streams.cut).toBe(0);
  await reader.stop();
});

test("a reader that takes nothing for four heartbeats loses its stream; one that reads keeps it", async () => {
  const observed = makeObserved({ streamLimits: { heartbeat: 20 } });
  await claim(observed);
  await observed.send("GET", "/v1/orders/events");
  const reader = await listen(observed);
  await reader.untilMark();
  for (let beat = 0; beat < 12; beat++) await reader.next();
  expect(observed.streams.cut).toBe(1);
  expect(observed.streams.open).toBe(1);
  await reader.stop();
});

test("the number of streams is limited; an ended stream makes room, and a HEAD request takes no place", async () => {
  const observed = makeObserved({ streamLimits: { streams: 2 } });
  await claim(observed);
  const first = await listen(observed);
  for (let i = 0; i < 3; i++) expect((await observed.send("HEAD", "/v1/orders/events")).status).toBe(200);
  expect(observed.streams.open).toBe(1);
  await listen(observed);
  const refused = await observed.send("GET", "/v1/orders/events");
  expect(refused.status).toBe(429);
  expect(await refused.json()).toMatchObject({ code: "RATE_LIMITED", retryAfterMs: 15_000 });
  await first.stop();
  await listen(observed);
});

test("a namespace that does not exist has no events", async () => {
  const observed = makeObserved();
  const response = await observed.send("GET", "/v1/orders/events");
  expect(response.status).toBe(404);
  expect(await response.json()).toMatchObject({ code: "NOT_FOUND" });
});

test("closing the streams ends all, and no new ones begin", async () => {
  const observed = makeObserved();
  await claim(observed);
  const readers = [await listen(observed), await listen(observed)];
  observed.streams.close();
  await claim(observed);
  for (const reader of readers) {
    expect(await reader.untilMark()).toHaveLength(1);
    expect(await reader.next()).toBeUndefined();
  }
  expect((await observed.send("GET", "/v1/orders/events")).status).toBe(503);
  expect(observed.streams.open).toBe(0);
});
