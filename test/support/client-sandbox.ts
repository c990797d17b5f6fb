import { onTestFinished } from "vitest";
import { defaultLayout } from "../../src/id/layout.ts";
import { Sandbox } from "./cli.ts";
import { type DaemonProcess, startDaemonProcess } from "./daemon-process.ts";

/** A worker ID as `snowlease workers --json` lists it. */
interface ListedWorker {
  readonly workerId: number;
  readonly state: string;
  readonly until: number;
  readonly clean: boolean;
  readonly instance: string;
}

/** A place to test the client of another language: a registry file, and daemons on it. */
export class ClientSandbox extends Sandbox {
  /** The registry's records, except for the daemons themselves. */
  async workers(namespace = "default"): Promise<ListedWorker[]> {
    const flags = ["--json", "--namespace", namespace, "--registry", this.registry];
    const all = JSON.parse(await this.read(["workers", ...flags])) as ListedWorker[];
    return all.filter(({ instance }) => instance !== "daemon");
  }

  /** Starts a daemon, which ends with the test. Port 0: a free port. */
  async startDaemon(port = 0, ...flags: readonly string[]): Promise<DaemonProcess> {
    const daemon = await startDaemonProcess(this.registry, port, flags);
    onTestFinished(async () => void (await daemon.end("SIGKILL")));
    return daemon;
  }
}

export const timeOf = (id: string): number => defaultLayout.decompose(BigInt(id)).timestamp;
export const workerOf = (id: string): number => defaultLayout.decompose(BigInt(id)).workerId;
