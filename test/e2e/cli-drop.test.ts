import { beforeEach, expect, test } from "vitest";
import { isTrialName } from "../../src/rule/drop.ts";
import { eventually } from "../support/holder.ts";
import { Sandbox } from "../support/cli.ts";

let sandbox: Sandbox;
beforeEach(() => {
  sandbox = new Sandbox();
});

const at = (namespace: string): string[] => ["--namespace", namespace, "--registry", sandbox.registry];
const drop = (...names: string[]) => sandbox.run(["drop", ...names, "--registry", sandbox.registry]);
const make = (namespace: string): Promise<string> => sandbox.read(["init", "--max-clock-skew", "1s", ...at(namespace)]);

test("a namespace is dropped once no window of it is open, and a new one in its place begins in quarantine", async () => {
  await make("orders");
  await make("stock");
  await sandbox.read(["assign", "--window", "2s", ...at("orders")]);
  const held = await drop("orders");
  expect(held).toMatchObject({ code: 3, stdout: "" });
  expect(held.stderr).toMatch(
    /^snowlease: WORKER_ID_HELD: [^\n]*orders[^\n]*worker 0 of [^\n]+ has a window until [^\n]+\n$/,
  );
  await sandbox.read(["pin", "9", "--reason", "kept", ...at("orders")]);
  const pinned = await eventually(
    () => drop("orders"),
    ({ stderr }) => stderr.includes("is pinned (kept)"),
  );
  expect(pinned).toMatchObject({ code: 3, stdout: "" });
  await sandbox.read(["unpin", "9", ...at("orders")]);

  const dropped = await drop("orders");
  expect(dropped.stdout).toMatch(
    /^Dropped namespace orders\. A namespace of this name grants nothing before \S+Z\.\n$/,
  );
  expect(await drop("orders")).toMatchObject({ code: 2, stdout: "" });
  expect(await sandbox.read(["workers", ...at("stock")])).toBe("No worker ID.\n");
  const again = await sandbox.run(["id", ...at("orders")]);
  expect(again).toMatchObject({ code: 5, stdout: "" });
  expect(again.stderr).toMatch(/^snowlease: QUARANTINE/);
  const other = await sandbox.run(["init", "--layout", "twitter", ...at("orders")]);
  expect(other).toMatchObject({ code: 7, stdout: "" });
});

test("a trial's namespace is dropped with all its content, and its name is like new", async () => {
  const trial = "snowlease_proof_abcd1234";
  expect([trial, "snowlease_proof_orders", "orders"].map(isTrialName)).toEqual([true, false, false]);
  await make(trial);
  await sandbox.read(["assign", ...at(trial)]);
  for (let i = 0; i < 2; i++) {
    expect((await drop(trial)).stdout).toBe(`Dropped the trial's namespace ${trial}.\n`);
  }
  await sandbox.read(["init", "--new", ...at(trial)]);
  await sandbox.read(["id", ...at(trial)]);
});
