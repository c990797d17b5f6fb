import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { onTestFinished } from "vitest";
import { HolderProcess as Holder } from "../../src/proof/holder-process.ts";
import type { WallClock } from "./wall-clock.ts";

export { HolderError } from "../../src/proof/holder-process.ts";
export type { HolderState } from "../../src/proof/holder-protocol.ts";

/** Looks repeatedly until the result fits; a test that waits in vain ends by its own timeout. */
export async function eventually<T>(look: () => Promise<T>, isSo: (seen: T) => boolean): Promise<T> {
  for (;;) {
    const seen = await look();
    if (isSo(seen)) return seen;
    await sleep(20);
  }
}

/** A folder that is removed with the test. */
function newFolder(name: string): string {
  const folder = mkdtempSync(join(tmpdir(), `snowlease-${name}-`));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** A process that leases a worker ID and makes IDs. */
export class HolderProcess extends Holder {
  /** @param clock its wall clock, or further variables for its environment. */
  constructor(options: object, clock?: Pick<WallClock, "environment">) {
    super(options, { folder: newFolder("ids"), environment: clock?.environment });
  }
}

/** The environment, without variables that a holder would read. */
export function withoutSnowlease(): NodeJS.ProcessEnv {
  return Object.fromEntries(
    Object.entries(process.env).filter(([name]) => !/^(SNOWLEASE|WESTID|NODE_OPTIONS|VITEST)/.test(name)),
  );
}
