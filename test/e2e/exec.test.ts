import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { cliFile, type CliProcess, Sandbox, until } from "../support/cli.ts";
import { isAlive } from "../support/servers.ts";
import { WallClock } from "../support/holder.ts";

let sandbox: Sandbox;
beforeEach(() => {
  sandbox = new Sandbox();
});

function start(program: readonly string[], ...flags: string[]): CliProcess {
  return sandbox.start(["exec", "--registry", sandbox.registry, ...flags, "--", ...program]);
}

/** A program of Node that knows where the sandbox is. */
function node(script: string): string[] {
  return [process.execPath, "-e", script];
}

function written(name: string): string {
  const file = join(sandbox.work, name);
  return existsSync(file) ? readFileSync(file, "utf8") : "";
}

/** Ends, with the test, the processes whose IDs are in a file by then. */
function killLater(name: string): void {
  onTestFinished(() => {
    for (const pid of written(name).split("\n").filter(Boolean))
      if (isAlive(Number(pid))) process.kill(Number(pid), "SIGKILL");
  });
}

interface Worker {
  readonly workerId: number;
  readonly state: string;
  readonly until: number;
  readonly clean: boolean;
}

/** What the registry has on record; nothing while it does not exist. */
async function workers(): Promise<Worker[]> {
  const { code, stdout } = await sandbox.run(["workers", "--registry", sandbox.registry, "--json"]);
  return code === 0 ? (JSON.parse(stdout) as Worker[]) : [];
}

async function worker(id: number): Promise<Worker | undefined> {
  return (await workers()).find(({ workerId }) => workerId === id);
}

async function live(): Promise<number> {
  return (await workers()).filter(({ state }) => state === "live").length;
}

describe("as the first process of a container", () => {
  const canUnshare = spawnSync("unshare", ["--pid", "--fork", "--mount-proc", "true"]).status === 0;

  test.skipIf(!canUnshare)("it says that it is no init (needs root that may make a PID namespace)", async () => {
    const args = ["exec", "--registry", sandbox.registry, "--", "true"];
    const container = ["--pid", "--fork", "--mount-proc", process.execPath, cliFile, ...args];
    const { code, stderr } = await sandbox.started(spawn("unshare", container, sandbox.surroundings())).ended;
    expect(code).toBe(0);
    expect(stderr).toMatch(
      /^snowlease: warning: This process is the first one of its container, .*`docker run --init`/m,
    );
  });
});

