import { chmodSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/**
 * The folder for everything that a run writes, so that nothing is left, however the run ends. A database's own user can pass through it,
 * too.
 */
export const workplace: string = mkdtempSync(join(tmpdir(), "snowlease-prove-"));
chmodSync(workplace, 0o755);
process.env["TMPDIR"] = workplace;

let kept = false;
process.once("exit", () => {
  if (!kept) rmSync(workplace, { recursive: true, force: true });
});
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.once(signal, () => process.exit(1));

/** Leaves the folder in place at the end. */
export function keepWorkplace(): void {
  kept = true;
}
