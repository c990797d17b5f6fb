import { copyFileSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { defaultLayout } from "../../src/id/layout.ts";
import { Sandbox } from "../support/cli.ts";
import { type DaemonProcess, startDaemonProcess } from "../support/daemon-process.ts";
import { eventually, HolderProcess, type HolderState } from "../support/holder.ts";

const namespace = "orders";

let folder: string;
let registry: string;
let daemon: DaemonProcess;
let holders: HolderProcess[];
/** IDs that the daemon itself made. */
let made: bigint[];

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "snowlease-lend-"));
  registry = `sqlite:${join(folder, "registry.db")}`;
  holders = [];
  made = [];
  await startDaemon(["--lend"]);
});

afterEach(async () => {
  await Promise.all(holders.map((holder) => holder.kill()));
  await daemon.end("SIGKILL");
  rmSync(folder, { recursive: true, force: true });
});

const socket = (): string => join(folder, "daemon.sock");

async function startDaemon(flags: readonly string[]): Promise<void> {
  daemon = await startDaemonProcess(registry, 0, ["--socket", socket(), "--window", "6s", ...flags]);
}

/** A process with the library, over the daemon's socket. */
function start(options: object = {}): HolderProcess {
  const holder = new HolderProcess({ registry: `unix:${socket()}?borrow=true`, namespace, ...options });
  holders.push(holder);
  return holder;
}

