import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { spawn } from "node:child_process";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeEach, expect, onTestFinished, test } from "vitest";
import { type Daemon, startDaemon } from "../../src/daemon.ts";
import { layouts } from "../../src/id/layout.ts";
import { shellQuoted } from "../../src/http/dashboard/commands.ts";
import { memoryRegistry } from "../../src/testing.ts";
import type { Registry } from "../../src/rule/registry.ts";
import { cliFile, Sandbox } from "../support/cli.ts";

let registry: Registry;
let daemon: Daemon;
let sandbox: Sandbox;
beforeEach(async () => {
  registry = memoryRegistry();
  sandbox = new Sandbox();
  const log = { info() {}, warn() {}, error() {} };
  daemon = await startDaemon({ registry, listen: { host: "127.0.0.1", port: 0 }, log });
  onTestFinished(() => daemon.close("now"));
});

let claims = 0;
async function claim(window: number): Promise<number> {
  const { pool, fingerprint: layout } = layouts.westid;
  const token = (++claims).toString(16).padStart(32, "0");
  const holder = { host: "$(reboot)`'\u001b[1m", ip: "192.0.2.1", pid: 1, instance: "; rm -rf /" };
  const request = { namespace: "orders", token, pool, layout, window, limits: { maxWindow: 600_000 }, holder };
  const grant = await registry.claim({ ...request, clock: Date.now() });
  if (grant.outcome !== "granted") throw new Error(grant.outcome);
  return grant.workerId;
}

/** The commands that the page of a worker ID offers. */
async function offered(workerId: number): Promise<string[]> {
  const page = await (await fetch(`${daemon.url}/?namespace=orders&worker=${workerId}`)).text();
  const list = /<ul class="commands">.*?<\/ul>/s.exec(page)?.[0] ?? "";
  return Array.from(list.matchAll(/<code\s*>(.*?)<\/code\s*>/gs), ([, text = ""]) =>
    text
      .replace(/<[^>]*>/g, "")
      .replace(/&#39;/g, "'")
      .replace(/&quot;/g, '"')
      .replace(/&amp;/g, "&"),
  );
}

/** Runs a command line as it is, in a shell that knows `snowlease`. */
function paste(line: string): ReturnType<Sandbox["run"]> {
  const script = `snowlease() { ${shellQuoted(process.execPath)} ${shellQuoted(cliFile)} "$@"; }\n${line}\n`;
  return sandbox.started(spawn("sh", ["-c", script], sandbox.surroundings())).ended;
}

test("the commands of the page work, pasted unchanged", async () => {
  const workerId = await claim(600_000);
  const [release = "", pin = "", ...more] = await offered(workerId);
  expect(more).toEqual([]);
  expect(release).toBe(`snowlease release 0 --force --fence 1 --namespace orders --registry ${daemon.url}`);
  expect(await paste(release)).toMatchObject({ code: 0, stderr: "" });
  expect(await registry.worker("orders", workerId)).toMatchObject({ state: "resting" });
  // The claim is over: a second release would do nothing.
  expect(await offered(workerId)).toEqual([pin]);
  expect(await paste(pin)).toMatchObject({ code: 0, stderr: "" });
  expect(await registry.worker("orders", workerId)).toMatchObject({ pinned: "kept out by an operator" });
  const [unpin = "", ...others] = await offered(workerId);
  expect(others).toEqual([]);
  expect(await paste(unpin)).toMatchObject({ code: 0, stderr: "" });
  expect((await registry.worker("orders", workerId))?.pinned).toBeUndefined();
});

test("a claim without a give-back is ended without force, and an unused worker ID is pinned", async () => {
  const workerId = await claim(1);
  const [release = ""] = await offered(workerId);
  expect(release).toBe(`snowlease release 0 --fence 1 --namespace orders --registry ${daemon.url}`);
  expect(await paste(release)).toMatchObject({ code: 0, stderr: "" });
  const [pin = "", ...more] = await offered(77);
  expect(more).toEqual([]);
  expect(await paste(pin)).toMatchObject({ code: 0, stderr: "" });
  expect(await registry.worker("orders", 77)).toMatchObject({ state: "pinned" });
});

test("a command that is pasted again, later, leaves a later claim alone", async () => {
  const workerId = await claim(1);
  const [release = ""] = await offered(workerId);
  const forced = release.replace("--fence", "--force --fence");
  expect(await paste(forced)).toMatchObject({ code: 0, stderr: "" });
  expect(await claim(600_000)).toBe(workerId);
  expect(await paste(forced)).toMatchObject({ code: 3, stderr: expect.stringContaining("in the meantime") as string });
  expect(await registry.worker("orders", workerId)).toMatchObject({ state: "live", fence: 2 });
});

test("quoted text is one word of a shell, whatever is in it", async () => {
  const folder = mkdtempSync(join(tmpdir(), "snowlease-quoted-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const words = [
    "plain",
    "http://[::1]:7070",
    "",
    "it's",
    'a "b" $HOME `id` $(id)',
    "a\\b",
    "x;y&z|*?~#!",
    "line\nline",
    "é",
  ];
  writeFileSync(join(folder, "words.sh"), `printf '%s\\0' ${words.map(shellQuoted).join(" ")}`);
  const { stdout } = await sandbox.started(spawn("sh", [join(folder, "words.sh")], sandbox.surroundings())).ended;
  expect(stdout.split("\0").slice(0, -1)).toEqual(words);
});
