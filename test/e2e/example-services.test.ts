import { beforeEach, describe, expect, test, vi } from "vitest";
import { type CliProcess, Sandbox } from "../support/cli.ts";
import { startDaemonProcess } from "../support/daemon-process.ts";
import { expectAudited, startExample } from "../support/examples.ts";

const frameworks = ["express.mjs", "fastify.mjs", "hono.mjs"];

let sandbox: Sandbox;
beforeEach(() => {
  sandbox = new Sandbox();
});

interface Service {
  readonly url: string;
  readonly process: CliProcess;
}

async function start(name: string, registry = sandbox.registry, ...args: string[]): Promise<Service> {
  const process = startExample(sandbox, name, args, { SNOWLEASE_REGISTRY: registry, PORT: "0" });
  return { process, url: await process.line() };
}

async function order({ url }: Service, signal?: AbortSignal): Promise<{ readonly id: string; readonly pid?: number }> {
  // A connection for each: a cluster deals out connections to its workers as they come.
  const headers = { connection: "close" };
  const response = await fetch(`${url}/orders`, { method: "POST", headers, signal: signal ?? null });
  expect(response.status).toBe(201);
  return (await response.json()) as { id: string; pid?: number };
}

/** How many orders each service gets, all at once. */
async function orderAll(services: readonly Service[], count: number): Promise<string[]> {
  const all = services.flatMap((service) => Array.from({ length: count }, () => order(service)));
  return (await Promise.all(all)).map(({ id }) => id);
}

async function stop({ process }: Service): Promise<void> {
  process.signal("SIGTERM");
  expect(await process.ended).toMatchObject({ code: 0, stderr: "" });
}

async function states(): Promise<{ readonly workerId: number; readonly clean: boolean }[]> {
  return JSON.parse(await sandbox.read(["workers", "--json", "--registry", sandbox.registry])) as [];
}

describe.each(frameworks)("%s", (name) => {
  test("two instances, one of them killed with -9 and replaced, make no ID twice; SIGTERM gives a worker ID back", async () => {
    const [killed, other] = await Promise.all([start(name), start(name)]);
    const ids = await orderAll([killed, other], 100);
    const last = orderAll([other], 50);
    await killed.process.kill();
    const next = await start(name);
    ids.push(...(await last), ...(await orderAll([other, next], 100)));
    expect(ids).toHaveLength(450);
    await stop(other);
    await stop(next);
    expect((await states()).filter(({ clean }) => clean)).toHaveLength(2);
    await expectAudited(sandbox, sandbox.registry, ids);
  });
});

test("metrics.mjs is ready and counts events, to the end of its window", async () => {
  const daemon = await startDaemonProcess(sandbox.registry);
  const service = await start("metrics.mjs", `${daemon.url}?window=3s`);
  const statusOf = async (path: string): Promise<number> => (await fetch(`${service.url}${path}`)).status;
  const figure = async (line: string): Promise<number> => {
    const text = await (await fetch(`${service.url}/metrics`)).text();
    return Number(text.split(`\n${line} `)[1]?.split("\n")[0]);
  };
  expect([await statusOf("/readyz"), await statusOf("/")]).toEqual([200, 404]);
  const happens = (event: string): Promise<boolean> =>
    vi.waitUntil(async () => (await figure(`ids_lease_events_total{event="${event}"}`)) > 0, { timeout: 60_000 });
  await happens("renewed");
  expect(await figure("ids_window_seconds")).toBeGreaterThan(0);
  await daemon.end("SIGKILL");
  await vi.waitUntil(async () => (await statusOf("/readyz")) === 503, { timeout: 60_000 });
  expect(await figure("ids_window_seconds")).toBe(0);
  await happens("renew-failed");
  // Without the daemon, the worker ID cannot be given back.
  service.process.signal("SIGTERM");
  expect((await service.process.ended).code).not.toBe(0);
});

test("a service without its registry serves to the end of its window, and then answers 503", async () => {
  const daemon = await startDaemonProcess(sandbox.registry);
  const services = await Promise.all(frameworks.map((name) => start(name, `${daemon.url}?window=2s`)));
  const ids = await orderAll(services, 10);
  await daemon.end("SIGKILL");
  const refusals = services.map(async ({ url }) => {
    for (;;) {
      const response = await fetch(`${url}/orders`, { method: "POST" });
      const { id, code } = (await response.json()) as { id?: string; code?: string };
      if (id === undefined)
        return { status: response.status, code, waits: Number(response.headers.get("retry-after")) };
      ids.push(id);
    }
  });
  const refusal = { status: 503, code: "LEASE_EXPIRED", waits: expect.any(Number) as number };
  expect(await Promise.all(refusals)).toEqual(frameworks.map(() => refusal));
  await expectAudited(sandbox, sandbox.registry, ids);
});

test("a service whose worker ID is taken away for good ends with 1", async () => {
  const services = await Promise.all(
    frameworks.map((name, i) => start(name, `${sandbox.registry}?onLost=stop&window=3s&pool=${i}-${i}`)),
  );
  for (const { workerId } of await states())
    await sandbox.read(["release", String(workerId), "--force", "--registry", sandbox.registry]);
  // The next renewal tells them.
  for (const { process } of services) expect(await process.ended).toMatchObject({ code: 1, stderr: "" });
});

test("cluster.mjs: workers on one worker ID, one of them killed with -9 and replaced, make no ID twice", async () => {
  const service = await start("cluster.mjs", sandbox.registry, "2");
  const ids: string[] = [];
  const pids = new Set<number>();
  const orderUntil = async (count: number): Promise<void> => {
    while (pids.size < count) {
      // A connection that was dealt to the killed worker gets no answer.
      const made = await order(service, AbortSignal.timeout(1000)).catch(() => undefined);
      if (made === undefined) continue;
      ids.push(made.id);
      pids.add(made.pid ?? 0);
    }
  };
  await orderUntil(2);
  const [killed = 0] = pids;
  process.kill(killed, "SIGKILL");
  await orderUntil(3);
  ids.push(...(await orderAll([service], 100)));
  await stop(service);
  expect(await states()).toEqual([expect.objectContaining({ workerId: 0 })]);
  await expectAudited(sandbox, sandbox.registry, ids);
});