async function askDaemon(method: string, path: string, body: object): Promise<{ status: number; answer: Answer }> {
  const response = await fetch(`${daemon.url}/v1/${namespace}/${path}`, {
    method,
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  const text = await response.text();
  return { status: response.status, answer: text === "" ? {} : (JSON.parse(text) as Answer) };
}

interface Answer {
  readonly ids?: readonly string[];
  readonly workerId?: number;
  readonly fence?: number;
  readonly shared?: boolean;
  readonly token?: string;
  readonly code?: string;
  readonly file?: unknown;
  readonly layout?: string;
  readonly from?: number;
  readonly until?: number;
  readonly clock?: number;
  readonly renewAfterMs?: number;
  readonly details?: { readonly reason?: string; readonly doubt?: object };
}

async function makeHere(count: number): Promise<void> {
  const { answer } = await askDaemon("POST", "ids", { count });
  made.push(...(answer.ids ?? []).map(BigInt));
}

function allIds(): bigint[] {
  return [...made, ...holders.flatMap((holder) => holder.ids())];
}

function expectDistinct(): void {
  const all = allIds();
  expect(new Set(all).size).toBe(all.length);
}

const workersOf = (ids: readonly bigint[]): Set<number> =>
  new Set(ids.map((id) => defaultLayout.decompose(id).workerId));

async function runAll(count: number): Promise<void> {
  await Promise.all(Array.from({ length: count }, () => start().ask("start")));
  await Promise.all(holders.map((holder) => holder.ask("run")));
}

const areOnTheNext = (states: readonly (HolderState | undefined)[]): boolean =>
  states.every((state) => state?.state === "held" && state.events.some(({ name }) => name === "switched"));

const haveMade = (which: readonly HolderProcess[], count: number): Promise<number> =>
  eventually(
    async () => Math.min(...which.map((holder) => holder.ids().length)),
    (least) => least > count,
  );

test("processes and their daemon make IDs on one worker ID; some die or stop, the daemon is killed and comes back: no ID twice", async () => {
  await runAll(12);
  await makeHere(5000);
  await haveMade(holders, 200);
  expect(workersOf(allIds()).size).toBe(1);
  const [killed, stopped, ...others] = holders;
  await killed?.kill();
  stopped?.signal("SIGSTOP");

  await daemon.end("SIGKILL");
  await startDaemon(["--lend"]);
  await makeHere(5000);
  // The worker ID of the killed daemon rests, so the borrowers go on with another one, or with the same one after its window.
  await eventually(() => Promise.all(others.map((holder) => holder.ask("state"))), areOnTheNext);
  // Longer than the window of the first daemon.
  await sleep(6500);
  stopped?.signal("SIGCONT");
  await eventually(async () => [await stopped?.ask("state")], areOnTheNext);
  await makeHere(5000);
  await Promise.all([stopped, ...others].map((holder) => holder?.ask("close")));
  expectDistinct();
  expect(workersOf(allIds()).size).toBeLessThan(4);
});

test("a daemon that stops gives its number back behind the blocks that its borrowers have taken", async () => {
  await runAll(4);
  await haveMade(holders, 100);
  await daemon.end("SIGTERM");
  // The next daemon claims the same worker ID at once, while the borrowers use up their blocks.
  await startDaemon(["--lend"]);
  await eventually(
    async () => makeHere(100),
    () => made.length > 2000,
  );
  await haveMade(holders, 2000);
  await Promise.all(holders.map((holder) => holder.ask("close")));
  expectDistinct();
});

describe("where an older copy of the registry is put back while the daemon is down, and the next one has the worker ID and fence of", () => {
  const copies = (): string[] => readdirSync(folder).filter((name) => name.startsWith("registry.db"));

  async function copy(): Promise<void> {
    await makeHere(1);
    await daemon.end("SIGTERM");
    for (const name of copies()) copyFileSync(join(folder, name), join(folder, `copy-${name}`));
    await startDaemon(["--lend"]);
  }

  /** Replaces the registry with the copy without its holders noticing, then lends. */
  async function putBack(): Promise<void> {
    const states = await Promise.all(holders.map((holder) => holder.ask("state")));
    for (const holder of holders) holder.signal("SIGSTOP");
    await daemon.end("SIGKILL");
    // Writes into the same file: on some systems the registry detects another file by its inode.
    for (const name of copies()) if (name !== "registry.db") rmSync(join(folder, name));
    for (const name of readdirSync(folder)) {
      if (name.startsWith("copy-")) copyFileSync(join(folder, name), join(folder, name.slice("copy-".length)));
    }
    await startDaemon(["--lend"]);
    const { answer } = await askDaemon("POST", "leases", { now: Date.now(), shared: true });
    for (const { workerId, fence } of states) expect(answer).toMatchObject({ workerId, fence });
    for (const holder of holders) holder.signal("SIGCONT");
  }

  async function expectTold(): Promise<void> {
    const states = await eventually(
      () => Promise.all(holders.map((holder) => holder.ask("state"))),
      (states) => states.every(({ events }) => events.some(({ name }) => name === "lost")),
    );
    for (const { events } of states) {
      const lost = events.find(({ name }) => name === "lost");
      expect(lost).toMatchObject({ reason: "forgotten", doubt: expect.anything() });
    }
  }

  test("borrowers: they lose their shares, and report it", async () => {
    await copy();
    await runAll(3);
    await haveMade(holders, 100);
    await putBack();
    await expectTold();
  });

  test("a holder with a lease of its own: it is not a borrower, loses its lease, and its receipt begins a quarantine", async () => {
    await copy();
    const holder = start({ registry: `unix:${socket()}`, onLost: "stop", window: 20_000 });
    await holder.ask("start");
    await putBack();
    await expectTold();
    const { answer } = await askDaemon("POST", "leases", { now: Date.now() });
    expect(answer.code).toBe("QUARANTINE");
  });
});

test("a client that does not ask for a share gets a worker ID of its own", async () => {
  const borrower = await start().ask("start");
  const { answer } = await askDaemon("POST", "leases", { now: Date.now() });
  expect(answer.shared).toBeUndefined();
  expect(answer.workerId).not.toBe(borrower.workerId);
  const alone = await start({ registry: `unix:${socket()}` }).ask("start");
  expect(new Set([borrower.workerId, answer.workerId, alone.workerId]).size).toBe(3);
  // Neither they nor borrowers learn the registry's file.
  expect(answer.file).toBeUndefined();
  const { answer: lent } = await askDaemon("POST", "leases", { now: Date.now(), shared: true });
  expect(lent).toMatchObject({ shared: true, workerId: borrower.workerId, fence: borrower.fence });
  expect(lent.file).toBeUndefined();
});

test("neither a wrong token nor the right one renews or ends the lease of the daemon", async () => {
  const borrower = start();
  const { workerId, fence } = await borrower.ask("start");
  const { answer } = await askDaemon("POST", "leases", { now: Date.now(), shared: true });
  const own = { token: answer.token, fence, now: Date.now() };
  expect(await askDaemon("DELETE", `leases/${workerId}`, own)).toMatchObject({ status: 204 });
  expect(await askDaemon("DELETE", `leases/${workerId}`, { ...own, until: Date.now() })).toMatchObject({ status: 204 });
  const blocks = { first: 1, spans: 1, blocks: 1, held: 0, fence, token: "0".repeat(32) };
  expect(await askDaemon("POST", `leases/${workerId}/blocks`, blocks)).toMatchObject({ status: 410 });
  await borrower.ask("run");
  await haveMade([borrower], 500);
  expect(await borrower.ask("state")).toMatchObject({ workerId, fence, state: "held" });
  expect(daemon.log).not.toContain('"event":"released"');
});

test("a daemon that lends nothing refuses borrowers and keeps no worker ID for them; a daemon refuses one process more than its limit", async () => {
  await Promise.all(Array.from({ length: 24 }, () => start().ask("start")));
  const late = start({ claimTimeout: 0 });
  await expect(late.ask("start")).rejects.toMatchObject({
    code: "RATE_LIMITED",
    details: { retryAfterMs: expect.any(Number) as number },
  });
  await daemon.end("SIGTERM");
  await startDaemon([]);
  const borrower = start({ claimTimeout: 0 });
  await expect(borrower.ask("start")).rejects.toMatchObject({
    code: "CONFIG_INVALID",
    message: expect.stringContaining("--lend"),
  });
  const { answer } = await askDaemon("POST", "ids", { count: 1 });
  made.push(...(answer.ids ?? []).map(BigInt));
  expectDistinct();
});

test.each([
  ["assign", "--once"],
  ["exec", "--", "true"],
])("`snowlease %s` shares no worker ID: its programs would use all of it", async (...args) => {
  const { code, stdout, stderr } = await new Sandbox().run(args, {
    env: { SNOWLEASE_REGISTRY: `unix:${socket()}?borrow=true` },
  });
  expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
  expect(stderr).toMatch(/^snowlease: CONFIG_INVALID: Expected no `borrow`/);
});

test("`snowlease id` borrows, and metrics tell how many processes do", async () => {
  const env = { SNOWLEASE_REGISTRY: `unix:${socket()}?borrow=true`, SNOWLEASE_NAMESPACE: namespace };
  const { code, stdout } = await new Sandbox().run(["id", "--count", "3"], { env });
  expect(code).toBe(0);
  made.push(...stdout.trim().split("\n").map(BigInt));
  const { workerId } = await start().ask("start");
  await makeHere(10);
  expect(workersOf(made)).toEqual(new Set([workerId]));
  expectDistinct();
  const metrics = await (await fetch(`${daemon.url}/metrics`)).text();
  expect(metrics).toMatch(/^snowlease_borrowers\{namespace="orders"\} 1$/m);
});

test("borrowers go on when a daemon that lends nothing was in the place of their lender for a while", async () => {
  const borrower = start();
  await borrower.ask("start");
  await borrower.ask("run");
  await daemon.end("SIGTERM");
  await startDaemon([]);
  await eventually(
    () => borrower.ask("state"),
    ({ events }) => events.some(({ name }) => name === "lost"),
  );
  // Asked more than once.
  await sleep(1500);
  expect((await borrower.ask("state")).state).toBe("switching");
  await daemon.end("SIGTERM");
  await startDaemon(["--lend"]);
  await eventually(async () => [await borrower.ask("state")], areOnTheNext);
  await borrower.ask("close");
  expectDistinct();
});

test("a borrower's claim makes a namespace with its own layout, and is told when to renew in its lender's window", async () => {
  const claim = async (name: string, body: object): Promise<Answer> => {
    const response = await fetch(`${daemon.url}/v1/${name}/leases`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ now: Date.now(), shared: true, ...body }),
    });
    return (await response.json()) as Answer;
  };
  const { layout, until = 0, clock = 0, renewAfterMs } = await claim("fresh", { layout: "twitter", windowMs: 100_000 });
  expect(layout).toMatch(/^timestamp:41,datacenter:5/);
  expect(renewAfterMs).toBeLessThanOrEqual((until - clock) / 3);
  const other = await claim("fresh", { layout: "westid" });
  expect(other.code).toBe("LAYOUT_MISMATCH");
});

