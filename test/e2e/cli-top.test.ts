import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { pino } from "pino";
import { beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { layouts } from "../../src/id/layout.ts";
import type { Registry } from "../../src/rule/registry.ts";
import { startDaemon } from "../../src/daemon.ts";
import { memoryRegistry } from "../../src/registries/memory/registry.ts";
import { sqliteRegistry } from "../../src/registries/sqlite/registry.ts";
import { Sandbox, until } from "../support/cli.ts";
import { startDaemonProcess } from "../support/daemon-process.ts";
import { Terminal } from "../support/terminal.ts";

let sandbox: Sandbox;
beforeEach(() => {
  sandbox = new Sandbox();
});

/** A process that holds a worker ID, by the name of its host. */
async function hold(host: string, window = "60s"): Promise<ReturnType<Sandbox["start"]>> {
  const holder = sandbox.start(["assign", "--registry", sandbox.registry, "--host", host, "--window", window]);
  await holder.line();
  return holder;
}

const top = (...args: string[]): string[] => ["top", "--registry", sandbox.registry, ...args];

describe("on a terminal", () => {
  test("it follows the pool, scrolls, fits every size, and leaves the terminal as it was", async () => {
    await hold("long", "120s");
    await hold("short", "30s");
    const terminal = new Terminal(sandbox, top());
    await terminal.sees(/^2 of 1024 taken/);
    expect(terminal.lines.length).toBe(30);
    const place = (host: string): number => terminal.lines.findIndex((line) => line.includes(host));
    expect(place("short")).toBeLessThan(place("long"));
    expect(terminal.lines.find((line) => /^ +0 {2}■/.test(line))).toBeDefined();
    expect(terminal.output).toContain("\u001b[36m■");

    const newcomer = await hold("newcomer");
    await terminal.sees(/Z 2 claimed newcomer/);
    newcomer.signal("SIGTERM");
    await terminal.sees(/Z 2 (?:given back|ended) newcomer/);

    for (const [columns, rows] of [
      [60, 14],
      [20, 6],
      [200, 60],
      [9, 3],
    ] as const) {
      terminal.resize(columns, rows);
      await until(() => terminal.lines.length === rows);
      expect(terminal.lines.every((line) => line.length <= columns)).toBe(true);
    }
    terminal.resize(90, 15);
    await until(() => terminal.lines.length === 15);
    await terminal.sees(/short/);
    terminal.type("\u001b[B");
    await until(() => !terminal.lines.some((line) => line.includes("short")));
    terminal.type("\u001b[A");
    await terminal.sees(/short/);
    terminal.type("q");
    expect(await terminal.ended).toMatchObject({ code: 0 });
    expect(terminal.isClean).toBe(true);
  });

  test("however it ends, it restores the terminal", async () => {
    await hold("web-1");
    const crash = join(sandbox.work, "crash.mjs");
    writeFileSync(crash, `process.on("SIGUSR2", () => { throw new Error("A bug."); });`);
    const ways: [string, (terminal: Terminal) => void, number][] = [
      ["SIGTERM", (terminal) => terminal.signal("SIGTERM"), 143],
      ["SIGINT", (terminal) => terminal.signal("SIGINT"), 130],
      ["SIGHUP", (terminal) => terminal.signal("SIGHUP"), 129],
      ["Ctrl-C", (terminal) => terminal.type("\u0003"), 130],
      ["Esc", (terminal) => terminal.type("\u001b"), 0],
      ["a crash", (terminal) => terminal.signal("SIGUSR2"), 1],
    ];
    for (const [way, end, code] of ways) {
      const terminal = new Terminal(sandbox, top(), { env: { NODE_OPTIONS: `--import=${crash}` } });
      await terminal.sees(/web-1/);
      end(terminal);
      expect({ way, code: (await terminal.ended).code, clean: terminal.isClean }).toEqual({ way, code, clean: true });
      if (code === 1)
        expect(terminal.output.slice(terminal.output.lastIndexOf("\u001b[?1049l"))).toContain("Error: A bug.");
    }
  });

  test("NO_COLOR removes the colours, and a locale without Unicode the signs", async () => {
    await hold("web-1");
    const terminal = new Terminal(sandbox, top(), { env: { NO_COLOR: "1", LANG: "C" } });
    await terminal.sees(/web-1/);
    terminal.type("q");
    await terminal.ended;
    expect(terminal.output).not.toMatch(/\u001b\[[0-9;]*m/);
    expect(terminal.output).toMatch(/ 0  #\.\.\./);
    expect(terminal.output.replaceAll("\u001b", "")).toMatch(/^[\x00-\x7e]*$/);
  });

  test("names are shown, and never obeyed", async () => {
    await hold("خادم");
    // The command line refuses such names, but they may come from elsewhere.
    const host = "\u001b[2J\u001b]0;mine\u0007\u202eevil\u009b31m";
    const registry = await sqliteRegistry({ path: join(sandbox.work, "registry.db"), operationTimeout: 5000 });
    const { pool, fingerprint: layout } = layouts.westid;
    const holder = { host, ip: host, pid: 1, instance: host };
    const terms = { pool, layout, window: 60_000, clock: Date.now(), holder, token: "1".repeat(32) };
    expect(await registry.claim({ namespace: "default", ...terms })).toMatchObject({ outcome: "granted" });
    await registry.close();
    const terminal = new Terminal(sandbox, top());
    await terminal.sees(/\?\[2J\?\]0;mine\?\?evil\?31m/);
    await terminal.sees(/خادم/);
    terminal.type("q");
    await terminal.ended;
    expect(terminal.output).not.toMatch(/\u001b\[2J|\u001b\]|\u0007|\u202e|\u009b/);
  });

  test("if its daemon goes away, it keeps the last state and says so, and goes on when the daemon is back", async () => {
    await hold("web-1");
    let daemon = await startDaemonProcess(sandbox.registry);
    try {
      const terminal = new Terminal(sandbox, ["top", "--registry", daemon.url, "--operation-timeout", "1s"]);
      await terminal.sees(/web-1/);
      await daemon.end("SIGKILL");
      await terminal.sees(/^REGISTRY_UNAVAILABLE/);
      await terminal.sees(/web-1/);
      daemon = await startDaemonProcess(sandbox.registry, daemon.port);
      await until(() => !terminal.lines.some((line) => line.startsWith("REGISTRY_UNAVAILABLE")));
      terminal.type("q");
      expect((await terminal.ended).code).toBe(0);
    } finally {
      await daemon.end();
    }
  });
});

describe("outside a terminal", () => {
  test("it prints the state once, in plain lines or as JSON", async () => {
    await hold("web-1");
    const text = await sandbox.read(top(), { env: { LANG: "C.UTF-8" } });
    expect(text).toMatch(/^Snowlease default  sqlite:/);
    expect(text).toMatch(/1 of 1024 taken.*■ 1 live.* 0 {2}■····.* 960 {2}·{64}\n.*ID +LEFT +HELD +HOST.*web-1/s);
    expect(text).not.toContain("\u001b");
    const found = JSON.parse(await sandbox.read(top("--json"))) as Record<string, unknown>;
    expect(found).toMatchObject({
      namespace: "default",
      pool: { first: 0, last: 1023 },
      counts: { live: 1, resting: 0, free: 0, pinned: 0, foreign: 0, unused: 1023 },
      holders: [{ workerId: 0, state: "live", host: "web-1" }],
    });
    expect(JSON.stringify(found)).not.toContain("token");
  });

  test("it reports that there is nothing to watch", async () => {
    expect(await sandbox.run(top())).toMatchObject({ code: 2, stdout: "" });
    await hold("web-1");
    const { code, stderr } = await sandbox.run(top("--namespace", "orders"));
    expect({ code, stderr }).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/^snowlease: NOT_FOUND: .*`orders`.*\n$/),
    });
  });
});

test("a program that reads the pool again and again leaves nothing behind on a signal, and prints nothing about it", async () => {
  let looks = 0;
  const registry = memoryRegistry();
  const counting: Registry = {
    ...registry,
    workers(...args) {
      looks++;
      return registry.workers(...args);
    },
  };
  const listen = { host: "127.0.0.1", port: 0 };
  const daemon = await startDaemon({ registry: counting, listen, log: pino({ level: "silent" }) });
  onTestFinished(() => daemon.close());
  const at = ["--registry", daemon.url ?? ""];
  await sandbox.read(["init", ...at]);
  const terminal = new Terminal(sandbox, ["top", ...at]);
  await until(() => looks > 13);
  terminal.type("q");
  expect(await terminal.ended).toMatchObject({ code: 0 });
  expect(terminal.output).not.toContain("Warning");
});
