import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { Sandbox } from "../support/cli.ts";
import { expectAudited, startExample } from "../support/examples.ts";

test("a service gives its worker ID back before a snapshot, and goes on after it with one of its own", async () => {
  const sandbox = new Sandbox();
  const { registry } = sandbox;
  const process = startExample(sandbox, "snapshot.mjs", [], { SNOWLEASE_REGISTRY: registry, PORT: "0" });
  const url = await process.line();

  const ids: string[] = [];
  const post = async (path: string): Promise<{ status: number; body: Record<string, unknown> }> => {
    const response = await fetch(url + path, { method: "POST", headers: { connection: "close" } });
    return { status: response.status, body: (await response.json()) as Record<string, unknown> };
  };
  const order = async (): Promise<void> => {
    const { status, body } = await post("/orders");
    expect(status).toBe(201);
    ids.push(String(body["id"]));
  };
  const states = async (): Promise<readonly { workerId: number; state: string; clean: boolean }[]> =>
    JSON.parse(await sandbox.read(["workers", "--json", "--registry", registry])) as [];

  await Promise.all(Array.from({ length: 50 }, order));
  const [before] = await states();
  expect(before).toMatchObject({ state: "live" });

  expect(await post("/before-snapshot")).toEqual({ status: 200, body: { state: "suspended" } });
  // A hook may be called again.
  expect(await post("/before-snapshot")).toEqual({ status: 200, body: { state: "suspended" } });
  expect(await states()).toMatchObject([{ clean: true, workerId: before?.workerId }]);
  expect((await states()).map(({ state }) => state)).not.toContain("live");
  // Another process, like a copy, has the worker ID meanwhile.
  const workerId = String(before?.workerId);
  ids.push(
    ...(await sandbox.read(["id", "-n", "50", "--worker-id", workerId, "--registry", registry])).trim().split("\n"),
  );

  const made = ids.length;
  const waiting = Promise.all(Array.from({ length: 20 }, order));
  await sleep(100);
  expect(ids).toHaveLength(made);
  expect(await post("/after-restore")).toMatchObject({ status: 200, body: { state: "held" } });
  await waiting;
  await Promise.all(Array.from({ length: 50 }, order));
  expect((await post("/nothing")).status).toBe(404);

  process.signal("SIGTERM");
  expect(await process.ended).toMatchObject({ code: 0, stderr: "" });
  expect(ids).toHaveLength(170);
  await expectAudited(sandbox, registry, ids);
});

test("requests between the hooks are refused after a long wait", async () => {
  const sandbox = new Sandbox();
  const env = { SNOWLEASE_REGISTRY: sandbox.registry, PORT: "0" };
  const process = startExample(sandbox, "snapshot.mjs", [], env);
  const url = await process.line();
  await fetch(`${url}/before-snapshot`, { method: "POST" });
  const response = await fetch(`${url}/orders`, { method: "POST" });
  expect([response.status, await response.json()]).toEqual([503, { code: "LEASE_EXPIRED" }]);
  process.signal("SIGTERM");
  expect(await process.ended).toMatchObject({ code: 0, stderr: "" });
});
