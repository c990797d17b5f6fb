import { chmodSync, chownSync, lchownSync, mkdirSync, mkdtempSync, rmSync, symlinkSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { type Daemon, startDaemon } from "../../src/daemon.ts";
import { memoryRegistry } from "../../src/testing.ts";

const isRoot = process.getuid?.() === 0;
const stranger = 65_534;

let folder: string;
let warnings: string[];
let daemons: Daemon[];
const log = { info() {}, warn: (_: object, text: string) => void warnings.push(text), error() {} };

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "snowlease-socket-"));
  [warnings, daemons] = [[], []];
});

afterEach(async () => {
  for (const daemon of daemons) await daemon.close("now");
  rmSync(folder, { recursive: true });
});

/** A folder with these rights, at this path below the test's. */
function made(path: string, mode: number, owner = 0): string {
  const name = join(folder, path);
  mkdirSync(name, { recursive: true });
  chmodSync(name, mode);
  if (isRoot) chownSync(name, owner, owner);
  return name;
}

async function start(socket: string, insecure = false): Promise<void> {
  daemons.push(await startDaemon({ registry: memoryRegistry(), socket, insecure, log }));
}

describe("a folder for the socket", () => {
  test("to which every user may write is refused, unless the operator confirms it", async () => {
    const open = made("open", 0o777);
    await expect(start(join(open, "s"))).rejects.toMatchObject({
      code: "CONFIG_INVALID",
      message: `Cannot listen on ${join(open, "s")}: every user may write to the folder ${open}, so that any user could put another socket in its place; choose a folder of the daemon's own, or say \`insecure\` where this machine or container has no other users.`,
    });
    await start(join(open, "s"), true);
  });

  test("is refused if every user may write to a parent folder, or if a link leads there", async () => {
    const open = made("open", 0o777);
    const own = made("open/own", 0o700);
    await expect(start(join(own, "s"))).rejects.toThrow(`every user may write to the folder ${open}`);
    await expect(start(join(open, "new/s"))).rejects.toThrow(`every user may write to the folder ${open}`);
    const link = join(folder, "link");
    symlinkSync("open/../open/own", link);
    await expect(start(join(link, "s"))).rejects.toThrow(`every user may write to the folder ${open}`);
  });

  test("like /tmp is taken with a warning, and one of this user's in it without", async () => {
    const shared = made("shared", 0o1777);
    await start(join(shared, "s"));
    expect(warnings).toEqual([
      `any user may listen on ${join(shared, "s")} while this daemon does not: choose a folder of the daemon's own`,
    ]);
    warnings = [];
    await start(join(shared, "new/s"));
    await start(join(made("shared/own", 0o755), "s"));
    expect(warnings).toEqual([]);
  });

  test.skipIf(!isRoot)("in one like /tmp is refused if another user made it, or the link to it", async () => {
    const shared = made("shared", 0o1777);
    const squatted = made("shared/run", 0o755, stranger);
    await expect(start(join(squatted, "s"))).rejects.toThrow(
      `Cannot listen on ${join(squatted, "s")}: ${squatted} belongs to another user (uid ${stranger}), in a folder to which every user may write`,
    );
    const link = join(shared, "link");
    symlinkSync(made("own", 0o700), link);
    lchownSync(link, stranger, stranger);
    await expect(start(join(link, "s"))).rejects.toThrow(`${link} belongs to another user`);
  });

  test("is accepted if a group may write to it, or if an administrator gave it to another owner", async () => {
    await start(join(made("group", 0o2770), "s"));
    await start(join(made("theirs", 0o775, stranger), "s"));
    expect(warnings).toEqual([]);
  });

  test.skipIf(!isRoot)("with another user's socket in place is refused, and that server goes on", async () => {
    const shared = made("shared", 0o1777);
    const path = join(shared, "s");
    const other = createServer().listen(path);
    await new Promise((resolve) => other.once("listening", resolve));
    await expect(start(path)).rejects.toThrow("another daemon listens there");
    expect(other.listening).toBe(true);
    await new Promise((resolve) => other.close(resolve));
  });
});
