import { spawn, spawnSync } from "node:child_process";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import { type CliProcess, until } from "../support/cli.ts";
import { testBorrowers } from "../support/client-borrowers.ts";
import { type HolderPrograms, testHolders } from "../support/client-holders.ts";
import { ClientSandbox, workerOf } from "../support/client-sandbox.ts";
import { expectAudited } from "../support/examples.ts";
import { hasPython, pythonPackages } from "../support/python.ts";

const client = fileURLToPath(new URL("../../clients/python", import.meta.url));
const programs = fileURLToPath(new URL("../support/python", import.meta.url));
const packages = [
  "pytest==9.2.0",
  "mypy==2.4.1",
  "build==1.6.1",
  "hatchling==1.33.0",
  "gunicorn==27.0.1",
  "celery==5.7.0",
  "flask==3.1.3",
  "gevent==26.9.0",
  "ruff==0.17.6",
];

const readme = readFileSync(join(client, "README.md"), "utf8");
let tools: string;
let sandbox: ClientSandbox;

const environment = (registry: string): Record<string, string> => ({
  SNOWLEASE_REGISTRY: registry,
  PYTHONPATH: `${join(client, "src")}:${programs}`,
  PYTHONDONTWRITEBYTECODE: "1",
});

/** Runs a program of the tools in a folder; it has to succeed. */
function run(
  program: string,
  args: readonly string[],
  cwd: string,
  env: Readonly<Record<string, string>> = {},
): string {
  const surroundings = { PATH: process.env["PATH"] ?? "", HOME: sandbox.work, TMPDIR: join(sandbox.folder, "tmp") };
  const { status, stdout, stderr } = spawnSync(program, args, {
    cwd,
    env: { ...surroundings, ...env },
    encoding: "utf8",
  });
  expect({ status, said: status === 0 ? "" : `${stdout}${stderr}` }).toEqual({ status: 0, said: "" });
  return stdout;
}

async function runScript(registry: string, script: string): Promise<{ code: number; stdout: string; stderr: string }> {
  const surroundings = sandbox.surroundings(environment(registry));
  return sandbox.started(spawn(join(tools, "python"), ["-c", script], surroundings)).ended;
}

