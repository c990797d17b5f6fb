import { spawn, spawnSync } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { beforeEach, describe, expect, test } from "vitest";
import { cliFile, type CliProcess, Sandbox, withoutNotices } from "../support/cli.ts";

let sandbox: Sandbox;
beforeEach(() => {
  sandbox = new Sandbox();
});

interface Listening {
  readonly url?: string;
  readonly socket?: string;
  readonly registry: string;
  readonly pid: number;
}

async function serve(...flags: string[]): Promise<{ daemon: CliProcess; news: Listening }> {
  const daemon = sandbox.start(["daemon", "--registry", sandbox.registry, "--json", ...flags]);
  return { daemon, news: JSON.parse(await daemon.line()) as Listening };
}

async function stop(daemon: CliProcess, signal: NodeJS.Signals = "SIGTERM"): Promise<void> {
  daemon.signal(signal);
  expect(await daemon.ended).toMatchObject({ code: 0 });
}

test("a command that is given daemons of two registries is refused, where one of them has no namespace yet, too", async () => {
  const urls = await Promise.all([sandbox.serve(), new Sandbox().serve()]);
  const both = urls.map(({ url }) => url).join();
  for (const url of [both, urls[1]?.url ?? "", both]) {
    const { code, stderr } = await sandbox.run(["id", "-n", "1", "--registry", url]);
    if (url === both) expect(stderr).toMatch(/^snowlease: CONFIG_INVALID: .* are not daemons of one registry/);
    expect(code).toBe(url === both ? 2 : 0);
  }
});

