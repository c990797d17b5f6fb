import { beforeEach, describe, expect, test } from "vitest";
import { type CliProcess, Sandbox } from "../support/cli.ts";
import { startDaemonProcess } from "../support/daemon-process.ts";
import { expectAudited, startExample } from "../support/examples.ts";

const frameworks = ["express.mjs", "fastify.mjs", "hono.mjs", "nest/main.ts"];
/** Those that keep the headers of an error. */
const keepHeaders = frameworks.slice(0, 3);

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
  // A connection for each: those of a cluster's workers are dealt out as they come.
  const headers = { connection: "close" };
  const response = await fetch(`${url}/orders`, { method: "POST", headers, signal: signal ?? null });
  expect(response.status).toBe(201);
  return (await response.json()) as { id: string; pid?: number };
}

/** So many orders of each service, all at once. */
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
    expect((await fetch(`${other.url}/ready`)).status).toBe(200);
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

test("a service whose registry is gone serves to the end of its window, and says 503 then", async () => {
  const daemon = await startDaemonProcess(sandbox.registry);
  const services = await Promise.all(frameworks.map((name) => start(name, `${daemon.url}?window=2s`)));
  const ids = await orderAll(services, 10);
  await daemon.end("SIGKILL");
  const refusals = services.map(async ({ url }) => {
    for (;;) {
      const response = await fetch(`${url}/orders`, { method: "POST" });
      if (!response.ok) return [response.status, response.headers.get("retry-after")];
      const { id } = (await response.json()) as { id: string };
      ids.push(id);
    }
  });
  expect(await Promise.all(refusals)).toEqual(frameworks.map((name) => [503, keepHeaders.includes(name) ? "1" : null]));
  for (const { url } of services) expect((await fetch(`${url}/ready`)).status).toBe(503);
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
      // A connection that was dealt to the one that died is nobody's.
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
