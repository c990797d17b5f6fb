import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";

/** A daemon as a process of its own. */
export interface DaemonProcess {
  readonly url: string;
  readonly port: number;
  /** SIGTERM drains, SIGKILL does not; resolves with the exit code, null after a signal. */
  end(signal?: "SIGTERM" | "SIGKILL"): Promise<number | null>;
}

/** Starts `snowlease daemon` on a registry; port 0 takes a free one. */
export async function startDaemonProcess(registry: string, port = 0): Promise<DaemonProcess> {
  const cli = join(import.meta.dirname, "../../dist/cli/main.js");
  const args = [cli, "daemon", "--json", "--registry", registry, "--listen", `127.0.0.1:${port}`];
  const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "ignore"] });
  const exit = once(child, "exit");
  const line = once(createInterface({ input: child.stdout }), "line");
  const first = await Promise.race([line, exit.then(() => undefined)]);
  if (first === undefined) throw new Error(`The daemon on ${registry} did not start.`);
  const { url } = JSON.parse(String(first[0])) as { url: string };
  return {
    url,
    port: Number(new URL(url).port),
    async end(signal = "SIGTERM") {
      child.kill(signal);
      const [code] = (await exit) as [number | null];
      return code;
    },
  };
}