describe("daemon", () => {
  test.each(["SIGTERM", "SIGINT", "SIGHUP"] as const)(
    "tells where it listens, serves, and ends at %s",
    async (signal) => {
      const { daemon, news } = await serve("--listen", "127.0.0.1:0");
      expect(news).toEqual({
        url: expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+$/) as string,
        registry: sandbox.registry,
        pid: daemon.pid,
      });
      expect((await fetch(`${news.url}/healthz`)).status).toBe(200);
      await stop(daemon, signal);
    },
  );

  test("listens on 127.0.0.1 alone, where only a port is named; 0 is a free one", async () => {
    const { daemon, news } = await serve("--listen", "0");
    const { daemon: other, news: both } = await serve("--listen=0", "--resp=0");
    for (const url of [news.url, both.url]) expect(url).toMatch(/^http:\/\/127\.0\.0\.1:[1-9]\d+$/);
    expect(both).toMatchObject({ resp: expect.stringMatching(/^redis:\/\/127\.0\.0\.1:[1-9]\d+$/) as string });
    // A port that is in use shows on which address a second daemon would listen.
    const { host, port } = new URL(news.url ?? "");
    const refused = await sandbox.run(["daemon", "--registry", sandbox.registry, "--listen", port]);
    const stderr = `snowlease: CONFIG_INVALID: Cannot listen on ${host}: it is in use; stop what listens there, or choose another.\n`;
    expect(refused).toEqual({ code: 2, stdout: "", stderr });
    await stop(other);
    await stop(daemon);
  });

  test("listens on a socket only, where only that is asked for", async () => {
    const socket = join(sandbox.work, "run", "snowlease.sock");
    const { daemon, news } = await serve("--socket", socket);
    expect(news).toEqual({ socket, registry: sandbox.registry, pid: daemon.pid });
    expect(await sandbox.read(["id", "-n", "1", "--registry", `unix:${socket}`])).toMatch(/^\d+\n$/);
    await stop(daemon);
  });

  test("gives up where another program keeps the lock of its socket new", async () => {
    const socket = join(sandbox.work, "snowlease.sock");
    const lock = `${socket}.lock`;
    const keep = setInterval(() => writeFileSync(lock, ""), 200);
    writeFileSync(lock, "");
    try {
      const { code, stderr } = await sandbox.run(["daemon", "--registry", sandbox.registry, "--socket", socket]);
      expect({ code, stderr }).toEqual({
        code: 2,
        stderr: `snowlease: CONFIG_INVALID: Cannot listen on ${socket}: another program has kept the lock ${lock} new for 10 s; end that program, or choose another path.\n`,
      });
    } finally {
      clearInterval(keep);
    }
  });

  test.skipIf(process.getuid?.() !== 0)(
    "tells a user for whom its socket is not (needs root that becomes another)",
    async () => {
      for (const folder of [sandbox.folder, sandbox.work]) chmodSync(folder, 0o755);
      const socket = join(sandbox.work, "snowlease.sock");
      const { daemon } = await serve("--socket", socket);
      const workers = [process.execPath, cliFile, "workers", "--registry", `unix:${socket}`];
      const stranger = spawn(
        "setpriv",
        ["--reuid", "65534", "--regid", "65534", "--clear-groups", ...workers],
        sandbox.surroundings(),
      );
      expect(await sandbox.started(stranger).ended).toMatchObject({
        code: 5,
        stderr: expect.stringMatching(/^snowlease: REGISTRY_UNAVAILABLE: .* EACCES .*; join the group .*\n$/) as string,
      });
      await stop(daemon);
    },
  );

  test("every command line that it says to try works", async () => {
    const daemon = sandbox.start(["daemon", "--registry", sandbox.registry, "--listen", "127.0.0.1:0"]);
    expect(await daemon.line()).toMatch(/^Snowlease serves sqlite:.* on http:\/\/127\.0\.0\.1:\d+$/);
    expect(await daemon.line()).toMatch(/^Dashboard: http:\/\/127\.0\.0\.1:\d+\/$/);
    const tries: string[] = [];
    while (!tries.at(-1)?.includes("doctor")) {
      const line = await daemon.line();
      if (line.startsWith("  ")) tries.push(line.trim());
    }
    expect(tries.length).toBeGreaterThan(5);
    for (const line of tries) {
      const { status, stdout, stderr } = spawnSync("sh", ["-c", line.replace("curl -s", "curl -sf")], {
        cwd: sandbox.work,
        encoding: "utf8",
      });
      // A host whose clock is not synchronized is warned of.
      const isFine = status === 0 || (status === 9 && line.includes("doctor"));
      expect({ line, isFine, stderr: withoutNotices(stderr) }).toEqual({ line, isFine: true, stderr: "" });
      expect(stdout).not.toBe("");
    }
    await stop(daemon);
  });

  test("names itself as it was called", async () => {
    const bin = join(sandbox.work, "bin");
    mkdirSync(bin);
    symlinkSync(cliFile, join(bin, "snowlease"));
    const program = [
      "exec",
      "--registry",
      "memory:",
      "--",
      process.execPath,
      join(bin, "snowlease"),
      "daemon",
      "--registry",
      "memory:",
      "--listen",
      "127.0.0.1:0",
    ];
    const daemon = sandbox.start(program);
    while (!/^ {2}snowlease id /.test(await daemon.line()));
    await stop(daemon);
  });

  describe("leases as its options say, where a client does not say it itself", () => {
    async function post(url: string, body: object = {}): Promise<Record<string, unknown>> {
      const headers = { "content-type": "application/json" };
      const answer = await fetch(url, { method: "POST", headers, body: JSON.stringify(body) });
      return (await answer.json()) as Record<string, unknown>;
    }

    const given: readonly [how: string, flags: readonly string[], query: string, env: Record<string, string>][] = [
      ["flags", ["--pool", "512-513", "--window", "3s", "--max-window", "4s"], "", {}],
      ["the registry's URL", [], "?pool=512-513&window=3s&maxWindow=4s", {}],
      ["the environment", [], "", { POOL: "512-513", WINDOW: "3s", MAX_WINDOW: "4s" }],
    ];

    test.each(given)("by %s", async (_, flags, query, variables) => {
      const env = Object.fromEntries(Object.entries(variables).map(([name, value]) => [`SNOWLEASE_${name}`, value]));
      const args = ["daemon", "--registry", sandbox.registry + query, "--json", "--listen", "127.0.0.1:0", ...flags];
      const daemon = sandbox.start(args, env);
      const { url } = JSON.parse(await daemon.line()) as { url: string };
      const now = Date.now();
      const lease = await post(`${url}/v1/orders/leases`, { now });
      expect(lease).toMatchObject({ workerId: 512, renewAfterMs: 1000 });
      expect(Number(lease["until"]) - Number(lease["clock"])).toBe(3000);
      const [id = ""] = (await post(`${url}/v1/orders/ids`))["ids"] as string[];
      const inspected = await sandbox.read(["inspect", "--json", id]);
      expect(JSON.parse(inspected)).toMatchObject([{ workerId: 513 }]);
      expect(await (await fetch(`${url}/v1/orders`)).json()).toMatchObject({ maxWindow: 4000, maxClockSkew: 10_000 });
      expect(await post(`${url}/v1/orders/leases`, { now })).toMatchObject({ code: "POOL_EXHAUSTED" });
      await stop(daemon);
    });

    test("and else all of the layout that the namespace has", async () => {
      const { daemon, news } = await serve("--listen", "127.0.0.1:0");
      for (const [bits, last] of [
        [5, 31],
        [16, 65_535],
      ] as const) {
        const at = `${news.url}/v1/bits${bits}`;
        const layout = `timestamp:41,worker:${bits},sequence:6@1490346283706/1`;
        await sandbox.read(["init", "--registry", news.url ?? "", "--namespace", `bits${bits}`, "--layout", layout]);
        expect(await post(`${at}/leases`, { now: Date.now(), workerId: last })).toMatchObject({ workerId: last });
        expect(await post(`${at}/ids`)).toMatchObject({ ids: [expect.stringMatching(/^\d+$/)] });
      }
      await stop(daemon);
    });
  });

  test("gives back the worker IDs of its own that it made IDs with", async () => {
    const { daemon, news } = await serve("--listen", "127.0.0.1:0");
    const answer = await fetch(`${news.url}/v1/default/ids`, { method: "POST" });
    expect(await answer.json()).toMatchObject({ ids: [expect.stringMatching(/^\d+$/)] });
    await stop(daemon);
    const workers = JSON.parse(await sandbox.read(["workers", "--registry", sandbox.registry, "--json"])) as unknown[];
    expect(workers).toMatchObject([{ state: "free", clean: true }]);
  });

  test("is a registry for the command line like any other", async () => {
    const { daemon, news } = await serve("--listen", "127.0.0.1:0");
    const at = ["--registry", news.url ?? ""];
    await sandbox.read(["init", ...at, "--namespace", "orders", "--layout", "twitter"]);
    const common = [...at, "--namespace", "orders"];
    const id = (await sandbox.read(["id", "-n", "1", ...common, "--layout", "twitter"])).trim();
    expect(JSON.parse(await sandbox.read(["explain", "--json", ...common, id]))).toMatchObject([
      { id, holders: [{ fence: 1 }] },
    ]);
    expect(JSON.parse(await sandbox.read(["workers", "--json", ...common]))).toMatchObject([
      { workerId: 0, state: "free" },
    ]);
    const health = JSON.parse((await sandbox.run(["doctor", "--json", ...common])).stdout) as {
      healthy: boolean;
      findings: { check: string }[];
    };
    expect(health.healthy).toBe(true);
    expect(health.findings.map(({ check }) => check)).toContain("clock");
    await stop(daemon);
  });

  test("refuses a port that is taken, and makes no registry", async () => {
    const server = createServer().listen(0, "127.0.0.1");
    try {
      await new Promise((resolve) => server.once("listening", resolve));
      const { port } = server.address() as { port: number };
      const result = await sandbox.run(["daemon", "--registry", sandbox.registry, "--listen", `127.0.0.1:${port}`]);
      expect(result).toMatchObject({ code: 2, stdout: "" });
      expect(result.stderr).toMatch(/^snowlease: CONFIG_INVALID: Cannot listen on .*in use.*\n$/);
    } finally {
      server.close();
    }
    expect(existsSync(join(sandbox.work, "registry.db"))).toBe(false);
  });

  test("refuses a registry that cannot be used, and listens no longer", async () => {
    writeFileSync(join(sandbox.work, "registry.db"), "a diary, not a database, and longer than a header".repeat(20));
    const socket = join(sandbox.work, "snowlease.sock");
    const result = await sandbox.run(["daemon", "--registry", sandbox.registry, "--socket", socket]);
    expect(result).toMatchObject({ code: 2, stdout: "" });
    expect(result.stderr).toMatch(/^snowlease: CONFIG_INVALID: .*is not a database.*\n$/);
    expect(existsSync(socket)).toBe(false);
  });
});
