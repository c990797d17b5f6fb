import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { beforeEach, expect, test } from "vitest";
import { defaultLayout } from "../../src/id/layout.ts";
import type { Registry } from "../../src/rule/registry.ts";
import { sqliteRegistry } from "../../src/registries/sqlite/registry.ts";
import { Sandbox } from "../support/cli.ts";
import { beginQuarantine } from "../support/quarantine.ts";

interface Report {
  readonly id: string;
  readonly era: string;
  readonly clock: number;
  readonly hostClock: number;
  readonly quarantineEnd?: number;
  readonly quarantineUntil?: number;
  readonly remainingMs: number;
}

const skew = 1000;

let sandbox: Sandbox;
/** Of the registry, or of a daemon on it. */
let url: string;
beforeEach(async () => {
  sandbox = new Sandbox();
  url = sandbox.registry;
  await sandbox.read(["init", "--registry", sandbox.registry, "--max-clock-skew", `${skew}ms`]);
});

const on = (...args: string[]): string[] => [...args, "--registry", url];
const report = async (...args: string[]): Promise<Report> => {
  const [only, ...others] = JSON.parse(await sandbox.read(on("quarantine", ...args, "--json"))) as [Report];
  expect(others).toEqual([]);
  return only;
};
const look = (): Promise<Report> => report();

const openFile = (): Promise<Registry> =>
  sqliteRegistry({ path: join(sandbox.work, "registry.db"), operationTimeout: 5000 });

/** An older copy of the registry is put back, and a holder that lived through it renews. */
async function putBack(): Promise<void> {
  const registry = await openFile();
  await beginQuarantine(registry, "default");
  await registry.close();
}

test("a namespace without a quarantine is shown with its era and both clocks", async () => {
  const { id, era, clock, hostClock, remainingMs, ...rest } = await look();
  expect(rest).toEqual({ namespace: "default", maxClockSkew: skew });
  expect([id, era]).toEqual([expect.stringMatching(/^[\da-f]{32}$/), expect.stringMatching(/^\d+-[\da-f]+$/)]);
  expect(Math.abs(clock - hostClock)).toBeLessThan(60_000);
  expect(remainingMs).toBe(0);
  const text = await sandbox.read(on("quarantine"));
  expect(text).toMatch(new RegExp(`^ID +${id}$`, "m"));
  expect(text).toMatch(new RegExp(`^ERA +${era}$`, "m"));
  expect(text).toMatch(/^REGISTRY CLOCK +20\d\d-\S+Z$/m);
  expect(text).toMatch(/^HOST CLOCK +20\d\d-\S+Z \(.+\)$/m);
  expect(text).toMatch(/\n\nThere was no quarantine\.\n$/);
});

test.each(["embedded", "daemon"])("a quarantine is shown until an operator ends it: %s", async (kind) => {
  if (kind === "daemon") ({ url } = await sandbox.serve());
  const { era: before } = await look();
  await putBack();
  const shown = await look();
  const { era, quarantineEnd = 0, quarantineUntil, remainingMs } = shown;
  expect(era).not.toBe(before);
  expect(quarantineUntil).toBe(quarantineEnd);
  expect(remainingMs).toBe(quarantineEnd - shown.clock);
  const text = await sandbox.read(on("quarantine"));
  expect(text).toContain(`until ${new Date(quarantineEnd).toISOString()}: the store may have forgotten windows`);
  expect(text).toMatch(/In quarantine for another (?:2 min|2 min \d+ s|1 min \d+ s|1 min|\d+ s), until/);
  const command = `snowlease quarantine end --registry ${url} --namespace default --era ${era} --i-know`;
  expect(text).toContain(`has stopped, or none ever did: ${command}\n`);
  const refused = await sandbox.run(on("id", "-n", "1", "--claim-timeout", "0"));
  expect(refused).toMatchObject({ code: 5, stdout: "", stderr: expect.stringContaining("QUARANTINE") as string });
  expect(refused.stderr).not.toContain("init");
  expect(refused.stderr).toContain(command.replace(url, "URL"));

  const late = await sandbox.run(on("quarantine", "end", "--era", before, "--i-know"));
  expect(late).toMatchObject({ code: 2, stdout: "" });
  expect(late.stderr).toContain(`is in the era \`${era}\``);
  expect((await look()).quarantineUntil).toBe(quarantineEnd);

  const ended = await report("end", "--era", era, "--i-know");
  expect(ended).toMatchObject({ era, quarantineEnd });
  // No window begins before the last ms that a stopped holder may have used, with clocks as far apart as is tolerated.
  expect(ended.remainingMs).toBeLessThanOrEqual(2 * skew + 1);
  expect(await sandbox.read(on("quarantine"))).toContain(
    `An operator ended the quarantine that was to last until ${new Date(quarantineEnd).toISOString()}`,
  );
  expect(await sandbox.read(on("id", "-n", "1", "--claim-timeout", "30s"))).toMatch(/^\d+\n$/);
  // To end it once more changes nothing.
  await sandbox.read(on("quarantine", "end", "--era", era, "--i-know"));
  expect(await look()).toMatchObject({ era, quarantineEnd, remainingMs: 0 });
});