describe.skipIf(!hasPython(10))("the Python client", { timeout: 300_000 }, () => {
  beforeAll(() => {
    tools = pythonPackages(...packages);
  }, 300_000);
  beforeEach(() => {
    sandbox = new ClientSandbox();
  });

  test("is formatted, and has the types that it says", () => {
    const others = ["bench/clients/python", "prove/clients"].map((folder) =>
      join(import.meta.dirname, "../..", folder),
    );
    const code = ["src", "tests", programs, ...others];
    const settings = ["--no-cache", "--config", "pyproject.toml"];
    run(join(tools, "ruff"), ["check", ...settings, ...code], client);
    run(join(tools, "ruff"), ["format", "--check", ...settings, ...code], client);
    run(join(tools, "mypy"), ["--strict", "--cache-dir", join(sandbox.work, "mypy"), "src/snowlease"], client);
  });

  test("passes its own tests as the wheel that users get", () => {
    const [wheels, fresh] = [join(sandbox.work, "wheels"), join(sandbox.work, "fresh")];
    run(join(tools, "python"), ["-m", "build", "--wheel", "--no-isolation", "--outdir", wheels, client], sandbox.work);
    run("python3", ["-m", "venv", "--without-pip", fresh], sandbox.work);
    const [wheel = ""] = readdirSync(wheels);
    expect(wheel).toMatch(/^snowlease-[0-9.]+-py3-none-any\.whl$/);
    const python = join(fresh, "bin/python");
    run(
      join(tools, "pip"),
      ["--python", python, "install", "-q", "--no-index", "--no-deps", join(wheels, wheel)],
      sandbox.work,
    );
    const where = run(python, ["-c", "import snowlease; print(snowlease.__path__[0])"], sandbox.work).trim();
    expect(where.startsWith(fresh)).toBe(true);
    expect(readdirSync(where)).toContain("py.typed");
    const own = { PYTHONPATH: join(where, ".."), PYTHONDONTWRITEBYTECODE: "1" };
    run(join(tools, "pytest"), ["-q", "tests"], client, own);
  });

  test("does what its README shows: the first lines, and a service of Flask under gunicorn, which answers 503 while it has no ID", async () => {
    const [lines = "", service = ""] = [...readme.matchAll(/^```python\n(.*?)^```$/gms)].map(([, code]) => code);
    const daemon = await sandbox.startDaemon();
    const shown = lines
      .replace("http://127.0.0.1:7070", daemon.url)
      .replaceAll(/^(ids\.(?:next|lease).*?) +#/gm, "print($1) #");
    const { code, stdout, stderr } = await runScript("", shown);
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    expect(stdout).toMatch(/^\d{19}\n[0-9A-Za-z]{11}\n\d+\n$/);

    writeFileSync(join(sandbox.work, "service.py"), service);
    const socket = join(sandbox.work, "web.sock");
    const gunicorn = await startGunicorn(daemon.url, socket, ["--workers", "2", "service:app"]);
    const post = async (): Promise<string> => {
      const args = ["-s", "-i", "-X", "POST", "--unix-socket", socket, "http://localhost/orders"];
      return (await sandbox.started(spawn("curl", args)).ended).stdout;
    };
    const ids = await Promise.all(
      Array.from({ length: 50 }, async () => /"id":\s*"(\d+)"/.exec(await post())?.[1] ?? "none"),
    );
    await expectAudited(sandbox, daemon.url, ids, "orders");
    gunicorn.signal("SIGTERM");
    await gunicorn.ended;

    await daemon.end("SIGKILL");
    const again = await startGunicorn(daemon.url, socket, ["--workers", "2", "service:app"]);
    const refused = await post();
    expect(refused).toMatch(/^HTTP\/1.1 503 .*^retry-after: 1\r\n.*REGISTRY_UNAVAILABLE/ims);
    again.signal("SIGTERM");
    await again.ended;
  });

  const holders = (): HolderPrograms => ({
    sandbox,
    ids: (count, msBetween = 0) => [join(tools, "python"), "-m", "snowlease", String(count), String(msBetween)],
    crew: [join(tools, "python"), join(programs, "crew.py"), "3", "3", "2000"],
    // Each process makes one ID besides those of its threads; the parent makes one more.
    crewIds: 4 * (1 + 3 * 2000) + 1,
    environment: environment(""),
    terminated: 0,
  });
  testHolders(holders);
  testBorrowers(holders);

  test("the end of the interpreter gives back, os._exit does not, and the end of a forked child leaves its parent's lease alone", async () => {
    const { url } = await sandbox.startDaemon();
    const script = `
import os, sys
from snowlease import Snowflake
ids = Snowflake()
print(ids.next())
for leave in (lambda: sys.exit(0), lambda: os._exit(0)):
    child = os.fork()
    if child == 0:
        print(ids.next(), flush=True)
        leave()
    os.waitpid(child, 0)
if os.fork() == 0:
    sys.exit(0)
os.wait()
print(ids.next(), ids.lease is not None)
`;
    const { code, stdout, stderr } = await runScript(url, script);
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    const lines = stdout.trim().split(/\s+/);
    expect(lines.pop()).toBe("True");
    await expectAudited(sandbox, url, [...new Set(lines)]);
    const records = await sandbox.workers();
    // The second child got the worker ID that the first one gave back.
    expect(records.map(({ workerId, clean }) => [workerId, clean])).toEqual([
      [0, true],
      [1, false],
    ]);
  });

  test("reaches a daemon over a socket", async () => {
    const socket = join(sandbox.work, "d.sock");
    await sandbox.serve("--socket", socket, "--listen", "127.0.0.1:0");
    const script = "from snowlease import Snowflake\nwith Snowflake() as ids: print(ids.next())";
    expect(await runScript(`unix:${socket}`, script)).toMatchObject({ code: 0, stderr: "" });
  });

  test("does not take a shared lease for its own", async () => {
    const script = `
import os
from snowlease import Snowflake, SnowleaseError
try:
    print(Snowflake("unix:" + os.environ["SNOWLEASE_LEASE_SOCKET"], operation_timeout=30).next())
except SnowleaseError as error:
    print(error.code)
`;
    const exec = ["exec", "--registry", sandbox.registry, "--", join(tools, "python"), "-c", script];
    const { SNOWLEASE_REGISTRY: _, ...env } = environment("");
    expect(await sandbox.run(exec, { env })).toEqual({ code: 0, stdout: "CONFIG_INVALID\n", stderr: "" });
  });

  test.each(["sync", "gthread", "gevent"])(
    "gunicorn: eight workers (%s) forked from one loaded service",
    async (kind) => {
      const { url } = await sandbox.startDaemon();
      const { workerIds, ids } = await askGunicorn(url, kind);
      // A worker ID for each of them, and none for the process that forked them.
      expect(workerIds.size).toBe(8);
      expect(await sandbox.workers()).toHaveLength(8);
      expect((await sandbox.workers()).every(({ clean }) => clean)).toBe(true);
      await expectAudited(sandbox, url, ids);
    },
  );

  test("Celery: the processes of a prefork worker", async () => {
    const { url } = await sandbox.startDaemon();
    const env = { ...environment(url), QUEUE: join(sandbox.work, "queue") };
    const surroundings = sandbox.surroundings(env);
    const args = [
      "-A",
      "tasks",
      "worker",
      "--pool",
      "prefork",
      "--concurrency",
      "4",
      "--loglevel",
      "warning",
      "-O",
      "fair",
    ];
    const worker: CliProcess = sandbox.started(spawn(join(tools, "celery"), args, surroundings));
    const caller = sandbox.started(spawn(join(tools, "python"), [join(programs, "tasks.py"), "60"], surroundings));
    const { code, stdout, stderr } = await caller.ended;
    expect({ code, stderr }, worker.stderr).toEqual({ code: 0, stderr: "" });
    const answers = stdout
      .trim()
      .split("\n")
      .map((line) => line.split(" "));
    expect(answers).toHaveLength(60);
    const ids = answers.flatMap(([, ...made]) => made);
    const processes = new Set(answers.map(([process]) => process));
    expect(new Set(ids.map(workerOf)).size).toBe(processes.size);
    worker.signal("SIGTERM");
    await worker.ended;
    await expectAudited(sandbox, url, ids);
  });
});

/** Asks the service behind a socket for IDs. */
async function curl(socket: string): Promise<{ readonly worker: string; readonly lines: readonly string[] }> {
  const child = sandbox.started(spawn("curl", ["-s", "-i", "--unix-socket", socket, "http://localhost/"]));
  const { stdout } = await child.ended;
  const [head = "", body = ""] = stdout.split("\r\n\r\n");
  expect(head).toMatch(/^HTTP\/1\.1 200/);
  return { worker: /x-worker: (.*)/i.exec(head)?.[1]?.trim() ?? "", lines: body.trim().split("\n") };
}

/** A gunicorn, once it listens, with its workers forked from one loaded service. */
async function startGunicorn(registry: string, socket: string, service: readonly string[]): Promise<CliProcess> {
  const bound = ["--bind", `unix:${socket}`, "--worker-tmp-dir", sandbox.work, "--no-control-socket"];
  const args = ["--preload", ...bound, ...service];
  const gunicorn = sandbox.started(spawn(join(tools, "gunicorn"), args, sandbox.surroundings(environment(registry))));
  await until(() => gunicorn.isOver || gunicorn.stderr.includes("Listening at"));
  return gunicorn;
}

/** Asks a service of eight gunicorn workers until each has answered. Then ends it. */
async function askGunicorn(
  registry: string,
  kind: string,
): Promise<{ readonly workerIds: ReadonlySet<string | undefined>; readonly ids: readonly string[] }> {
  const socket = join(sandbox.work, "web.sock");
  const gunicorn = await startGunicorn(registry, socket, ["--workers", "8", "--worker-class", kind, "web:app"]);
  const ids: string[] = [];
  const seen = new Set<string>();
  while (seen.size < 8 || ids.length < 20_000) {
    if (gunicorn.isOver) throw new Error(gunicorn.stderr);
    const answers = await Promise.all(Array.from({ length: 16 }, () => curl(socket)));
    for (const { worker, lines } of answers) {
      seen.add(worker);
      ids.push(...lines);
    }
  }
  gunicorn.signal("SIGTERM");
  expect((await gunicorn.ended).code).toBe(0);
  return { workerIds: new Set([...seen].map((worker) => worker.split(" ")[1])), ids };
}
