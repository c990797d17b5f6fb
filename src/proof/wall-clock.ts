import { openSync, readSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** The variable of a holder's environment with the file of its clock. */
const variable = "PROOF_CLOCK";

/** The wall clock of some holders: set back or forward while they run, as a real step would; the monotonic clock stays. */
export class WallClock {
  readonly #path: string;

  /** @param folder for the file that tells its offset. */
  constructor(offsetSeconds: number, folder: string) {
    this.#path = join(folder, `${crypto.randomUUID()}.clock`);
    writeFileSync(this.#path, "");
    this.set(offsetSeconds);
  }

  set(offsetSeconds: number): void {
    // In its place: holders have it open.
    writeFileSync(this.#path, Float64Array.of(offsetSeconds * 1000), { flag: "r+" });
  }

  get environment(): Record<string, string> {
    return { [variable]: this.#path };
  }
}

/** In the process of a holder: `Date.now` shows what its clock shows. */
export function followWallClock(): void {
  const path = process.env[variable];
  if (path === undefined) return;
  const file = openSync(path, "r");
  const offset = new Float64Array(1);
  const machine = Date.now;
  Date.now = () => {
    readSync(file, offset, 0, offset.byteLength, 0);
    return Math.floor(machine() + (offset[0] ?? 0));
  };
}
