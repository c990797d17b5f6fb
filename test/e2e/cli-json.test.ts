import { copyFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, describe, expect, test } from "vitest";
import { commands } from "../../src/cli/commands.ts";
import { type CliProcess, type CliResult, Sandbox } from "../support/cli.ts";
import { CliShapes } from "../support/cli-shapes.ts";

/** Fields that no command prints here, each with the reason. */
const notSeen: Readonly<Record<string, string>> = {
  "HistoryRow continuedFrom": "of a holder that begins within 10 s of the last one: a slow machine may take longer",
  "Worker marked": "of a Redis or an SQL database that westid for Java shares",
  "audit notes[].by": "the same",
  "migrate plan hosts[].usedUntil": "of a source that shows times: the server of another scheme",
  "migrate status hosts[].usedUntil": "the same",
  "migrate status headroom": "of a source that hands out worker IDs upwards: the server of another scheme",
  "top forecast": "of a registry that was in use a day ago",
  "verify contract": "takes a minute: verify.test.ts holds a whole report against the shape",
  "verify restarts": "the same",
  "verify nemesis.first": "of a registry on which an ID came twice",
  "verify removal.left[].namespace": "of a registry that refuses a removal",
  "verify removal.left[].reason": "the same",
};

/** As a JavaScript number would print it. */
const rounded = "1278549019894743000";

const shapes = new CliShapes();
let sandbox: Sandbox;
let at: readonly string[];
beforeEach(() => {
  sandbox = new Sandbox();
  at = ["--registry", sandbox.registry];
});

/** What a command printed, which has the shape of that name. */
function shaped(name: string, args: readonly string[], text: string): unknown {
  for (const word of [...name.split(" "), "--json"]) expect(args).toContain(word);
  const value: unknown = JSON.parse(text);
  shapes.check(name, value);
  return value;
}

/** Runs a command whose name begins its arguments. */
async function run<Value>(
  name: string,
  rest: readonly string[],
  { codes = [0], input }: { readonly codes?: readonly number[]; readonly input?: string } = {},
): Promise<Value> {
  const args = [...name.split(" "), ...rest, "--json"];
  const result = await sandbox.run(args, { input });
  expect(codes, result.stderr).toContain(result.code);
  return shaped(name, args, result.stdout) as Value;
}

/** Starts a command that goes on, and reads its first line. */
async function start(
  name: string,
  rest: readonly string[],
): Promise<{ readonly running: CliProcess; readonly value: Readonly<Record<string, unknown>> }> {
  const args = [...name.split(" "), ...rest, "--json"];
  const running = sandbox.start(args);
  return { running, value: shaped(name, args, await running.line()) as Readonly<Record<string, unknown>> };
}

async function end(running: CliProcess): Promise<CliResult> {
  running.signal("SIGTERM");
  return running.ended;
}

interface Quarantined {
  readonly namespace: string;
  readonly era: string;
}

