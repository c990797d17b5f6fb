import { createHash } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { startDaemon } from "../../src/daemon.ts";
import { memoryRegistry } from "../../src/testing.ts";

const cleanups: (() => unknown)[] = [];

afterEach(async () => {
  for (const cleanup of cleanups.splice(0).toReversed()) await cleanup();
});

/** The URL of a daemon with a namespace `orders`, and the tokens `alice` and `bob`, which may read. */
async function start(): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), "snowlease-"));
  cleanups.push(() => rmSync(folder, { recursive: true }));
  const tokens = join(folder, "tokens");
  const line = (token: string): string => `${createHash("sha256").update(token).digest("hex")} admin\n`;
  writeFileSync(tokens, ["alice", "bob"].map(line).join(""), { mode: 0o600 });
  const log = { info() {}, warn() {}, error() {} };
  const registry = memoryRegistry();
  const daemon = await startDaemon({ registry, log, tokens, listen: { host: "127.0.0.1", port: 0 } });
  cleanups.push(() => daemon.close("now"));
  const url = daemon.url ?? "";
  await fetch(`${url}/v1/orders`, { method: "PUT", headers: { authorization: "Bearer alice" } });
  return url;
}

async function signIn(url: string, token: string): Promise<string> {
  const body = new URLSearchParams({ token, next: "/" });
  const { headers } = await fetch(`${url}/sign-in`, {
    method: "POST",
    redirect: "manual",
    headers: { origin: url },
    body,
  });
  return headers.get("set-cookie")?.replace(/;.*/, "") ?? "";
}

async function listen(url: string, headers: Record<string, string>): Promise<Response> {
  const hangUp = new AbortController();
  cleanups.push(() => hangUp.abort());
  return fetch(`${url}/v1/orders/events`, { headers, signal: hangUp.signal });
}

test("a stream of events that a browser opened ends when it signs out; those of other browsers go on", async () => {
  const url = await start();
  const [alice, bob] = [await signIn(url, "alice"), await signIn(url, "bob")];
  const [ends, goesOn] = [await listen(url, { cookie: alice }), await listen(url, { cookie: bob })];
  expect([ends.status, goesOn.status]).toEqual([200, 200]);
  await fetch(`${url}/sign-out`, { method: "POST", redirect: "manual", headers: { origin: url, cookie: alice } });
  // The whole text is there only when the stream has ended.
  expect(await ends.text()).toMatch(/^retry: /);
  const metrics = await fetch(`${url}/metrics`, { headers: { authorization: "Bearer bob" } });
  expect(await metrics.text()).toMatch(/^snowlease_event_streams 1$/m);
});

test("one token may use a quarter of the streams, however many it opens", async () => {
  const url = await start();
  const open = await Promise.all(Array.from({ length: 20 }, () => listen(url, { authorization: "Bearer alice" })));
  const statuses = open.map(({ status }) => status).toSorted((a, b) => a - b);
  expect(statuses).toEqual([...Array.from({ length: 16 }, () => 200), ...Array.from({ length: 4 }, () => 429)]);
  expect((await listen(url, { authorization: "Bearer bob" })).status).toBe(200);
});
