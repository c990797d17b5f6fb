import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";

/** A host of a fleet. */
export interface FleetHost {
  readonly name: string;
  readonly address: string;
  /** The last bits of its address. */
  readonly workerId: number;
}

/** A process in which some hosts of a fleet make IDs: see rack.mjs. */
export class Rack {
  readonly hosts: readonly FleetHost[];
  readonly moved: Set<FleetHost> = new Set<FleetHost>();
  readonly #options: object;
  readonly #folder: string;
  readonly #waiting = new Map<number, { resolve: (answer: object) => void; reject: (error: Error) => void }>();
  #child: ChildProcess | undefined;
  #asked = 0;

  /** `options`: those of `snowlease()` for a host that has moved. `folder`: where its IDs are written. */
  constructor(hosts: readonly FleetHost[], options: object, folder: string) {
    this.hosts = hosts;
    this.#options = options;
    this.#folder = folder;
  }

  /** Starts the process, or starts it again with each host as it was. */
  async start(): Promise<void> {
    const child = fork(join(import.meta.dirname, "rack.mjs"), [JSON.stringify(this.#options), this.#folder], {
      env: { PATH: process.env["PATH"] },
      stdio: ["ignore", "inherit", "inherit", "ipc"],
    });
    this.#child = child;
    child.on("message", ({ id, answer, error }: { id: number; answer: object; error?: string }) => {
      const waiting = this.#waiting.get(id);
      this.#waiting.delete(id);
      if (error === undefined) waiting?.resolve(answer);
      else waiting?.reject(new Error(error));
    });
    child.on("exit", () => {
      for (const { reject } of this.#waiting.values()) reject(new Error("The rack ended."));
      this.#waiting.clear();
    });
    await Promise.all(this.hosts.map((host) => this.#ask("add", { host, moved: this.moved.has(host) })));
  }

  /** Stops the old way on a host, which continues with a lease. Returns its worker ID, and when the old way ended. */
  async move(host: FleetHost): Promise<{ readonly workerId: number; readonly stoppedAt: number }> {
    const answer = await this.#ask("move", { host });
    this.moved.add(host);
    return answer as { workerId: number; stoppedAt: number };
  }

  /** How many IDs each host has made with a lease since the last start of the process. */
  async made(): Promise<Readonly<Record<string, number>>> {
    return (await this.#ask("made")) as Record<string, number>;
  }

  /** Gives all worker IDs back. */
  async close(): Promise<void> {
    await this.#ask("close");
  }

  /** kill -9, if the process runs. */
  async kill(): Promise<void> {
    const child = this.#child;
    this.#child = undefined;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const exit = once(child, "exit");
    child.kill("SIGKILL");
    await exit;
  }

  /** The IDs that a host has made without a lease, or with one. A line that a kill cut off does not count. */
  ids({ name }: FleetHost, kind: "old" | "leased"): readonly string[] {
    const file = this.file({ name }, kind);
    return existsSync(file) ? readFileSync(file, "utf8").split("\n").slice(0, -1) : [];
  }

  file({ name }: Pick<FleetHost, "name">, kind: "old" | "leased"): string {
    return join(this.#folder, `${name}.${kind}`);
  }

  #ask(command: string, rest: object = {}): Promise<object> {
    const id = ++this.#asked;
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject });
      this.#child?.send({ id, command, ...rest }, (error) => error !== null && reject(error));
    });
  }
}