describe("the shape of", () => {
  test("commands without a registry", async () => {
    for (const shell of ["bash", "zsh", "fish"]) await run("completion", [shell]);
    for (const role of ["worker", "read", "admin"]) await run("token", [role, "orders*"]);
    expect(await run("inspect", [rounded, "1", "--layout", "rollback"])).toMatchObject([{ rounded: true }, {}]);
  });

  test("namespaces, one and several: an array", async () => {
    expect(await run("init --print", at)).toHaveLength(1);
    expect(await run("init --print", [...at, "orders", "users"])).toMatchObject([
      { namespace: "orders" },
      { namespace: "users" },
    ]);
    expect(await run("init", at)).toMatchObject([{ namespace: "default" }]);
    expect(await run("init", [...at, "orders", "users"])).toHaveLength(2);
    const [{ era } = { era: "" }] = await run<Quarantined[]>("quarantine", [...at, "orders"]);
    expect(await run("quarantine", [...at, "users", "orders"])).toHaveLength(2);
    await run("remove", [...at, "--namespace", "orders", "--era", era, "--i-know"]);
    // Behind the note of the one that was removed: in quarantine.
    expect(await run("init", [...at, "orders"])).toHaveLength(1);
  });

  test("IDs and what made them", async () => {
    expect(await run("id", [...at, "-n", "3"])).toHaveLength(3);
    const [id = "", ...others] = await run<string[]>("id", [...at, "-n", "1"]);
    expect(others).toEqual([]);
    /** An ID of another worker ID at the same time. */
    const of = (workerId: bigint): string => String(BigInt(id) + (workerId << 12n));
    await run("pin", [...at, "9", "--reason", "taken by the old billing host"]);
    expect(await run("explain", [...at, id, of(8n), of(9n)])).toMatchObject([
      { workerId: 0 },
      { unheld: { why: "unused" } },
      { unheld: { why: "pinned" } },
    ]);
    expect(await run("workers", at)).toMatchObject([
      { workerId: 0, clean: true },
      { workerId: 9, from: null },
    ]);
    const input = [id, id, of(8n), of(9n), "none", ""].join("\n");
    const found = await run<{ findings: { kind: string }[] }>("audit", at, { codes: [1], input });
    expect(found).toMatchObject({ duplicates: 1, outside: 1, pinned: 1, beyond: 0, invalid: 1 });
    expect(found.findings.map(({ kind }) => kind).toSorted()).toEqual(["duplicate", "invalid", "outside"]);
    const beyond = await run("audit", ["--layout", "safe53"], { codes: [1], input: id });
    expect(beyond).toMatchObject({ outside: null, findings: [{ kind: "beyond" }] });
    const rolled = [...at, "--namespace", "rolled"];
    await run("init", [...rolled, "--layout", "rollback"]);
    expect(await run("explain", [...rolled, rounded])).toMatchObject([{ rounded: true }]);
  });

  test("holders, and what operators do with them", async () => {
    await run("id", at);
    const { running, value } = await start("assign", [...at, "--window", "2m"]);
    await run("pin", [...at, "7", "8", "--reason", "reserved"]);
    expect(await run("workers", at)).toMatchObject([{ state: "live" }, { state: "pinned" }, { state: "pinned" }]);
    expect(await run("top", at)).toMatchObject({ counts: { live: 1, pinned: 2 } });
    await run("unpin", [...at, "7", "8"]);
    await run("release", [...at, String(value["workerId"]), "--force"]);
    expect(await run("top", at)).toMatchObject({ counts: { live: 0, resting: 1 } });
    running.closeStdin();
    await running.ended;
    await run("init", [...at, "wrapped", "--layout", "scene"]);
    await run("top", [...at, "--namespace", "wrapped"]);
    await run("doctor", at, { codes: [0, 9] });
    await run("doctor --accept-clock", at);
  });

  test("a copy that is separated, and its quarantine", async () => {
    await run("init", [...at, "--max-clock-skew", "1s"]);
    await run("id", at);
    const copied = ["--registry", `sqlite:${join(sandbox.work, "copy.db")}`];
    copyFileSync(join(sandbox.work, "registry.db"), join(sandbox.work, "copy.db"));
    const [before] = await run<[Quarantined]>("quarantine", copied);
    const { era } = await run<Quarantined>("separate", [...copied, "--era", before.era, "--i-know"]);
    expect(await run("top", copied)).toMatchObject({ alarms: [{ title: "QUARANTINE" }] });
    expect(await run("quarantine", ["end", ...copied, "--era", era, "--i-know"])).toHaveLength(1);
  });

  test("a program's own output", async () => {
    const program = [process.execPath, "-e", "console.log('no JSON')"];
    for (const json of [[], ["--json"]])
      expect(await sandbox.read(["exec", ...at, ...json, "--", ...program])).toBe("no JSON\n");
    shapes.check("exec", "no JSON\n");
  });

  test("a daemon, and a verification behind it", async () => {
    const listen = ["--listen", "127.0.0.1:0", "--resp", "127.0.0.1:0", "--socket", join(sandbox.work, "daemon.sock")];
    await run("init", at);
    const { running, value } = await start("daemon", [...at, ...listen]);
    // On a slow machine its processes may make no ID within that time, which is a failure.
    const args = [String(value["url"]), "--yes", "--only", "nemesis", "--nemesis", "2s"];
    expect(await run("verify", args, { codes: [0, 1] })).toMatchObject({ kind: "daemon", nemesis: { duplicates: 0 } });
    expect(await end(running)).toMatchObject({ code: 0 });
  });
});