describe("the program", () => {
  test("finds its worker ID in its environment, and nothing of the lease's token", async () => {
    const running = start(["env"], "--worker-id", "33", "--layout", "twitter", "--namespace", "orders");
    const { code, stdout, stderr } = await running.ended;
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    const env = Object.fromEntries(stdout.split("\n").map((line) => line.split(/=(.*)/s).slice(0, 2)));
    expect(env).toMatchObject({
      SNOWLEASE_WORKER_ID: "33",
      WESTID_WORKERID: "33",
      WORKER_ID: "1",
      SNOWLEASE_DATACENTER_ID: "1",
      SNOWLEASE_LEASE_NAMESPACE: "orders",
      SNOWLEASE_LEASE_LAYOUT: "timestamp:41,datacenter:5,worker:5,sequence:12@1288834974657/1",
    });
    expect(env).not.toHaveProperty("JAVA_TOOL_OPTIONS");
    expect(stdout).not.toMatch(/=[0-9a-f]{32}$/m);
  });

  test("has no datacenter where the layout has none", async () => {
    const { stdout } = await start(["env"], "--worker-id", "33").ended;
    expect(stdout).toMatch(/^WORKER_ID=33$/m);
    expect(stdout).not.toContain("DATACENTER");
  });

  test("--java adds to the JVM's options", async () => {
    const args = [
      "exec",
      "--registry",
      sandbox.registry,
      "--worker-id",
      "7",
      "--java",
      "--",
      "printenv",
      "JAVA_TOOL_OPTIONS",
    ];
    expect(await sandbox.read(args)).toBe("-Dwestid.workerId=7\n");
    const env = { JAVA_TOOL_OPTIONS: "-Xmx1g" };
    expect(await sandbox.read(args, { env })).toBe("-Xmx1g -Dwestid.workerId=7\n");
  });

  test("has our stdin, stdout and stderr", async () => {
    const args = ["exec", "--registry", sandbox.registry, "--", "sh", "-c", "cat; echo aside >&2"];
    expect(await sandbox.run(args, { input: "through" })).toEqual({ code: 0, stdout: "through", stderr: "aside\n" });
  });

  test("takes flags that look like ours, with or without `--`", async () => {
    const args = ["exec", "--registry", sandbox.registry];
    expect(await sandbox.read([...args, "--", "echo", "--json", "--", "-h"])).toBe("--json -- -h\n");
    expect(await sandbox.read([...args, "echo", "--", "--json"])).toBe("-- --json\n");
  });

  test.each([
    ["its exit code", ["sh", "-c", "exit 42"], 42],
    ["128 + n where signal n ended it", ["sh", "-c", "kill -KILL $$"], 137],
  ])("gives us %s", async (_, program, code) => {
    expect(await start(program).ended).toEqual({ code, stdout: "", stderr: "" });
  });

  test.each([
    ["that is not there", ["no-such-program"], 127, "NOT_FOUND"],
    ["that cannot be run", ["./text"], 126, "CONFIG_INVALID"],
    ["that is a folder", ["../work"], 126, "CONFIG_INVALID"],
  ])("%s is told in one line", async (_, program, code, word) => {
    writeFileSync(join(sandbox.work, "text"), "Hello.\n");
    const result = await start(program).ended;
    expect(result).toMatchObject({ code, stdout: "" });
    expect(result.stderr).toMatch(new RegExp(`^snowlease: ${word}: \`${program[0]}\` could not be started: .*\n$`));
  });

  test.each([["no-such-program"], ["./text"]])(
    "that never ran (%s) leaves its worker ID free at once",
    async (program) => {
      writeFileSync(join(sandbox.work, "text"), "Hello.\n");
      await start([program]).ended;
      expect(await worker(0)).toMatchObject({ state: "free", clean: true });
      // No window to wait for, though the number is asked for by name.
      expect(await start(["true"], "--worker-id", "0", "--claim-timeout", "0").ended).toMatchObject({ code: 0 });
    },
  );

  test("without a name is an error of ours, and nothing is made for it", async () => {
    const result = await start([""]).ended;
    expect(result).toMatchObject({ code: 2, stdout: "" });
    expect(result.stderr).toMatch(/^snowlease: CONFIG_INVALID: [^\n]*name of a program[^\n]*\n$/);
    expect(sandbox.files()).toEqual([]);
  });

  test("cannot be lent a lease where no socket can be made: an error of ours, and the worker ID is free", async () => {
    const long = join(sandbox.work, "x".repeat(100));
    mkdirSync(long);
    for (const TMPDIR of ["/dev/null", long]) {
      const args = ["exec", "--registry", sandbox.registry, "--", "touch", "started"];
      const result = await sandbox.run(args, { env: { TMPDIR } });
      expect(result).toMatchObject({ code: 2, stdout: "" });
      expect(result.stderr).toMatch(/^snowlease: CONFIG_INVALID: [^\n]*set TMPDIR [^\n]*\n$/);
    }
    expect(existsSync(join(sandbox.work, "started"))).toBe(false);
    expect(readdirSync(long)).toEqual([]);
    expect(await worker(0)).toMatchObject({ state: "free", clean: true });
  });

  test("is not started without a worker ID", async () => {
    const first = start(["sleep", "600"], "--worker-id", "7");
    await until(async () => (await live()) === 1);
    const second = await start(["touch", "started"], "--worker-id", "7", "--claim-timeout", "0").ended;
    expect(second).toMatchObject({ code: 3, stderr: expect.stringMatching(/^snowlease: WORKER_ID_HELD: /) as string });
    expect(existsSync(join(sandbox.work, "started"))).toBe(false);
    first.signal("SIGTERM");
    await first.ended;
  });
});

describe("at the end", () => {
  test("the worker ID rests until its window has passed: nobody knows what the program made", async () => {
    await start(["true"], "--worker-id", "7").ended;
    const { state, clean } = (await worker(7)) ?? {};
    expect({ state, clean }).toEqual({ state: expect.stringMatching(/resting|free/) as string, clean: false });
  });

  test("the socket's folder is gone", async () => {
    const { stdout } = await start([
      "sh",
      "-c",
      'ls -ld "$(dirname "$SNOWLEASE_LEASE_SOCKET")"; ls -l "$SNOWLEASE_LEASE_SOCKET"',
    ]).ended;
    expect(stdout).toMatch(/^drwx------ [^\n]+\ns/);
    expect(readdirSync(join(sandbox.folder, "tmp"))).toEqual([]);
  });

  test("nothing that the program started goes on with its worker ID", async () => {
    writeFileSync(join(sandbox.work, "stay.sh"), 'trap "" TERM; echo $$ > left; while :; do sleep 0.1; done\n');
    const script = "sh stay.sh & while [ ! -s left ]; do sleep 0.01; done";
    killLater("left");
    const { code } = await start(["sh", "-c", script]).ended;
    expect(code).toBe(0);
    expect(isAlive(Number(written("left")))).toBe(false);
  });
});