test("without the operator's word nothing is ended", async () => {
  await putBack();
  const { era, quarantineEnd } = await look();
  for (const [args, message] of [
    [
      ["end", "--era", era],
      /`--i-know`, got nothing\. It is your word that each process .+ has stopped, or that its window has passed; .+ make the same IDs\. /,
    ],
    [["end", "--i-know"], /`--era ERA`, got nothing/],
    [["--era", era, "--i-know"], /after `snowlease quarantine end` only/],
    [["stop"], /NOT_FOUND: (?!.*init).*no namespace `stop`/],
    [
      ["end", "orders", "users", "--era", era, "--i-know"],
      /one namespace after .*, got 2; .*`snowlease quarantine orders users`/,
    ],
    [["end", "Orders", "--era", era, "--i-know"], /`Orders`/],
    [["end", "--era", era, "--i-know", "--namespace", "other"], /NOT_FOUND: (?!.*init).*no namespace `other`/],
  ] as const) {
    const result = await sandbox.run(on("quarantine", ...args));
    expect(result).toMatchObject({ code: 2, stdout: "" });
    expect(result.stderr).toMatch(message);
    expect(result.stderr).toMatch(/^snowlease: [^\n]+\n$/);
  }
  expect(await look()).toMatchObject({ era, quarantineEnd, quarantineUntil: quarantineEnd });
});

test("`exec` says that the registry went back in time, and how to look for IDs that exist twice", async () => {
  const sqlite = (...args: string[]): void => void execFileSync("sqlite3", args);
  const [file, copy] = [join(sandbox.work, "registry.db"), join(sandbox.work, "copy.db")];
  sqlite(file, `.backup ${copy}`);
  const program = ["sh", "-c", "echo $SNOWLEASE_WORKER_ID; exec sleep 600"];
  const holder = sandbox.start([...on("exec", "--window", "20s"), "--", ...program]);
  const workerId = Number(await holder.line());
  // It renews only after the next claim, however busy the machine is.
  holder.signal("SIGSTOP");
  sqlite("-cmd", ".timeout 5000", file, `.restore ${copy}`);
  const registry = await openFile();
  const other = { host: "beta", ip: "192.0.2.2", pid: 1, instance: "" };
  const terms = {
    window: 60_000,
    layout: defaultLayout.fingerprint,
    pool: defaultLayout.pool,
    workerId,
    holder: other,
  };
  const request = { namespace: "default", token: "b".repeat(32), clock: Date.now(), ...terms };
  expect(await registry.claim(request)).toMatchObject({ outcome: "granted", workerId });
  await registry.close();
  holder.signal("SIGCONT");

  const { code, stderr } = await holder.ended;
  expect(stderr).toMatch(
    /^snowlease: LEASE_LOST: .* is lost: the registry went back in time .*; IDs of worker \d+ from \S+Z to \S+Z may exist twice: look for them with `snowlease audit --namespace default FILE`\.$/m,
  );
  expect(stderr).not.toContain("init");
  expect(code).toBe(4);
  expect((await look()).remainingMs).toBeGreaterThan(0);
});
