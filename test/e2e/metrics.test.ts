import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { beforeEach, describe, expect, test } from "vitest";
import { parse } from "yaml";
import { type CliProcess, Sandbox, until } from "../support/cli.ts";
import { type Family, parseExposition, valueOf } from "../support/exposition.ts";

interface Claimed {
  readonly workerId: number;
  readonly fence: number;
  readonly token: string;
}

/** A daemon as a process, and what it is asked. */
class Served {
  readonly process: CliProcess;
  readonly url: string;

  constructor(process: CliProcess, url: string) {
    this.process = process;
    this.url = url;
  }

  async call(method: string, path: string, body?: object): Promise<{ status: number; body: unknown }> {
    const headers = { "content-type": "application/json" };
    const response = await fetch(this.url + path, {
      method,
      headers,
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    return { status: response.status, body: text === "" ? undefined : JSON.parse(text) };
  }

  async claim(body: object = {}): Promise<Claimed> {
    const answer = await this.call("POST", "/v1/orders/leases", { now: Date.now(), host: "here", pid: 42, ...body });
    expect(answer.status).toBe(201);
    return answer.body as Claimed;
  }

  async figures(): Promise<string> {
    const response = await fetch(`${this.url}/metrics`);
    expect(response.status).toBe(200);
    return response.text();
  }

  async figure(name: string, labels: Record<string, string> = { namespace: "orders" }): Promise<number | undefined> {
    return valueOf(await this.figures(), name, labels);
  }

  /** Reads events until the text that came fits. The stream is ended then. */
  async events(
    fits: (text: string) => boolean,
    act: () => Promise<void> = async () => {},
    id?: string,
  ): Promise<string> {
    const stop = new AbortController();
    const headers = id === undefined ? {} : { "last-event-id": id };
    const response = await fetch(`${this.url}/v1/orders/events`, { headers, signal: stop.signal });
    expect(response.status).toBe(200);
    await act();
    let text = "";
    for await (const chunk of (response.body ?? new ReadableStream()).pipeThrough(new TextDecoderStream())) {
      text += chunk;
      if (fits(text)) break;
    }
    stop.abort();
    return text;
  }
}

let sandbox: Sandbox;
beforeEach(() => {
  sandbox = new Sandbox();
});

async function serve(): Promise<Served> {
  const { daemon, url } = await sandbox.serve();
  return new Served(daemon, url);
}

async function stop({ process }: Served): Promise<Record<string, unknown>[]> {
  process.signal("SIGTERM");
  const { code, stderr } = await process.ended;
  expect(code).toBe(0);
  return stderr
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line) as Record<string, unknown>);
}

/** The names of the events in a stream's text. */
function namesIn(text: string): readonly string[] {
  return Array.from(text.matchAll(/^event: (.*)$/gm), ([, name = ""]) => name);
}

test("what is done through a daemon is in its figures, its events and its log, and no token in any of them", async () => {
  const daemon = await serve();
  const first = await daemon.claim();
  const tokens = [first.token];
  const ids = await daemon.call("POST", "/v1/orders/ids", { count: 250 });
  expect(ids.status).toBe(200);
  const events = await daemon.events(
    (text) => text.includes("event: unpinned"),
    async () => {
      const second = await daemon.claim();
      tokens.push(second.token);
      const { token, fence, workerId } = second;
      const now = Date.now();
      const at = `/v1/orders/leases/${workerId}`;
      expect((await daemon.call("PATCH", at, { token, fence, now })).status).toBe(200);
      expect((await daemon.call("DELETE", at, { token, fence, now })).status).toBe(204);
      expect((await daemon.call("POST", "/v1/orders/workers/0/release", { force: true })).status).toBe(200);
      const lost = await daemon.call("PATCH", "/v1/orders/leases/0", { token: first.token, fence: first.fence, now });
      expect(lost.status).toBe(410);
      expect((await daemon.call("PUT", "/v1/orders/workers/7/pin", { reason: "kept" })).status).toBe(204);
      expect((await daemon.call("DELETE", "/v1/orders/workers/7/pin")).status).toBe(204);
    },
  );
  expect(namesIn(events)).toEqual(["claimed", "released", "forced", "lost", "pinned", "unpinned"]);

  const text = await daemon.figures();
  const expected: readonly [name: string, labels: Record<string, string>, value: number][] = [
    // The daemon's own, for the IDs, is the third.
    ["snowlease_claims_total", { namespace: "orders" }, 3],
    ["snowlease_renewals_total", { namespace: "orders" }, 1],
    ["snowlease_releases_total", { namespace: "orders" }, 1],
    ["snowlease_forced_releases_total", { namespace: "orders" }, 1],
    ["snowlease_ids_made_total", { namespace: "orders" }, 250],
    ["snowlease_errors_total", { code: "LEASE_LOST" }, 1],
    ["snowlease_worker_ids", { namespace: "orders", state: "live" }, 1],
    ["snowlease_registry_up", {}, 1],
    ["snowlease_build_info", { registry: "sqlite" }, 1],
  ];
  for (const [name, labels, value] of expected) expect([name, valueOf(text, name, labels)]).toEqual([name, value]);
  const losses = parseExposition(text).get("snowlease_leases_lost_total")?.samples ?? [];
  const lost = losses.filter(({ labels, value }) => labels["namespace"] === "orders" && value > 0);
  expect(lost.map(({ value }) => value)).toEqual([1]);
  expect(valueOf(text, "snowlease_own_window_left_seconds")).toBeGreaterThan(0);
  // Both clocks are this machine's.
  expect(Math.abs(valueOf(text, "snowlease_clock_offset_seconds") ?? NaN)).toBeLessThan(10);
  const calls = parseExposition(text).get("snowlease_registry_operation_duration_seconds")?.samples ?? [];
  const claims = calls.find(({ name, labels }) => name.endsWith("_count") && labels["operation"] === "claim");
  expect(claims?.value).toBe(3);

  const lines = await stop(daemon);
  expect(lines.map(({ event }) => event)).toEqual([
    "listening",
    "scope",
    "claimed",
    "claimed",
    "claimed",
    "released",
    "forced",
    "lost",
    "pinned",
    "unpinned",
    "draining",
    "released",
    "stopped",
  ]);
  for (const line of lines.filter(({ namespace }) => namespace !== undefined)) {
    expect(line).toMatchObject({ namespace: "orders", workerId: expect.any(Number) as number });
  }
  for (const token of tokens) for (const all of [text, events, JSON.stringify(lines)]) expect(all).not.toContain(token);
});