describe("signals", () => {
  const script = `
    for (const name of ["SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR2", "SIGWINCH", "SIGCONT"]) {
      process.on(name, () => { console.log(name); if (name === "SIGTERM") process.exit(5); });
    }
    setInterval(() => {}, 1000);
    console.log("ready");
  `;

  test("reach the program, and its answer to them is ours", async () => {
    const running = start(node(script));
    expect(await running.line()).toBe("ready");
    for (const name of ["SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR2", "SIGWINCH", "SIGCONT", "SIGTERM"] as const) {
      running.signal(name);
      expect(await running.line()).toBe(name);
    }
    expect(await running.ended).toMatchObject({ code: 5, stderr: "" });
  });

  test("SIGUSR1, which Node keeps for itself", async () => {
    const running = start(["sh", "-c", "trap 'echo got; exit 0' USR1; echo ready; while :; do sleep 0.05; done"]);
    expect(await running.line()).toBe("ready");
    running.signal("SIGUSR1");
    expect(await running.line()).toBe("got");
    expect(await running.ended).toMatchObject({ code: 0, stderr: "" });
  });

  test("before there is a program end the wait for a worker ID", async () => {
    const first = start(["sleep", "600"], "--worker-id", "7");
    await until(async () => (await live()) === 1);
    const second = start(["touch", "started"], "--worker-id", "7", "--claim-timeout", "1h");
    await until(() => readFileSync(`/proc/${second.pid}/status`, "utf8").includes("SigCgt") && catches(second.pid, 15));
    second.signal("SIGTERM");
    expect(await second.ended).toMatchObject({ code: 143, stdout: "" });
    expect(existsSync(join(sandbox.work, "started"))).toBe(false);
    first.signal("SIGTERM");
    await first.ended;
  });

  function catches(pid: number, signal: number): boolean {
    const [, mask = "0"] = /^SigCgt:\s*([0-9a-f]+)/m.exec(readFileSync(`/proc/${pid}/status`, "utf8")) ?? [];
    return (BigInt(`0x${mask}`) >> BigInt(signal - 1)) % 2n === 1n;
  }
});

/** Gives a program a terminal. */
const scriptProgram = "/usr/bin/script";

describe.skipIf(!existsSync(scriptProgram))("on a terminal", () => {
  test("the program shares our process group, and a Ctrl-C reaches it once", async () => {
    const script = `
      let times = 0;
      process.on("SIGINT", () => { if (times++ === 0) setTimeout(() => { console.log("interrupted", times); process.exit(6); }, 300); });
      setInterval(() => {}, 1000);
      const groupOf = (pid) => require("node:fs").readFileSync("/proc/" + pid + "/stat", "utf8").replace(/.*\\) /, "").split(" ")[2];
      console.log("ready", groupOf("self"), groupOf(process.ppid));
    `;
    writeFileSync(join(sandbox.work, "program.cjs"), script);
    const line = `exec "${process.execPath}" "${cliFile}" exec --registry "${sandbox.registry}" -- "${process.execPath}" program.cjs`;
    const running = sandbox.started(spawn(scriptProgram, ["-qefc", line, "/dev/null"], sandbox.surroundings()));
    let ready = "";
    while (!ready.startsWith("ready ")) ready = await running.line();
    const [, group, parent] = ready.trim().split(" ");
    expect(group).toBe(parent);
    running.write("\u0003");
    let said = "";
    while (!said.includes("interrupted")) said = await running.line();
    expect(said).toContain("interrupted 1");
    expect(await running.ended).toMatchObject({ code: 6 });
  });

  test.each([
    "assign",
    "exec -- sh -c 'echo begun; exec sleep 600'",
    "exec -- sh -c 'trap \"\" HUP; echo begun; sleep 1'",
    "daemon --listen 127.0.0.1:0 --json",
  ])("%s gives back when that closes", async (command) => {
    const [name, ...rest] = command.split(/ (.*)/);
    const line = `exec "${process.execPath}" "${cliFile}" ${name} --registry "${sandbox.registry}" ${rest.join("")}`;
    const terminal = sandbox.started(spawn(scriptProgram, ["-qefc", line, "/dev/null"], sandbox.surroundings()));
    if (name === "daemon") {
      const { url } = JSON.parse(await terminal.line()) as { url: string };
      expect((await fetch(`${url}/v1/default/ids`, { method: "POST" })).status).toBe(200);
    }
    // Before its program begins, exec gives the worker ID back unused. After that a look may come too late: one of them ends by itself.
    if (name === "exec") while ((await terminal.line()).trim() !== "begun");
    else await until(async () => (await live()) === 1);
    await terminal.kill();
    await until(async () => (await live()) === 0);
    expect(await worker(0)).toMatchObject(name === "daemon" ? { state: "free", clean: true } : { state: "resting" });
  });
});

