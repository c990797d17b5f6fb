// Finds what tests leave behind: running processes, files and folders. Each is a defect of a test: it slows later tests, and fills the
// machine. Shared memory does not count, since nothing shows which run made it.

import { chmodSync, mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

/** How long a process may take to end after it was asked to, ms. A server writes its data first. */
const patience = 10_000;

/** A file of testcontainers that other processes may hold. Testcontainers never removes it. */
const lock = /^testcontainers-node-\d+\.lock$/;

/**
 * A folder for the temporary files of one run. Files and processes that are still in it after the run were left behind. Its name is
 * short, since it contains sockets, whose paths have at most 107 bytes.
 */
export class RunFolder {
  path = mkdtempSync(join(tmpdir(), "sl-"));

  constructor() {
    // Servers that refuse to run as root run as another user.
    chmodSync(this.path, 0o711);
  }

  /** The programs whose files or folder are in this folder, by their process IDs. Works only on Linux. */
  processes() {
    return readdirSync(process.platform === "linux" ? "/proc" : this.path)
      .filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)
      .map((pid) => ({ pid: Number(pid), command: textOf(pid, "cmdline").replaceAll("\0", " ").trim() }))
      .filter(({ pid, command }) => {
        return [command, textOf(pid, "environ"), folderOf(pid)].some((text) => text.includes(this.path));
      });
  }

  /** Ends the processes of this folder, and removes it. @returns what there was, a line each. */
  async clear() {
    for (const end = Date.now() + patience; Date.now() < end && this.processes().length > 0;) await sleep(100);
    const processes = this.processes();
    const names = readdirSync(this.path).filter((name) => !lock.test(name));
    for (const { pid } of processes) {
      try {
        process.kill(pid, "SIGKILL");
      } catch {
        // The process has ended meanwhile.
      }
    }
    rmSync(this.path, { recursive: true, force: true });
    return [
      ...processes.map(({ pid, command }) => `left behind: process ${pid}, ${command.slice(0, 200)}`),
      ...names.map((name) => `left behind: ${join(this.path, name)}`),
    ];
  }
}

/** A file about a process; empty if the process has ended, or belongs to another user. */
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