test("two daemons on one registry: each counts what it did, both see the pool, and a take-over from one to the other", async () => {
  const [one, two] = [await serve(), await serve()];
  // Not renewed: it is over after its window.
  await one.claim({ workerId: 3, windowMs: 1000 });
  await one.claim();
  expect(await two.figure("snowlease_claims_total")).toBeUndefined();
  let over: Claimed | undefined;
  const events = await one.events(
    () => true,
    async () => {
      await until(async () => {
        const { status, body } = await two.call("POST", "/v1/orders/leases", { now: Date.now(), workerId: 3 });
        if (status !== 201) expect(body).toMatchObject({ code: "WORKER_ID_HELD" });
        else over = body as Claimed;
        return status === 201;
      });
    },
  );
  expect(over?.fence).toBe(2);
  expect(namesIn(events)).toEqual([]);
  await until(async () => (await two.figure("snowlease_take_overs_total")) === 1);
  expect(await one.figure("snowlease_take_overs_total")).toBe(0);
  expect(await one.figure("snowlease_claims_total")).toBe(2);
  expect(await two.figure("snowlease_claims_total")).toBe(1);
  for (const daemon of [one, two]) {
    await until(
      async () => (await daemon.figure("snowlease_worker_ids", { namespace: "orders", state: "live" })) === 2,
    );
    expect(await daemon.figure("snowlease_worker_ids", { namespace: "orders", state: "unused" })).toBe(1022);
  }
  await stop(one);
  const lines = await stop(two);
  expect(lines.find(({ event }) => event === "taken-over")).toMatchObject({
    workerId: 3,
    fence: 2,
    previousFence: 1,
    host: "here",
    pid: 42,
  });
});

test("a reader goes on where it was, and after another daemon came learns that it missed something", async () => {
  const daemon = await serve();
  await daemon.claim();
  const seen = await daemon.events(
    (text) => text.includes("event: claimed"),
    async () => void (await daemon.claim()),
  );
  const [id = ""] = /(?<=id: )\S+(?=\nevent: claimed)/.exec(seen) ?? [];
  await daemon.claim();
  const more = await daemon.events((text) => text.includes("claimed"), undefined, id);
  expect(namesIn(more)).toEqual(["claimed"]);
  expect(more).toContain('"workerId":2');
  await stop(daemon);

  const next = await serve();
  expect(namesIn(await next.events((text) => text.includes("missed"), undefined, id))).toEqual(["missed"]);
  await stop(next);
});

