import type { Progress } from "./prove.ts";

const phases = { faults: "under fire", pool: "claims the whole pool", check: "compares all IDs" };
/** The time between plain lines, ms. */
const plainEvery = 15_000;

/** Shows the progress of a run: one line that is overwritten on a terminal, otherwise plain lines. */
export class ProgressLine {
  readonly #name: string;
  readonly #minutes: number;
  #told = -Infinity;
  #phase: Progress["phase"] | undefined;

  constructor(name: string, minutes: number) {
    this.#name = name;
    this.#minutes = minutes;
  }

  tell({ phase, ids, faults, elapsed }: Progress): void {
    const counts = `${ids.toLocaleString("en")} IDs, ${faults.toLocaleString("en")} faults`;
    const share = phase === "faults" ? `, ${(elapsed / 60_000).toFixed(1)} of ${this.#minutes} min` : "";
    const line = `${this.#name}: ${phases[phase]}; ${counts}${share}`;
    if (process.stderr.isTTY) {
      process.stderr.write(`\r\u001B[K${line}`);
    } else if (phase !== this.#phase || performance.now() - this.#told > plainEvery) {
      console.error(line);
      this.#told = performance.now();
    }
    this.#phase = phase;
  }

  end(): void {
    if (process.stderr.isTTY) process.stderr.write("\r\u001B[K");
  }
}
