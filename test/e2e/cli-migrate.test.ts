import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, describe, expect, test } from "vitest";
import { type CliResult, Sandbox, until } from "../support/cli.ts";
import { clocksMissing, WallClock } from "../support/holder.ts";
import { Supervisor } from "../support/supervisor.ts";

let sandbox: Sandbox;
let planArgs: readonly string[];
beforeEach(() => {
  sandbox = new Sandbox();
  planArgs = [...planStep, "--registry", sandbox.registry];
  writeFileSync(join(sandbox.work, "hosts.txt"), "orders-1 10.0.0.7\norders-2 10.0.4.7\norders-3 10.0.0.9\n");
});

const planStep = ["migrate", "plan", "--from", "ip", "--hosts", "hosts.txt"];
const file = "snowlease-migration.json";

describe("migrate", () => {
  test("plans for a registry that does not exist yet, and writes nothing but the plan, over no other file", async () => {
    expect(await sandbox.read(planArgs)).toBe(
      "Worker 7 is used by orders-1 (10.0.0.7), orders-2 (10.0.4.7): move one of them first.\n" +
        "Hosts: 3. Keep their worker ID: 1. Get another one: 2. Shared worker IDs: 1.\n" +
        "Of 1024 worker IDs: 1 pinned for their hosts, 1 for no host, 1022 left to claim.\n" +
        `Wrote the plan to ${file}; the registry is unchanged. Next: \`snowlease migrate apply ${file}\`.\n`,
    );
    expect(sandbox.files()).toEqual(["work/hosts.txt", `work/${file}`]);
    await sandbox.read(planArgs);
    const over = await sandbox.run([...planArgs, "--out", "hosts.txt"]);
    expect(over).toMatchObject({ code: 2, stdout: "" });
    expect(over.stderr).toMatch(
      /^snowlease: CONFIG_INVALID: The plan cannot be written to hosts\.txt \(the file is not a plan\)[^\n]*\n$/,
    );
    expect(readFileSync(join(sandbox.work, "hosts.txt"), "utf8")).toContain("orders-1 10.0.0.7");
  });

  test.each([
    [["go"], "Expected plan, apply, status or finish, got `go`"],
    [["plan"], "Expected `--from` to be one of ip, westid-redis"],
    [["plan", "--from", "dns"], "Expected `--from` to be one of ip, westid-redis"],
    [["plan", "--from", "ip"], "Expected `--from ip` with `--hosts FILE`"],
    [["plan", "--from", "ip", "--hosts", "none.txt"], "The file `none.txt` cannot be read (it does not exist)"],
    [["plan", "--from", "leaf"], "Expected `--from leaf URL`"],
    [["plan", "--from", "leaf", "redis://localhost"], "Expected `--from leaf` with a URL of zookeeper"],
    [["apply"], `The file \`${file}\` cannot be read (it does not exist)`],
    [["apply", "hosts.txt"], "Expected a migration plan (JSON), got `orders-1"],
    [["apply", "--watch"], "Expected `migrate apply` without `--watch`"],
    [["finish", "--headroom", "9"], "Expected `migrate finish` without `--headroom`"],
    [[...planStep.slice(1), "--pool", "1000-2000"], "Expected `pool.last` to be an integer from 1000 to 1023"],
    [[...planStep.slice(1), "--headroom", "x"], "Expected `--headroom` to be an integer from 0"],
    [[...planStep.slice(1), "--worker-bits", "11"], "Expected `--worker-bits` to be an integer from 1 to 10"],
    [
      ["plan", "--from", "uid-generator", "mysql://127.0.0.1:1"],
      "The layout timestamp:28,worker:22,sequence:13@1463673600000/1000 of uid-generator ended at",
    ],
  ])("refuses %j in one line", async (args, rule) => {
    const { code, stdout, stderr } = await sandbox.run(["migrate", ...args, "--registry", sandbox.registry]);
    expect([code, stdout]).toEqual([2, ""]);
    expect(stderr).toMatch(/^snowlease: CONFIG_INVALID: [^\n]+\n$/);
    expect(stderr).toContain(rule);
  });

  test("reads files that begin with a byte order mark, and refuses those in UTF-16", async () => {
    const path = (name: string): string => join(sandbox.work, name);
    for (const name of ["hosts.txt", file]) {
      if (name === file) await sandbox.read(planArgs);
      writeFileSync(path(name), `\ufeff${readFileSync(path(name), "utf8")}`);
    }
    // Over the plan with the mark: it is one.
    await sandbox.read(planArgs);
    for (const name of ["hosts.txt", file]) {
      writeFileSync(path(name), Buffer.from(`\ufeff${readFileSync(path(name), "utf8")}`, "utf16le"));
      const { code, stderr } = await sandbox.run(
        name === file ? ["migrate", "apply", "--registry", sandbox.registry] : planArgs,
      );
      expect([code, stderr]).toEqual([
        2,
        `snowlease: CONFIG_INVALID: The file \`${name}\` is not UTF-8; save it as UTF-8.\n`,
      ]);
    }
  });

  test("moves hosts over a daemon, where an administrator says so", async () => {
    const tokens = sandbox.tokens("w0rker worker", "r3ader read", "adm1n admin");
    const { url } = await sandbox.serve("--tokens", tokens);
    const as = (token: string, ...args: string[]): ReturnType<Sandbox["run"]> =>
      sandbox.run([...args, "--registry", url, "--namespace", "fleet"], { env: { SNOWLEASE_TOKEN: token } });
    const json = async (...args: string[]): Promise<unknown> => {
      const { code, stdout, stderr } = await as("adm1n", ...args, "--json");
      expect([code, stderr]).toEqual([0, ""]);
      return JSON.parse(stdout);
    };
    await json("init", "--max-clock-skew", "3s");
    await json(...planStep);
    expect(await as("r3ader", "migrate", "apply")).toMatchObject({ code: 8, stdout: "" });
    expect(await as("w0rker", "migrate", "apply")).toMatchObject({ code: 8, stdout: "" });
    expect(await json("migrate", "apply")).toEqual({ pinned: 2, unchanged: 0, others: [], left: [] });

    /** A program on a host, from when its window is open until it is closed. */
    const started = async (ip: string) => {
      const flags = ["--registry", url, "--namespace", "fleet", "--ip", ip, "--window", "2s"];
      const program = sandbox.start(["assign", ...flags], { SNOWLEASE_TOKEN: "w0rker" });
      const { workerId } = JSON.parse(await program.line()) as { workerId: number };
      return { program, workerId };
    };
    const first = await started("10.0.0.9");
    const second = await started("10.0.0.7");
    expect([first.workerId, second.workerId]).toEqual([9, 0]);
    type Status = { readonly moved: number; readonly hosts: readonly { name: string; state: string }[] };
    const status = async (): Promise<Status> => (await json("migrate", "status")) as Status;
    await until(async () => (await status()).moved === 2);
    const { hosts, ...counts } = await status();
    expect(counts).toMatchObject({ moved: 2, stopped: 0, old: 1, conflict: 0, unpinned: [] });
    expect(hosts.find(({ state }) => state === "old")?.name).toBe("orders-2");
    const early = await as("adm1n", "migrate", "finish");
    expect(early).toMatchObject({ code: 3, stdout: "" });
    expect(early.stderr).toMatch(/WORKER_ID_HELD: 1 of 3 hosts have not moved \(orders-2 \(10\.0\.4\.7\)\)/);

    const watching = sandbox.start(["migrate", "status", "--watch", "--registry", url, "--namespace", "fleet"], {
      SNOWLEASE_TOKEN: "adm1n",
    });
    expect(await watching.line()).toBe("2 of 3 hosts moved, 1 on the old scheme, 0 in conflict.");
    await started("10.0.4.7");
    expect(await watching.line()).toBe("3 of 3 hosts moved, 0 on the old scheme, 0 in conflict.");
    expect(await watching.ended).toMatchObject({ code: 0, stderr: "" });

    // One goes away: nothing tells whether its old program runs.
    first.program.closeStdin();
    await first.program.ended;
    expect(await status()).toMatchObject({ moved: 2, stopped: 1, old: 0 });
    const stopped = await as("adm1n", "migrate", "finish");
    expect(stopped).toMatchObject({ code: 3, stdout: "" });
    expect(stopped.stderr).toMatch(/1 of 3 hosts have moved and are not running now \(orders-3 \(10\.0\.0\.9\)\)/);
    expect((await as("adm1n", "migrate", "status")).stdout).toMatch(
      /^ *9 +orders-3 +10\.0\.0\.9 +moved, not running now *\nMoved: 2 of 3\. Moved, not running now: 1\. On/m,
    );
    await started("10.0.0.9");
    await until(async () => (await status()).moved === 3);
    expect(await json("migrate", "finish", "--window", "200ms")).toEqual({ unpinned: 2, staying: 0, left: 0 });
    expect(await json("workers", "--state", "pinned")).toEqual([]);
    expect(await json("migrate", "apply", "--revert")).toMatchObject({ unpinned: 0 });
  });

  /** Pins the worker IDs of the fleet; what to call the registry by. */
  async function applied(maxClockSkew: string): Promise<Readonly<Record<string, string>>> {
    const env = { SNOWLEASE_REGISTRY: sandbox.registry };
    await sandbox.read(["init", "--max-clock-skew", maxClockSkew], { env });
    await sandbox.read(planStep, { env });
    await sandbox.read(["migrate", "apply"], { env });
    return env;
  }

  test("a start that may not wait for its window leaves the progress as it was", async () => {
    // Long enough that no window opens while the test runs.
    const env = await applied("10m");
    const start = (command: string, ...rest: string[]): Promise<CliResult> =>
      sandbox.run([command, "--ip", "10.0.0.9", "--claim-timeout", "1s", ...rest], { env });
    for (const [command = "", ...rest] of [
      ["exec", "--", "echo"],
      ["assign", "--once"],
      ["id"],
      ["exec", "--", "echo"],
    ]) {
      const { code, stdout, stderr } = await start(command, ...rest);
      expect([code, stdout]).toEqual([4, ""]);
      expect(stderr).toMatch(
        /^snowlease: WINDOW_NOT_OPEN: The window of worker 9 opens at \S+, in [\w ]+, later than --claim-timeout lets this start wait; leave --claim-timeout out, or allow more\.\n$/,
      );
    }
    const status = JSON.parse(await sandbox.read(["migrate", "status", "--json"], { env })) as object;
    expect(status).toMatchObject({ moved: 0, stopped: 0, old: 1, conflict: 2 });
    expect(await sandbox.read(["migrate", "status"], { env })).toMatch(
      /^ *9 +orders-3 +10\.0\.0\.9 +old +its start at \S+ has not used its window yet$/m,
    );
    expect((await sandbox.run(["migrate", "finish"], { env })).stderr).toMatch(/3 of 3 hosts have not moved/);
  });

  // The mode is for generators of Snowlease: a program under `exec` may have another one.
  test.each(["wall", "lead"])(
    "a supervised program starts at its first try: it waits, and says so once (%s)",
    async (mode) => {
      const env = { ...(await applied("3s")), SNOWLEASE_MODE: mode };
      const program = ["--", process.execPath, "-e", "console.log(Date.now()); setInterval(() => {}, 1e3);"];
      const service = new Supervisor(sandbox, ["exec", "--ip", "10.0.0.9", "--window", "2s", ...program], env);
      const began = Number(await service.line());
      expect(service.last.stderr).toMatch(
        /^snowlease: The window of worker 9 opens at \S+, in [\w ]+: waiting for it\. Until then, a program without a lease may have used this worker ID\.\n$/,
      );
      expect(service.runs).toHaveLength(1);
      const [held] = JSON.parse(await sandbox.read(["workers", "--state", "live", "--json"], { env })) as object[];
      expect(held).toMatchObject({ workerId: 9 });
      expect((held as { from: number }).from).toBeLessThanOrEqual(began);
      await service.stop();
    },
  );

  test.skipIf(clocksMissing !== undefined)(
    clocksMissing ?? "a start whose clock jumps while it waits cannot say that nothing was used: it may be a copy",
    async () => {
      const env = await applied("3s");
      const clock = new WallClock();
      const args = ["exec", "--ip", "10.0.0.9", "--window", "2s", "--", "./none"];
      const start = sandbox.start(args, { ...env, ...clock.environment });
      await until(() => start.stderr.includes("waiting for it"));
      clock.set(1);
      expect(await start.ended).toMatchObject({ code: 127 });
      const workers = JSON.parse(await sandbox.read(["workers", "--json"], { env })) as { workerId: number }[];
      expect(workers.find(({ workerId }) => workerId === 9)).toMatchObject({ clean: false });
    },
  );
});
