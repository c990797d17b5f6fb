import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { claimRequest, granted } from "../support/claims.ts";
import { defaultLayout } from "../../src/id/layout.ts";
import { Kubernetes, kubernetesMissing, openKubernetes } from "../support/kubernetes.ts";

/** No window passes while a test runs. */
const window = 600_000;

describe.skipIf(kubernetesMissing !== undefined)(kubernetesMissing ?? "claims at once", { timeout: 600_000 }, () => {
  let server: Kubernetes;
  beforeAll(async () => {
    server = await Kubernetes.start();
    const registry = await openKubernetes(server.url(), 60_000);
    await registry.init({ namespace: "orders", layout: defaultLayout.fingerprint, maxWindow: window, new: true });
    await registry.close();
  }, 1_200_000);
  afterAll(() => server.remove());

  /** Lets four processes claim 50 worker IDs each at the same moment; what each got. */
  async function storm(): Promise<(number | string)[]> {
    const script = join(import.meta.dirname, "../support/claimers.mjs");
    const made: ChildProcess[] = Array.from({ length: 4 }, (_, i) =>
      fork(script, [server.url(), `host-${i}`, "50", "60000", String(window)]),
    );
    onTestFinished(() => made.forEach((child) => child.kill("SIGKILL")));
    await Promise.all(made.map((child) => once(child, "message")));
    const answers = made.map((child) => {
      const died = once(child, "exit").then(() => Promise.reject(new Error("a claimer ended without an answer")));
      return Promise.race([once(child, "message"), died]);
    });
    for (const child of made) child.send("go");
    const told = (await Promise.all(answers)) as [{ workerIds: (number | string)[] }][];
    return told.flatMap(([{ workerIds }]) => workerIds);
  }

  test("200 from four processes get 200 worker IDs, and 200 again where all but 200 are taken", async () => {
    const ids = await storm();
    expect(ids.filter((id) => typeof id !== "number")).toEqual([]);
    expect(new Set(ids).size).toBe(200);
    // 624 more: 200 of 1,024 are left.
    const registry = await openKubernetes(server.url(), 60_000);
    onTestFinished(() => registry.close());
    const all: (number | string)[] = [...ids];
    for (let i = 0; i < 624; i += 48) {
      const some = Array.from({ length: 48 }, (_, n) => {
        const holder = { host: `host-${i + n}`, ip: "", pid: 1, instance: "" };
        return granted(registry, claimRequest({ holder, window }));
      });
      all.push(...(await Promise.all(some)).map(({ workerId }) => workerId));
    }
    expect(new Set(all).size).toBe(824);
    const last = await storm();
    expect(last.filter((id) => typeof id !== "number")).toEqual([]);
    expect(new Set([...all, ...last]).size).toBe(1024);
  });
});
