import { spawn } from "node:child_process";
import { once } from "node:events";
import { join, resolve } from "node:path";
import { beforeEach, describe, expect, test } from "vitest";
import { nemesis } from "../../src/conformance.ts";
import { isTrialName } from "../../src/rule/drop.ts";
import { fakeClock, memoryRegistry } from "../../src/testing.ts";
import { defaultLayout } from "../../src/id/layout.ts";
import { sqliteRegistry } from "../../src/registries/sqlite/registry.ts";
import { guarded } from "../../src/proof/guard.ts";
import { mostNamespaces } from "../../src/proof/prove.ts";
import { Sandbox } from "../support/cli.ts";
import { eventually, withoutSnowlease } from "../support/holder.ts";

let sandbox: Sandbox;
beforeEach(() => {
  sandbox = new Sandbox();
});

/** The names of all namespaces in the registry's file. */
async function namespaces(run: string): Promise<string[]> {
  const path = join(sandbox.work, "registry.db");
  const registry = await sqliteRegistry({ path, operationTimeout: 5000 });
  const names = Array.from(
    { length: mostNamespaces },
    (_, i) => `snowlease_proof_${run}${i.toString(36).padStart(3, "0")}`,
  );
  const found = await Promise.all(names.map((name) => registry.describe(name)));
  await registry.close();
  return names.filter((_, i) => found[i] !== undefined);
}

/** Begins a proof. Resolves once it has printed its name and made a namespace; then the test stops it. */
async function begun(): Promise<{ readonly run: string; readonly child: ReturnType<typeof spawn>; text(): string }> {
  await sandbox.read(["init", "--registry", sandbox.registry]);
  const program = resolve("dist/cli/main.js");
  const child = spawn(process.execPath, [program, "prove", "--registry", sandbox.registry, "--minutes", "1"], {
    cwd: sandbox.work,
    env: withoutSnowlease(),
    stdio: ["ignore", "pipe", "pipe"],
  });
  let text = "";
  child.stdout?.on("data", (part: Buffer) => (text += part.toString()));
  const run = await eventually(
    async () => /^run +(\w{5}):/m.exec(text)?.[1] ?? "",
    (name) => name !== "",
  );
  // It makes and drops one after the other: the test stops it while there is one.
  await eventually(
    async () => {
      child.kill("SIGSTOP");
      const found = await namespaces(run);
      if (found.length === 0) child.kill("SIGCONT");
      return found;
    },
    (found) => found.length > 0,
  );
  return { run, child, text: () => text };
}

describe("snowlease prove", () => {
  test("drops its namespaces on SIGINT, and reports that it was ended", async () => {
    const { run, child, text } = await begun();
    child.kill("SIGINT");
    child.kill("SIGCONT");
    const [code] = (await once(child, "close")) as [number];
    expect(code).toBe(130);
    expect(text()).toContain("left        nothing: each namespace was dropped");
    expect(await namespaces(run)).toEqual([]);
  });

  test("leaves namespaces behind when it is killed, and a command drops them", async () => {
    let run: string;
    // A killed run may already have its last drop in SQLite's log: the next process that opens the file reads it there.
    do {
      const proof = await begun();
      ({ run } = proof);
      proof.child.kill("SIGKILL");
      await once(proof.child, "close");
    } while ((await namespaces(run)).length === 0);
    const args = ["prove", "--drop", run, "--registry", sandbox.registry];
    expect(await sandbox.read(args)).toMatch(
      new RegExp(`^Nothing of the run ${run} is left; of its namespaces, [1-9]\\d* still existed\\.\n$`),
    );
    expect(await namespaces(run)).toEqual([]);
    expect(await sandbox.read(args)).toContain("of its namespaces, 0 still existed");
  });

  test.each([
    ["a registry of one process", ["--registry", "memory:"], "one that several processes share"],
    ["a longer nemesis", ["--registry", "sqlite:./r.db", "--minutes", "61"], "--minutes"],
    ["another name", ["--registry", "sqlite:./r.db", "--drop", "orders"], "the name of a run"],
  ])("refuses %s", async (_, args, message) => {
    const result = await sandbox.run(["prove", ...args]);
    expect(result).toMatchObject({ code: 2, stdout: "" });
    expect(result.stderr).toContain(message);
  });
});

describe("a proof", () => {
  test("touches only the namespaces of trials, and no setting of the store", async () => {
    const clock = fakeClock();
    const trail = { calls: 0, namespaces: new Set<string>(), hasEnded: false };
    const registry = guarded({ ...memoryRegistry({ clock }), acceptClock: async () => ({ by: 0 }) }, trail);
    const layout = defaultLayout.fingerprint;
    await expect(registry.init({ namespace: "orders", layout })).rejects.toMatchObject({ code: "CONFIG_INVALID" });
    for (const call of [registry.workers("orders"), registry.prune("orders", 0), registry.pin("orders", 1, "x")]) {
      await expect(call).rejects.toMatchObject({ code: "CONFIG_INVALID" });
    }
    expect([registry.acceptClock, registry.verify]).toEqual([undefined, undefined]);
    const namespace = "snowlease_proof_abcde000";
    expect(isTrialName(namespace)).toBe(true);
    await registry.init({ namespace, layout });
    expect([...trail.namespaces]).toEqual([namespace]);
    trail.hasEnded = true;
    await expect(registry.describe(namespace)).rejects.toMatchObject({ code: "CONFIG_INVALID" });
    await registry.dropNamespace?.({ namespace, id: "", final: true });
  });

  test("finds holders that share no registry", async () => {
    const registry = memoryRegistry();
    const namespace = "snowlease_proof_abcde000";
    await registry.init({ namespace, layout: defaultLayout.fingerprint });
    const report = await nemesis({ url: "memory:", namespace, registry }, { minutes: 0.02, seed: 1 });
    expect(report.flaws.join()).toMatch(/IDs came twice/);
  });
});
