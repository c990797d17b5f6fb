import { timeText } from "../id/errors.ts";
import { isOver } from "./lease-view.ts";
import type { Lease } from "./lease.ts";

/** The leases of this process that were not closed, and whether their worker IDs rest if they are not given back. */
const open = new Map<Lease, boolean>();
/** The process had nothing left to do, and nothing has run since. */
let isIdle = false;

/** Closes a lease when the process has nothing left to do, and warns if the process ends before that. */
export function endWithProcess(lease: Lease, rests: boolean): void {
  if (open.size === 0) process.on("beforeExit", closeWhenIdle).on("exit", warnOfOpen);
  open.set(lease, rests);
  const remove = lease.onChange(follow);
  follow();

  function follow(): void {
    if (lease.state !== "lost" && !lease.hasEnded) return;
    remove();
    open.delete(lease);
    if (open.size === 0) process.off("beforeExit", closeWhenIdle).off("exit", warnOfOpen);
  }
}

/**
 * Another listener may now begin work that makes IDs. Then the process goes on, under AWS Lambda even for months. So the leases are closed
 * only when the process has nothing to do once more, and nothing has run in between.
 */
function closeWhenIdle(): void {
  if (isIdle) closeAll();
  else {
    isIdle = true;
    // The second `setImmediate` runs only if something else keeps the process alive.
    setImmediate(() => setImmediate(() => (isIdle = false)).unref());
  }
}

function closeAll(): void {
  for (const [lease, rests] of open) {
    if (isOver(lease.state)) continue;
    lease.close().catch((error: unknown) => {
      const why = error instanceof Error ? error.message : String(error);
      if (rests)
        process.emitWarning(warning(lease, `was not given back, and rests until ${timeText(lease.until)}: ${why}`));
    });
  }
}

/** The process ends now: nothing asynchronous happens any more, not even `emitWarning`. */
function warnOfOpen(): void {
  for (const [lease, rests] of open) {
    const isClosing = isOver(lease.state);
    const holds = (isClosing || lease.state === "held") && lease.until > lease.clock.now();
    if (!rests || !holds) continue;
    const end = timeText(lease.until);
    const text = isClosing
      ? `may rest until ${end}: the process ended before \`close()\` had; wait for it`
      : `was not given back, and rests until ${end}: the process ended without \`close()\``;
    process.emit("warning", warning(lease, text));
  }
}

function warning({ namespace, workerId }: Lease, what: string): Error {
  const error = new Error(`Worker ${workerId} of namespace \`${namespace}\` ${what}`);
  return Object.assign(error, { name: "SnowleaseWarning", code: "SNOWLEASE_NOT_GIVEN_BACK" });
}