test("a daemon that drains ends its streams, and is not held up by readers who read nothing", async () => {
  const daemon = await serve();
  await daemon.claim();
  const reader = await fetch(`${daemon.url}/v1/orders/events`);
  const program = `const s = require("net").connect(${new URL(daemon.url).port}, "127.0.0.1", () => {
    s.write("GET /v1/orders/events HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n"); s.pause(); console.log("asked"); });
    s.on("error", () => {});
    // A socket that is not read does not keep a process alive.
    setInterval(() => {}, 60_000);`;
  const idle = sandbox.started(spawn(process.execPath, ["-e", program], sandbox.surroundings()));
  await idle.line();
  await until(async () => (await daemon.figure("snowlease_event_streams", {})) === 2);
  const lines = await stop(daemon);
  expect(await reader.text()).toMatch(/^retry: 2000\nid: \S+\n\n$/);
  expect(lines.at(-1)).toMatchObject({ event: "stopped" });
});

test("a reader that is gone leaves its place to others", async () => {
  const daemon = await serve();
  await daemon.claim();
  for (let i = 0; i < 3; i++) await daemon.events(() => true);
  await until(async () => (await daemon.figure("snowlease_event_streams", {})) === 0);
  await stop(daemon);
});

describe("alert rules and board", () => {
  interface Rule {
    readonly alert: string;
    readonly expr: string;
    readonly annotations: Record<string, string>;
  }
  const read = (file: string): string => readFileSync(new URL(`../../deploy/${file}`, import.meta.url), "utf8");
  const rules = (parse(read("prometheus/alerts.yml")) as { groups: { rules: Rule[] }[] }).groups.flatMap(
    (group) => group.rules,
  );
  interface Panel {
    readonly title: string;
    readonly gridPos: { readonly x: number; readonly y: number; readonly w: number; readonly h: number };
    readonly targets: readonly { readonly expr: string }[];
  }
  const board = JSON.parse(read("grafana/snowlease.json")) as {
    panels: Panel[];
    templating: { list: { name: string; definition?: string }[] };
  };
  const inBoard = board.panels.flatMap(({ title, targets }) => targets.map(({ expr }) => [title, expr] as const));
  const inVariables = board.templating.list.map(({ name, definition = "" }) => [name, definition] as const);
  const expressions = [...rules.map(({ alert, expr }) => [alert, expr] as const), ...inBoard, ...inVariables];

  /** The metric and the labels of each selector, and the labels by which is grouped. */
  function selectors(expr: string): readonly { name: string; labels: readonly string[] }[] {
    const found = expr.matchAll(/\b((?:snowlease|process|nodejs)_\w+)(?:\{([^}]*)\})?/g);
    return Array.from(found, ([, name = "", inner = ""]) => ({
      name,
      labels: Array.from(inner.matchAll(/(\w+)\s*(?:=~|!~|!=|=)/g), ([, label = ""]) => label),
    }));
  }

  test("every metric and label that they name is in the figures of a daemon", async () => {
    const daemon = await serve();
    await daemon.claim({ workerId: 5 });
    await daemon.call("POST", "/v1/orders/ids");
    const families = parseExposition(await daemon.figures());
    const familyOf = (name: string): Family | undefined =>
      families.get(name) ?? families.get(name.replace(/_(?:bucket|sum|count)$/, ""));
    let known = 0;
    for (const [where, expr] of expressions) {
      for (const { name, labels } of selectors(expr)) {
        const family = familyOf(name);
        expect([where, name, family?.type]).toEqual([where, name, expect.any(String)]);
        for (const label of labels.filter((label) => label !== "instance")) {
          // Nothing went wrong here yet: what has no sample has no labels to show.
          if (family?.samples.length === 0) continue;
          expect([where, name, Object.keys(family?.samples[0]?.labels ?? {})]).toEqual([
            where,
            name,
            expect.arrayContaining([label]),
          ]);
        }
        known++;
      }
    }
    expect(known).toBeGreaterThan(expressions.length - 3);
    await stop(daemon);
  });

  test("every metric of ours is on the board", async () => {
    const daemon = await serve();
    const named = new Set(expressions.flatMap(([, expr]) => selectors(expr).map(({ name }) => name)));
    const families = [...parseExposition(await daemon.figures()).keys()].filter((name) =>
      name.startsWith("snowlease_"),
    );
    const missing = families.filter((name) => ![name, `${name}_bucket`].some((one) => named.has(one)));
    expect(missing).toEqual([]);
    await stop(daemon);
  });

  test("every rule says what it means, under a name of its own; no panel covers another", () => {
    expect(new Set(rules.map(({ alert }) => alert)).size).toBe(rules.length);
    for (const { alert, annotations } of rules) {
      expect([alert, Object.keys(annotations).toSorted()]).toEqual([alert, ["description", "summary"]]);
    }
    const cells = board.panels.flatMap(({ gridPos: { x, y, w, h } }) =>
      Array.from({ length: w * h }, (_, i) => `${x + (i % w)},${y + Math.floor(i / w)}`),
    );
    expect(new Set(cells).size).toBe(cells.length);
  });
});
