import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { describe, expect, onTestFinished, test } from "vitest";
import { isGone, place, self } from "../../src/registries/redis/processes.ts";
import { eventually } from "../support/holder.ts";

/** The machine's data on a process; empty if there is none. */
function stat(pid: number): string[] {
  try {
    return readFileSync(`/proc/${pid}/stat`, "latin1").replace(/^.*\)/s, "").trim().split(" ");
  } catch {
    return [];
  }
}

const nameOf = (pid: number): string => `${place}${pid}/${stat(pid)[19]}`;

function start(
  command: string,
  ...args: string[]
): { readonly pid: number; readonly name: string; kill(): Promise<void> } {
  const child = spawn(command, args, { stdio: "ignore" });
  onTestFinished(() => void child.kill("SIGKILL"));
  const pid = child.pid ?? 0;
  return {
    pid,
    name: nameOf(pid),
    async kill() {
      const exit = once(child, "exit");
      child.kill("SIGKILL");
      await exit;
    },
  };
}

describe.skipIf(place === undefined)("the identity of a process", () => {
  test("this one runs", () => {
    expect(self).toBe(nameOf(process.pid));
    expect(isGone(self ?? "")).toBe(false);
  });

  test("an ended process is gone; a stopped one is not", async () => {
    const one = start("sleep", "60");
    expect(isGone(one.name)).toBe(false);
    process.kill(one.pid, "SIGSTOP");
    await eventually(
      async () => stat(one.pid)[0],
      (state) => state === "T",
    );
    expect(isGone(one.name)).toBe(false);
    await one.kill();
    expect(isGone(one.name)).toBe(true);
  });

  test("a pid that another process has now is not the earlier process", () => {
    // As after a reuse of all pids: the same number, started at another time.
    const one = start("sleep", "60");
    expect(isGone(`${place}${one.pid}/1`)).toBe(true);
    expect(isGone(one.name)).toBe(false);
  });

  test("a zombie is gone", async () => {
    // A parent that never collects its child.
    const parent = start("sh", "-c", "sleep 60 & exec sleep 60");
    const childOf = (): number | undefined => {
      const { stdout } = spawnSync("ps", ["-o", "pid=", "--ppid", String(parent.pid)]);
      const pid = Number(String(stdout).trim().split("\n")[0]);
      return pid > 0 ? pid : undefined;
    };
    const child =
      (await eventually(
        async () => childOf(),
        (pid) => pid !== undefined,
      )) ?? 0;
    const name = nameOf(child);
    expect(isGone(name)).toBe(false);
    process.kill(child, "SIGKILL");
    await eventually(
      async () => stat(child)[0],
      (state) => state === "Z",
    );
    expect(isGone(name)).toBe(true);
  });

  test("a program whose name looks like the following fields", async () => {
    const folder = mkdtempSync(join(tmpdir(), "snowlease-name-"));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    const program = join(folder, "a) Z 1 1");
    symlinkSync("/bin/sleep", program);
    const one = start(program, "60");
    await eventually(
      async () => readFileSync(`/proc/${one.pid}/comm`, "latin1"),
      (name) => name.startsWith("a) Z"),
    );
    expect(isGone(nameOf(one.pid))).toBe(false);
  });

  test("nothing can be known of another machine, another boot or another pid namespace", () => {
    const [machine, boot, namespace] = (place ?? "").split("/");
    for (const other of [`x/${boot}/${namespace}/`, `${machine}/x/${namespace}/`, `${machine}/${boot}/pid:[1]/`]) {
      expect(isGone(`${other}1/1`)).toBe(false);
      expect(isGone(`${other}${process.pid}/1`)).toBe(false);
    }
  });

  test.runIf(process.getuid?.() === 0)("a container that sees the same pid is another place", () => {
    const module = pathToFileURL(join(import.meta.dirname, "../../dist/registries/redis/processes.js")).href;
    const script = `import { isGone, place, self } from ${JSON.stringify(module)};
      console.log(JSON.stringify({ place, self, gone: isGone(${JSON.stringify(self)}) }));`;
    const { stdout, status } = spawnSync("unshare", [
      "--pid",
      "--fork",
      "--mount-proc",
      process.execPath,
      "--input-type=module",
      "-e",
      script,
    ]);
    if (status !== 0) return;
    const inside = JSON.parse(String(stdout)) as { place: string; self: string; gone: boolean };
    expect(inside.place).not.toBe(place);
    expect(inside.gone).toBe(false);
    expect(isGone(inside.self)).toBe(false);
  });

  test.each(["", "x", `${place}`, `${place}abc/1`, `${place}-1/1`, `${place}0/1`, `${place}1.5/1`])(
    "%j names no process, so no process counts as gone by it",
    (name) => {
      expect(isGone(name)).toBe(false);
    },
  );
});