describe("the shape of a migration", () => {
  const hosts = (...lines: string[]): void => writeFileSync(join(sandbox.work, "hosts.txt"), lines.join("\n"));
  const planned = (): readonly string[] => [...at, "--from", "ip", "--hosts", "hosts.txt"];

  test("whose hosts have not moved", async () => {
    hosts("orders-1 10.0.0.7", "orders-2 10.0.4.7", "orders-3 10.0.0.9", "orders-4 10.0.0.5");
    await run("migrate plan", planned());
    // No window opens while the test runs.
    await run("init", [...at, "--max-clock-skew", "10m"]);
    await run("pin", [...at, "5", "--reason", "reserved"]);
    await run("migrate plan", planned());
    expect(await run("migrate apply", at)).toMatchObject({ pinned: 2, others: [{ workerId: 5 }], left: [] });
    expect(await run("workers", at)).toMatchObject([{ workerId: 5 }, { workerId: 7 }, { owner: "10.0.0.9" }]);
    const early = ["id", ...at, "--ip", "10.0.0.9", "--claim-timeout", "1s"];
    expect(await sandbox.run(early)).toMatchObject({ code: 4, stdout: "" });
    hosts("orders-1 10.0.0.7", "orders-2 10.0.4.7", "orders-3 10.0.0.9", "orders-4 10.0.0.5", "orders-5 10.0.0.2");
    expect(await run("migrate status", at)).toMatchObject({ moved: 0, conflict: 2 });
    // A plan of fewer hosts leaves the pins of the earlier one.
    hosts("orders-3 10.0.0.9");
    await run("migrate plan", planned());
    expect(await run("migrate apply", at)).toMatchObject({ pinned: 0, unchanged: 1, left: [7] });
    expect(await run("migrate apply --revert", [...at, "--force"])).toMatchObject({ unpinned: 2 });
  });

  test("whose hosts move: one object a line while it is watched", async () => {
    hosts("orders-3 10.0.0.9");
    await run("init", [...at, "--max-clock-skew", "1s"]);
    await run("migrate plan", planned());
    await run("migrate apply", at);
    const { running, value } = await start("migrate status", ["--watch", ...at]);
    expect(value).toMatchObject({ moved: 0, old: 1 });
    const { running: program } = await start("assign", [...at, "--ip", "10.0.0.9", "--window", "15s"]);
    const { code, stdout } = await running.ended;
    expect(code).toBe(0);
    const lines = stdout.trimEnd().split("\n");
    for (const line of lines) shapes.check("migrate status", JSON.parse(line));
    expect(JSON.parse(lines.at(-1) ?? "")).toMatchObject({ moved: 1, old: 0 });
    expect(await run("migrate finish", [...at, "--window", "200ms"])).toEqual({ unpinned: 1, staying: 0, left: 0 });
    program.closeStdin();
    await program.ended;
  });
});

test("an error is a line of text on stderr, and stdout is empty", async () => {
  const { code, stdout, stderr } = await sandbox.run(["workers", ...at, "--json"]);
  expect([code, stdout]).toEqual([2, ""]);
  expect(stderr).toMatch(/^snowlease: NOT_FOUND: [^\n]+\n$/);
});

test("every command has a shape, and every shape and field of it was seen above", () => {
  const named = new Set(shapes.names.map((name) => name.split(" ")[0]));
  expect([...named].toSorted()).toEqual(Object.keys(commands).toSorted());
  expect([...shapes.checked].toSorted()).toEqual(shapes.names.toSorted());
  expect(shapes.unseen().filter((field) => !Object.hasOwn(notSeen, field))).toEqual([]);
});