describe("a lease that cannot be kept", () => {
  /** Writes its clock to a file all the time, and ends only by force; so does a child of its own. */
  const stubborn = `
    const { appendFileSync } = require("node:fs");
    const { spawn } = require("node:child_process");
    process.on("SIGTERM", () => appendFileSync("asked", "x"));
    if (process.argv[1] !== "child") spawn(process.execPath, ["-e", process.env.SCRIPT, "child"], { stdio: "ignore" });
    appendFileSync("pids", process.pid + "\\n");
    for (;;) { appendFileSync("clock", Date.now() + "\\n"); Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1); }
  `;
  /** A program that is busy cannot run a signal's handler in JavaScript: a shell that ignores the signal asks for force, too. */
  const shell = ["sh", "-c", `trap "" TERM; exec "$0" -e "$SCRIPT"`, process.execPath];

  test("stops the program when an operator ends the claim", async () => {
    const running = start(
      node(
        `process.on("SIGTERM", () => { console.log("asked"); process.exit(0); }); setInterval(() => {}, 9); console.log("ready");`,
      ),
      "--window",
      "6s",
    );
    expect(await running.line()).toBe("ready");
    await sandbox.read(["release", "--registry", sandbox.registry, "--force", "0"]);
    expect(await running.line()).toBe("asked");
    expect(await running.ended).toMatchObject({
      code: 4,
      stderr: expect.stringMatching(/^snowlease: LEASE_LOST: [^\n]*\n$/) as string,
    });
  });

  test("has no program left in its process group when the window ends, though the registry is gone", async () => {
    killLater("pids");
    const { daemon, url } = await sandbox.serve();
    const env = { SCRIPT: stubborn };
    const running = sandbox.start(["exec", "--registry", url, "--window", "2s", "--", ...shell], env);
    await until(() => written("pids").split("\n").length > 2);
    await daemon.kill();
    const result = await running.ended;
    expect(result).toMatchObject({
      code: 4,
      stderr: expect.stringMatching(/^snowlease: LEASE_EXPIRED: [^\n]*\n$/) as string,
    });
    for (const pid of written("pids").trimEnd().split("\n")) expect(isAlive(Number(pid))).toBe(false);
    const last = Math.max(...written("clock").trimEnd().split("\n").map(Number));
    expect(last).toBeLessThan((await worker(0))?.until ?? 0);
  });

  test.each([
    ["ahead, past the end of the window", 3600, "LEASE_EXPIRED"],
    ["back, to before its beginning", -3600, "WINDOW_NOT_OPEN"],
  ])("stops the program when the clock is set %s", async (_, by, code) => {
    const clock = new WallClock();
    const args = ["exec", "--registry", sandbox.registry, "--", "sh", "-c", "echo ready; exec sleep 600"];
    const running = sandbox.start(args, clock.environment);
    expect(await running.line()).toBe("ready");
    clock.set(by);
    const result = await running.ended;
    expect(result).toMatchObject({
      code: 4,
      stderr: expect.stringMatching(new RegExp(`^snowlease: ${code}: [^\n]*\n$`)) as string,
    });
  });

  test("goes on when the registry comes back in time", async () => {
    const { daemon, url } = await sandbox.serve();
    const { port } = new URL(url);
    const running = sandbox.start([
      "exec",
      "--registry",
      url,
      "--window",
      "20s",
      "--",
      "sh",
      "-c",
      "read line; exit 3",
    ]);
    await until(async () => (await live()) === 1);
    const before = (await worker(0))?.until ?? 0;
    await daemon.kill();
    await sandbox.serve("--listen", `127.0.0.1:${port}`);
    await until(async () => ((await worker(0))?.until ?? 0) > before);
    running.closeStdin("on\n");
    expect(await running.ended).toMatchObject({ code: 3, stderr: "" });
  });

  test("the program's exit code is ours even where the registry cannot be told of the end", async () => {
    const { daemon, url } = await sandbox.serve();
    const running = sandbox.start(["exec", "--registry", url, "--", "sh", "-c", "read line; exit 3"]);
    await until(async () => (await live()) === 1);
    await daemon.kill();
    running.closeStdin("on\n");
    expect(await running.ended).toMatchObject({
      code: 3,
      stderr: expect.stringMatching(/^snowlease: REGISTRY_UNAVAILABLE: [^\n]*\n$/) as string,
    });
  });

  test("does not stop a daemon's other lessees", async () => {
    const { url } = await sandbox.serve();
    const one = sandbox.start(["exec", "--registry", url, "--", "sh", "-c", "read line; exit 1"]);
    const two = sandbox.start(["exec", "--registry", url, "--", "sh", "-c", "read line; exit 2"]);
    await until(async () => (await live()) === 2);
    one.closeStdin("\n");
    expect(await one.ended).toMatchObject({ code: 1 });
    two.closeStdin("\n");
    expect(await two.ended).toMatchObject({ code: 2 });
  });
});