test("processes share a worker ID of a layout with few sequences", async () => {
  const layout = "timestamp:41,worker:10,sequence:3@1490346283706";
  const two = [start({ layout }), start({ layout })];
  const [one, other] = await Promise.all(two.map((holder) => holder.ask("start")));
  expect(one?.workerId).toBe(other?.workerId);
  await Promise.all(two.map((holder) => holder.ask("run")));
  await haveMade(two, 200);
  await Promise.all(two.map((holder) => holder.ask("close")));
  expectDistinct();
});

test("an operator's release is told to the borrowers as one, and a share that was given back in doubt of nothing", async () => {
  const borrower = start();
  const { workerId } = await borrower.ask("start");
  await borrower.ask("run");
  await haveMade([borrower], 100);
  const { answer } = await askDaemon("POST", "leases", { now: Date.now(), shared: true });
  const own = { token: answer.token, fence: answer.fence, now: Date.now() };
  expect(await askDaemon("POST", `leases/${workerId}/release`, own)).toMatchObject({ status: 204 });
  const again = await askDaemon("PATCH", `leases/${workerId}`, own);
  expect(again).toMatchObject({ status: 410, answer: { details: { reason: "released" } } });
  expect(again.answer.details?.doubt).toBeUndefined();
  expect(await askDaemon("POST", `workers/${workerId}/release`, { force: true })).toMatchObject({ status: 200 });
  const { events } = await eventually(
    () => borrower.ask("state"),
    (state) => areOnTheNext([state]),
  );
  expect(events.find(({ name }) => name === "lost")).toMatchObject({ reason: "released" });
  await borrower.ask("close");
  expectDistinct();
});

test("a registry in memory is not lent: the next daemon would grant the times that borrowers still use", async () => {
  const refused = startDaemonProcess("memory:", 0, ["--lend"]);
  await expect(refused).rejects.toThrow(/Expected `lend` only with a registry that outlives the daemon/);
});
