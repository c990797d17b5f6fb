import { copyFileSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, describe, expect, test } from "vitest";
import { Sandbox } from "../support/cli.ts";

interface Report {
  readonly id: string;
  readonly originalId: string;
  readonly era: string;
  readonly quarantineEnd?: number;
  readonly quarantineUntil?: number;
  readonly remainingMs: number;
}

let sandbox: Sandbox;
/** A registry that was used, and a copy of its file. */
let original: string;
let copy: string;
let era: string;
beforeEach(async () => {
  sandbox = new Sandbox();
  original = sandbox.registry;
  await sandbox.read(["init", "--registry", original, "--max-clock-skew", "1s"]);
  await sandbox.read(["id", "-n", "3", "--registry", original]);
  copyFileSync(join(sandbox.work, "registry.db"), join(sandbox.work, "copy.db"));
  copy = `sqlite:${join(sandbox.work, "copy.db")}`;
  ({ era } = await look(original));
});

const look = async (url: string): Promise<Report> => {
  const [report] = JSON.parse(await sandbox.read(["quarantine", "--json", "--registry", url])) as [Report];
  return report;
};
const workers = (url: string): Promise<string> => sandbox.read(["workers", "--json", "--registry", url]);
const separate = (url: string, ...args: string[]): string[] => ["separate", "--registry", url, ...args];

/** Refused in one line, with nothing changed. */
async function expectRefused(url: string, args: readonly string[], message: RegExp, code = 2): Promise<void> {
  const present = async (): Promise<object> => {
    const { id, era, quarantineEnd } = await look(copy);
    return { id, era, quarantineEnd, workers: await workers(copy) };
  };
  const before = await present();
  const result = await sandbox.run(separate(url, ...args));
  expect(result).toMatchObject({ code, stdout: "" });
  expect(result.stderr).toMatch(message);
  expect(result.stderr).toMatch(/^snowlease: [^\n]+\n$/);
  expect(await present()).toEqual(before);
}

test("a copy gets an id and an era of its own, once for each command, and the original stays as it is", async () => {
  const before = await look(original);
  expect((await look(copy)).id).toBe(before.id);
  const records = await workers(copy);
  const text = await sandbox.read(separate(copy, "--era", era, "--i-know"));
  const { id, era: next, quarantineEnd = 0, quarantineUntil } = await look(copy);
  expect(id).toMatch(/^[\da-f]{32}$/);
  expect([id, next]).not.toEqual([before.id, era]);
  expect(quarantineUntil).toBe(quarantineEnd);
  expect(text).toMatch(new RegExp(`^ID +${id}$`, "m"));
  expect(text).toMatch(new RegExp(`^ORIGINAL ID +${before.id}$`, "m"));
  expect(text).toMatch(new RegExp(`^ERA +${next}$`, "m"));
  expect(text).toContain(`Nothing is granted until ${new Date(quarantineEnd).toISOString()}`);
  expect(text).toContain(`it still has the id ${before.id}`);
  expect(text).toContain(copy);
  expect(await workers(copy)).toBe(records);
  expect(await look(original)).toMatchObject({ id: before.id, era });

  await expectRefused(copy, ["--era", era, "--i-know"], new RegExp(`is in the era \`${next}\`.* nothing was changed`));
  const refused = await sandbox.run(["id", "-n", "1", "--registry", copy, "--claim-timeout", "0"]);
  expect(refused).toMatchObject({ code: 5, stderr: expect.stringContaining("QUARANTINE") as string });
  await sandbox.read(["quarantine", "end", "--registry", copy, "--era", next, "--i-know"]);
  expect(await sandbox.read(["id", "-n", "1", "--registry", copy, "--claim-timeout", "30s"])).toMatch(/^\d+\n$/);

  const again = JSON.parse(await sandbox.read(separate(copy, "--era", next, "--i-know", "--json"))) as Report;
  expect(again).toMatchObject({ namespace: "default", originalId: id, id: (await look(copy)).id });
  expect(again.id).not.toBe(id);
  expect(again.remainingMs).toBeGreaterThan(0);
});

describe("nothing is changed", () => {
  test.each<[string, (era: string) => string[], RegExp]>([
    [
      "without the operator's word",
      (present) => ["--era", present],
      /`--i-know`, got nothing\. It is your word that .*copy\.db/,
    ],
    ["without an era", () => ["--i-know"], /`--era ERA`, got nothing/],
    ["with another era", (present) => ["--era", `${present}0`, "--i-know"], /nothing was changed/],
    [
      "in a namespace that does not exist",
      (present) => ["--era", present, "--i-know", "--namespace", "other"],
      /NOT_FOUND: (?!.*init).*no namespace `other`/,
    ],
    ["with an operand", (present) => ["now", "--era", present, "--i-know"], /CONFIG_INVALID/],
  ])("%s", async (_, args, message) => {
    await expectRefused(copy, args(era), message);
  });

  test("where no registry is", async () => {
    await expectRefused("sqlite:none.db", ["--era", era, "--i-know"], /NOT_FOUND/);
    expect(sandbox.files()).not.toContain("work/none.db");
  });

  test("through a daemon", async () => {
    const { url } = await sandbox.serve();
    await expectRefused(
      url,
      ["--era", era, "--i-know"],
      /got a registry of the kind `daemon`.* name the store behind it/,
    );
  });

  test("at an original in use, until its holder has given back", async () => {
    const program = ["sh", "-c", "echo $SNOWLEASE_WORKER_ID; exec sleep 600"];
    const holder = sandbox.start(["exec", "--registry", original, "--", ...program]);
    const workerId = await holder.line();
    const before = await look(original);
    const inUse = new RegExp(
      `^snowlease: WORKER_ID_HELD: .*registry\\.db is in use: a holder has a worker ID of namespace \`default\` \\(worker ${workerId}, .*, pid \\d+\\), and the last window ends at 20\\d\\d-\\S+Z; nothing was changed\\. If it is the original, name the copy`,
    );
    await expectRefused(original, ["--era", era, "--i-know"], inUse, 3);
    expect(await look(original)).toMatchObject({ id: before.id, era });
    holder.signal("SIGTERM");
    await holder.ended;
    await sandbox.read(separate(original, "--era", era, "--i-know"));
    expect((await look(original)).id).not.toBe(before.id);
  });
});
