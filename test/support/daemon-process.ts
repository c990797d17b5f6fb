import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { newRegistryFile } from "./registry-file.ts";
import type { Subject } from "./subject.ts";

/** A daemon as a process of its own. */
export interface DaemonProcess {
  readonly url: string;
  readonly port: number;
  /** The address of its Redis protocol; empty if it has none. */
  readonly resp: string;
  /** What it has written to stderr: its log. */
  readonly log: string;
  signal(signal: "SIGSTOP" | "SIGCONT"): void;
  readonly pid: number;
  /** SIGTERM drains the daemon, SIGKILL does not. Resolves to the exit code, null after a signal. */
  end(signal?: "SIGTERM" | "SIGKILL"): Promise<number | null>;
}

/**
 * Starts `snowlease daemon` on a registry. Port 0 takes a free port. The daemon dies with this process, however this process ends.
 * @param environment additions to its environment.
 */
export async function startDaemonProcess(
  registry: string,
  port = 0,
  flags: readonly string[] = [],
  environment: Readonly<Record<string, string>> = {},
): Promise<DaemonProcess> {
  const cli = join(import.meta.dirname, "../../dist/cli/main.js");
  const args = [cli, "daemon", "--json", "--registry", registry, "--listen", `127.0.0.1:${port}`, ...flags];
  const child = spawn("setpriv", ["--pdeathsig", "KILL", process.execPath, ...args], {
    env: { ...process.env, ...environment },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let log = "";
  child.stderr.on("data", (chunk: Buffer) => (log += chunk.toString()));
  const exit = once(child, "exit");
  const line = once(createInterface({ input: child.stdout }), "line");
  const first = await Promise.race([line, exit.then(() => undefined)]);
  if (first === undefined || child.pid === undefined) {
    throw new Error(`The daemon on ${registry} did not start: ${log}`);
  }
  const { url, resp = "" } = JSON.parse(String(first[0])) as { url: string; resp?: string };
  return {
    url,
    resp,
    port: Number(new URL(url).port),
    pid: child.pid,
    get log() {
      return log;
    },
    signal: (signal) => void child.kill(signal),
    async end(signal = "SIGTERM") {
      child.kill(signal);
      const [code] = (await exit) as [number | null];
      return code;
    },
  };
}

/** A daemon on an embedded registry of its own. */
export async function newDaemonOnFile(): Promise<Subject> {
  const file = await newRegistryFile();
  const daemon = await startDaemonProcess(file.url);
  return {
    url: daemon.url,
    registry: file.registry,
    async stop() {
      await daemon.end();
      await file.stop();
    },
  };
}
