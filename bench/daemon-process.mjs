import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { setPriority } from "node:os";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const cli = fileURLToPath(new URL("../dist/cli/main.js", import.meta.url));
/** Of Linux. */
const ticksPerSecond = 100;

/** `snowlease daemon` as it is deployed, in a process of its own. */
export class DaemonProcess {
  static async start(args) {
    const child = spawn(process.execPath, [cli, "daemon", "--json", ...args], {
      env: { ...process.env, NODE_OPTIONS: "--max-semi-space-size=8" },
      stdio: ["ignore", "pipe", "pipe"],
    });
    prefer(child.pid);
    const daemon = new DaemonProcess(child);
    const line = once(createInterface({ input: child.stdout }), "line");
    const failure = daemon.exit.then(() => Promise.reject(new Error(`No daemon: ${daemon.complaints.join()}`)));
    await Promise.race([line, failure]);
    return daemon;
  }

  /** Lines of the log that are no news of a lease. */
  complaints = [];
  #child;

  constructor(child) {
    this.#child = child;
    this.exit = once(child, "exit");
    const lines = createInterface({ input: child.stderr });
    lines.on("line", (line) => {
      if (!line.startsWith('{"level":"info"') && this.complaints.length < 100) this.complaints.push(line);
    });
  }

  /** CPU time used so far, s, and the memory that is resident and was at most, MiB. */
  usage() {
    const status = readFileSync(`/proc/${this.#child.pid}/status`, "latin1");
    const [rss, peak] = ["VmRSS", "VmHWM"].map(
      (name) => Number(new RegExp(`${name}:\\s+(\\d+)`).exec(status)[1]) / 1024,
    );
    return { cpu: cpuOf(this.#child.pid), rss, peak };
  }

  /** Ends it; how long that took, ms, and its exit code. */
  async end(signal) {
    const begin = performance.now();
    this.#child.kill(signal);
    const [code] = await this.exit;
    return { code, took: performance.now() - begin };
  }
}

/** CPU time that a process has used so far, s. */
export function cpuOf(pid) {
  const stat = readFileSync(`/proc/${pid}/stat`, "latin1");
  const [user, system] = stat.slice(stat.lastIndexOf(")")).split(" ").slice(12, 14).map(Number);
  return (user + system) / ticksPerSecond;
}

/** Elsewhere a daemon does not share its cores with its clients: for root, it need not wait for each of them here. */
export function prefer(pid) {
  try {
    setPriority(pid, -10);
  } catch {
    // Another user has to take it as it is.
  }
}
