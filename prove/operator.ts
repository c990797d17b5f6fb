import { execFile } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { setTimeout as sleep } from "node:timers/promises";
import { withoutSnowlease } from "../test/support/holder.ts";
import { monotonicNow } from "./log.ts";
import { limits, namespace, type Scene } from "./scene.ts";
import type { Call } from "./sequential.ts";

/** What an operator does while holders lease. */
export type Act = "release" | "pin" | "prune" | "init" | "doctor" | "migrate";

/** What commands under fire may be told: that they may be tried again, or that a holder was faster. */
const expected = /^(?:REGISTRY_UNAVAILABLE|CLOCK_SKEW|QUARANTINE|WORKER_ID_HELD|NOT_FOUND|RATE_LIMITED)$/;
/** History that ended so long ago is pruned, ms. */
const pruned = 2000;
/** A request without an answer may arrive so much later, ms: a network holds it back for less. */
const latest = 5000;
/** Between two tries of an unpin, ms. */
const again = 200;
/** For one command, ms: it is a process, and its registry may be down. */
const patience = 60_000;

/** How a command ended. */
interface Ended {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** An operator, who uses the command line on the same ways to the registry as the holders. */
export class Operator {
  /** The calls that change what a holder may do. */
  readonly calls: Call[] = [];
  /** What no fault explains. */
  readonly troubles: string[] = [];
  /** History that ended before is gone, Unix ms. */
  prunedBefore = 0;
  readonly #scene: Scene;

  constructor(scene: Scene) {
    this.#scene = scene;
  }

  /** @param lasts how long a worker ID stays pinned, ms. */
  async act(act: Act, workerId: number, lasts: number): Promise<void> {
    const id = String(workerId);
    switch (act) {
      case "release":
        return this.#release(workerId);
      case "pin": {
        const ended = await this.#run(workerId, ["pin", id, "--reason", "kept by the operator"]);
        // A pin that arrives after the unpin would stay.
        await sleep(ended.code === 0 ? lasts : latest);
        return this.#takeBack(workerId, ["unpin", id]);
      }
      case "prune":
        return this.#prune();
      case "init": {
        const { maxWindow, maxClockSkew } = limits;
        const same = ["--max-window", `${maxWindow}ms`, "--max-clock-skew", `${maxClockSkew}ms`];
        await this.#run(workerId, ["init", ...same]);
        return;
      }
      case "doctor":
        await this.#run(workerId, ["doctor"]);
        return;
      case "migrate":
        return this.#migrate(workerId, lasts);
    }
  }

  /**
   * Ends a claim whose window has not passed. The window stays closed, and the holder is told at its next renewal. Done once more, it
   * changes nothing: it names the claim, which no holder can renew any more.
   */
  async #release(workerId: number): Promise<void> {
    const asked = monotonicNow();
    const ended = await this.#run(workerId, ["release", String(workerId), "--force", "--json"]);
    const answered = monotonicNow();
    const common = { method: "forceRelease", caller: "the operator", asked, waited: 0 } as const;
    if (ended.code === 0) {
      const { fence, until } = JSON.parse(ended.stdout) as { readonly fence: number; readonly until: number };
      const request = { namespace, workerId, fence, force: true };
      const answer = { outcome: "released", until } as const;
      this.calls.push({ ...common, request, answer, answered });
    } else if (codeOf(ended) === "REGISTRY_UNAVAILABLE") {
      const request = { namespace, workerId, force: true };
      this.calls.push({ ...common, request, answered: Infinity });
    }
  }

  /**
   * Begins to move a host, whose address stands for the worker ID, while others lease that; thinks better of it after so many ms, and takes
   * all back.
   */
  async #migrate(workerId: number, lasts: number): Promise<void> {
    const folder = mkdtempSync(join(tmpdir(), "snowlease-plan-"));
    const [hosts, plan] = [join(folder, "hosts"), join(folder, "plan.json")];
    writeFileSync(hosts, `host-${workerId} 10.0.${workerId >> 8}.${workerId & 255}\n`);
    const migrate = (...args: string[]): Promise<Ended> => this.#run(workerId, ["migrate", ...args]);
    try {
      const planned = await migrate("plan", "--from", "ip", "--hosts", hosts, "--out", plan);
      if (planned.code !== 0) return;
      const applied = await migrate("apply", plan);
      await sleep(applied.code === 0 ? lasts : latest);
      await migrate("status", plan);
      await this.#takeBack(workerId, ["migrate", "apply", plan, "--revert", "--force"]);
    } finally {
      rmSync(folder, { recursive: true });
    }
  }

  /** No command does that: registries prune by themselves, and a daemon when it is asked. */
  async #prune(): Promise<void> {
    const before = Date.now() - pruned;
    this.prunedBefore = Math.max(this.prunedBefore, before);
    await this.#scene.registry.prune(namespace, before).catch((error: unknown) => {
      const { code = "", message = String(error) } = error as { readonly code?: string; readonly message?: string };
      if (!expected.test(code)) this.troubles.push(`prune: ${message}`);
    });
  }

  /** Tries again until it is done, there is nothing to take back, or no fault explains the answer. */
  async #takeBack(holder: number, command: readonly string[]): Promise<void> {
    for (;;) {
      const code = codeOf(await this.#run(holder, command));
      if (code === "NOT_FOUND" || !expected.test(code)) return;
      await sleep(again);
    }
  }

  async #run(holder: number, [command = "", ...args]: readonly string[]): Promise<Ended> {
    const registry = ["--registry", this.#scene.url(holder), "--namespace", namespace, "--operation-timeout", "1s"];
    const program = fileURLToPath(new URL("../dist/cli/main.js", import.meta.url));
    const ended = await new Promise<Ended>((resolve) => {
      const options = { env: withoutSnowlease(), timeout: patience, killSignal: "SIGKILL" } as const;
      execFile(process.execPath, [program, command, ...args, ...registry], options, (error, stdout, stderr) => {
        resolve({ code: error === null ? 0 : typeof error.code === "number" ? error.code : -1, stdout, stderr });
      });
    });
    // A doctor that finds something prints that, and ends with 1.
    const isTold = command === "doctor" && ended.code === 1 && ended.stderr === "";
    if (ended.code !== 0 && !isTold && !expected.test(codeOf(ended))) {
      this.troubles.push(`${[command, ...args].join(" ")}, which ended with ${ended.code}: ${ended.stderr}`);
    }
    return ended;
  }
}

/** The code of its error; empty where it succeeded. */
function codeOf({ code, stderr }: Ended): string {
  return code === 0 ? "" : (/^snowlease: ([A-Z_]+): /m.exec(stderr)?.[1] ?? "?");
}
