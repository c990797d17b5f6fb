import { chmodSync, readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { examine } from "../../src/ops/doctor/doctor.ts";
import { fakeClock } from "../../src/testing.ts";
import { claimRequest, granted } from "../support/claims.ts";
import { namespace, newFolder, openSqlite } from "../support/sqlite.ts";

/** Stands still: a claim is never late. */
const clock = fakeClock();
let folder: string;
let path: string;
let warnings: string[];

beforeEach(() => {
  folder = newFolder();
  path = join(folder, "registry.db");
  warnings = [];
  const note = (warning: NodeJS.ErrnoException): void => {
    if (warning.code === "SNOWLEASE_EXPOSED") warnings.push(warning.message);
  };
  process.on("warning", note);
  const umask = process.umask(0o022);
  onTestFinished(() => {
    process.umask(umask);
    process.off("warning", note);
  });
});

/** The modes of all files there, with a claim in the log. */
async function modes(): Promise<Record<string, string>> {
  await granted(await openSqlite(path, { clock }), claimRequest({ clock: clock.now() }));
  await new Promise(setImmediate);
  return Object.fromEntries(
    readdirSync(folder).map((name) => [name, (statSync(join(folder, name)).mode & 0o777).toString(8)]),
  );
}

function each(mode: string): Record<string, string> {
  return Object.fromEntries(["", "-shm", "-wal"].map((end) => [`registry.db${end}`, mode]));
}

describe("a registry's files, in which the key of receipts stands", () => {
  test("are for their user alone", async () => {
    expect(await modes()).toEqual(each("600"));
    expect(warnings).toEqual([]);
  });

  test("are for the group, too, where it may write to the folder, as far as the umask goes", async () => {
    chmodSync(folder, 0o2770);
    process.umask(0o002);
    expect(await modes()).toEqual(each("660"));
    expect(warnings).toEqual([]);
  });

  test.each([0o660, 0o640])("that were given mode %o on purpose keep it, without a word", async (mode) => {
    await (await openSqlite(path)).close();
    chmodSync(path, mode);
    expect(await modes()).toEqual(each(mode.toString(8)));
    expect(warnings).toEqual([]);
  });

  test.each([0o644, 0o666])("of mode %o keep it, and the process is warned once of what to do", async (mode) => {
    await (await openSqlite(path)).close();
    chmodSync(path, mode);
    expect(await modes()).toEqual(each(mode.toString(8)));
    await openSqlite(path);
    await new Promise(setImmediate);
    expect(warnings).toEqual([
      `Every user of this machine may open the registry file ${path}, and with the key in it forge receipts, which begin quarantines: run \`chmod o-rwx ${path} ${path}-wal ${path}-shm\`.`,
    ]);
  });

  test("are a warning of doctor while every user may open them", async () => {
    await modes();
    const finding = async (): Promise<unknown> => {
      const open = (): ReturnType<typeof openSqlite> => openSqlite(path, { clock });
      const findings = await examine({ open, named: true, namespace, file: path, now: clock.now });
      return findings.find(({ check }) => check === "file");
    };
    expect(await finding()).toMatchObject({ status: "ok" });
    chmodSync(`${path}-wal`, 0o644);
    expect(await finding()).toMatchObject({
      status: "warn",
      detail: expect.stringMatching(/run `chmod o-rwx \S+-wal`\.$/) as string,
    });
  });
});
