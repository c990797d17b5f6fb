// What tests leave behind: processes that go on, files and folders. Each is a defect of a test: it slows the tests behind it, and a machine
// fills with it. Shared memory does not count: nothing tells which run it is of.

import { chmodSync, mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

/** How long a process that was told to end may take, ms: a server writes what it has. */
const patience = 10_000;

/** A file of testcontainers, which other processes may hold: it never removes it. */
const lock = /^testcontainers-node-\d+\.lock$/;

/**
 * A folder for the temporary files of one run. What is in it, or goes on in it, when the run is over was left behind.
 * Its name is short: sockets lie in it, and their paths have 107 bytes.
 */
export class RunFolder {
  path = mkdtempSync(join(tmpdir(), "sl-"));

  constructor() {
    // Servers that refuse to be root run as another user.
    chmodSync(this.path, 0o711);
  }

  /** The programs whose files or folder lie in here, by their process IDs. Only Linux tells. */
  processes() {
    return readdirSync(process.platform === "linux" ? "/proc" : this.path)
      .filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)
      .map((pid) => ({ pid: Number(pid), command: textOf(pid, "cmdline").replaceAll("\0", " ").trim() }))
      .filter(({ pid, command }) => {
        return [command, textOf(pid, "environ"), folderOf(pid)].some((text) => text.includes(this.path));
      });
  }

  /** Ends what goes on in here, and removes it. @returns what there was, a line each. */
  async clear() {
    for (const end = Date.now() + patience; Date.now() < end && this.processes().length > 0;) await sleep(100);
    const processes = this.processes();
    const names = readdirSync(this.path).filter((name) => !lock.test(name));
    for (const { pid } of processes) {
      try {
        process.kill(pid, "SIGKILL");
      } catch {
        // It has ended meanwhile.
      }
    }
    rmSync(this.path, { recursive: true, force: true });
    return [
      ...processes.map(({ pid, command }) => `left behind: process ${pid}, ${command.slice(0, 200)}`),
      ...names.map((name) => `left behind: ${join(this.path, name)}`),
    ];
  }
}

/** A file about a process; empty where it has ended, or is another user's. */
function textOf(pid, name) {
  try {
    return readFileSync(`/proc/${pid}/${name}`, "latin1");
  } catch {
    return "";
  }
}

function folderOf(pid) {
  try {
    return readlinkSync(`/proc/${pid}/cwd`);
  } catch {
    return "";
  }
}
