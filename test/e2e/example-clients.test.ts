import { spawn, spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { cliFile, type CliProcess, until } from "../support/cli.ts";
import { ClientSandbox } from "../support/client-sandbox.ts";
import { type DaemonProcess, startDaemonProcess } from "../support/daemon-process.ts";
import { freePort } from "../support/servers.ts";
import { examplesFolder, expectAudited, Maker, programOf, startExample } from "../support/examples.ts";

/** Whether the program is there. Where it may be left out it is said aloud, and never under CI. */
function has(program: string): boolean {
  const isThere = spawnSync(program, ["--version"], { stdio: "ignore" }).error === undefined;
  if (!isThere && process.env["CI"] !== undefined) throw new Error(`${program} is not installed.`);
  if (!isThere) console.warn(`NOT RUN: the examples for ${program}, which is not installed.`);
  return isThere;
}

let sandbox: ClientSandbox;
beforeEach(() => {
  sandbox = new ClientSandbox();
});

describe.skipIf(!has("php"))("the page in PHP", () => {
  /** A process, which serves one short request after the other. */
  async function startPage(resp: string): Promise<string> {
    const place = `127.0.0.1:${await freePort()}`;
    const env = { SNOWLEASE_RESP: new URL(resp).host };
    sandbox.started(spawn("php", ["-S", place, join(examplesFolder, "ids.php")], sandbox.surroundings(env)));
    const isServed = async (): Promise<boolean> => (await fetch(`http://${place}`)).ok;
    await until(() => isServed().catch(() => false));
    return `http://${place}`;
  }

  test("answers each request with an ID, with 503 while there is no daemon, and with IDs again once there is one", async () => {
    const first = await startDaemonProcess(sandbox.registry, 0, ["--resp", "127.0.0.1:0"]);
    const urls = await Promise.all(Array.from({ length: 3 }, () => startPage(first.resp)));
    const ids: string[] = [];
    async function ask(url: string): Promise<number> {
      const answer = await fetch(url);
      const text = await answer.text();
      if (answer.ok) ids.push(text.trim());
      else expect(answer.headers.get("retry-after")).toBe("1");
      return answer.status;
    }
    const asked = async (): Promise<Set<number>> =>
      new Set(await Promise.all(urls.flatMap((url) => Array.from({ length: 80 }, () => ask(url)))));
    expect(await asked()).toEqual(new Set([200]));
    await first.end("SIGKILL");
    expect(await asked()).toEqual(new Set([503]));
    const again = await startDaemonProcess(sandbox.registry, 0, ["--resp", new URL(first.resp).host]);
    onTestFinished(async () => void (await again.end("SIGKILL")));
    expect(await asked()).toEqual(new Set([200]));
    await expectAudited(sandbox, sandbox.registry, ids, "orders");
  });
});

describe.skipIf(!has("curl"))("the shell clients", () => {
  const start = (name: string, url: string, ...args: string[]): CliProcess =>
    startExample(sandbox, name, args, { SNOWLEASE_REGISTRY: url, SNOWLEASE_WINDOW: "10s" });

  test("ids.sh prints what the daemon makes, in any format, and its refusals", async () => {
    const { url } = await sandbox.startDaemon();
    const { code, stdout, stderr } = await start("ids.sh", url, "1000").ended;
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    const ids = stdout.trim().split("\n");
    expect(ids).toHaveLength(1000);
    await expectAudited(sandbox, url, ids);
    expect((await start("ids.sh", url, "2", "base62").ended).stdout).toMatch(/^[0-9A-Za-z]{11}\n[0-9A-Za-z]{11}\n$/);
    expect(await start("ids.sh", url, "0").ended).toMatchObject({
      code: 1,
      stderr: expect.stringContaining("count") as string,
    });
  });

  test("ids.sh shows a token, and is refused without", async () => {
    const { url } = await sandbox.startDaemon(0, "--tokens", sandbox.tokens("secret worker"));
    const env = { SNOWLEASE_REGISTRY: url, SNOWLEASE_TOKEN: "secret" };
    expect(await startExample(sandbox, "ids.sh", ["3"], env).ended).toMatchObject({ code: 0, stderr: "" });
    const refused = await startExample(sandbox, "ids.sh", ["3"], { SNOWLEASE_REGISTRY: url }).ended;
    expect(refused).toMatchObject({ code: 1, stderr: expect.stringContaining("token") as string });
  });

  test("lease.sh: two programs have two worker IDs, and their exit codes and signals are passed through", async () => {
    const { url } = await sandbox.startDaemon();
    const program = ["sh", "-c", "echo $WORKER_ID; read line; exit 7"];
    const [one, two] = [
      start("lease.sh", url, ...program),
      start("lease.sh", url, "sh", "-c", "echo $WORKER_ID; exec sleep 100"),
    ];
    const held = [Number(await one.line()), Number(await two.line())];
    expect((await sandbox.workers()).map(({ workerId }) => workerId)).toEqual(held.toSorted((a, b) => a - b));
    two.signal("SIGTERM");
    expect((await two.ended).code).toBe(143);
    // Its stdin is nobody's: a shell gives a program in the background an empty one.
    expect((await one.ended).code).toBe(7);
    const states = await sandbox.read(["workers", "--json", "--registry", url]);
    expect(states).not.toContain('"state":"live","host":"vm"');
    expect((await sandbox.workers()).map(({ clean }) => clean)).toEqual([false, false]);
  });

  test.each([
    ["while nobody answers", async (daemon: DaemonProcess) => void (await daemon.end("SIGKILL"))],
    [
      "that is taken away",
      async (daemon: DaemonProcess) => {
        const [held] = await sandbox.workers();
        await sandbox.read(["release", String(held?.workerId), "--force", "--registry", daemon.url]);
      },
    ],
  ])(
    "lease.sh stops a program before the end of the window of a lease %s, by force where it does not listen",
    async (_, end) => {
      const daemon = await sandbox.startDaemon();
      const file = join(sandbox.work, "times");
      const script = `trap '' TERM; while date +%s%3N >> ${file}; do sleep 0.05; done`;
      const running = start("lease.sh", daemon.url, "sh", "-c", script);
      await until(async () => (await sandbox.workers()).length > 0);
      await end(daemon);
      expect((await running.ended).code).toBe(137);
      const [record] = await sandbox.workers();
      const last = Number(readFileSync(file, "utf8").trim().split("\n").at(-1));
      expect(last).toBeGreaterThan(0);
      expect(last).toBeLessThan(record?.until ?? 0);
    },
  );
});

describe.skipIf(!has("java"))("WestId.java", () => {
  const maker = (name: string, ...args: string[]): Maker => {
    const exec = [process.execPath, cliFile, "exec", "--java", "--window=4s", "--registry", sandbox.registry, "--"];
    return new Maker(sandbox, name, [...exec, ...programOf("WestId.java"), ...args]);
  };

  test("two at once, one of them killed with -9 and replaced, make no ID twice", async () => {
    const [killed, other] = [maker("killed", "0"), maker("other", "20000")];
    await killed.made(1000);
    const [java = 0] = childrenOf(killed.process.pid);
    process.kill(java, "SIGKILL");
    expect((await killed.process.ended).code).toBe(137);
    const next = maker("next", "20000");
    for (const { process } of [other, next]) expect((await process.ended).code).toBe(0);
    expect(other.ids()).toHaveLength(20_000);
    await expectAudited(sandbox, sandbox.registry, [...killed.ids(), ...other.ids(), ...next.ids()]);
  });

  test("is stopped when its lease is taken away, and has made nothing outside of its window", async () => {
    const running = maker("ids", "0");
    await running.made(1000);
    const [held] = await sandbox.workers();
    await sandbox.read(["release", String(held?.workerId), "--force", "--registry", sandbox.registry]);
    expect((await running.process.ended).code).toBe(4);
    await expectAudited(sandbox, sandbox.registry, running.ids());
  });

  test("says how to start it", async () => {
    const { code, stderr } = await startExample(sandbox, "WestId.java").ended;
    expect(code).toBe(2);
    expect(stderr).toContain("snowlease exec --java");
  });
});

/** The processes that a process has started. */
function childrenOf(pid: number): number[] {
  const text = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8");
  return text.trim().split(" ").filter(Boolean).map(Number);
}
