import { chmodSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** Where all that a run writes is, so that nothing stays behind it, however it ends; a database's own user passes through, too. */
export const workplace: string = mkdtempSync(join(tmpdir(), "snowlease-prove-"));
chmodSync(workplace, 0o755);
process.env["TMPDIR"] = workplace;

let kept = false;
process.once("exit", () => {
  if (!kept) rmSync(workplace, { recursive: true, force: true });
});
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.once(signal, () => process.exit(1));

/** Leaves it there. */
export function keepWorkplace(): void {
  kept = true;
}
