import { constants } from "node:os";

/** The exit code of a process that a signal ended, as shells have it. */
export function signalExitCode(signal: NodeJS.Signals): number {
  return 128 + constants.signals[signal];
}

/**
 * Takes SIGINT, SIGTERM, and SIGHUP (a terminal that closes) as a wish to end in an orderly way. Aborted at the first one, with
 * its name as the reason; a second one ends the process at once. (Not a SIGHUP: shell and kernel both send one.)
 */
export function onInterrupt(): AbortSignal {
  const wish = new AbortController();
  for (const name of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
    process.on(name, () => {
      if (wish.signal.aborted && name !== "SIGHUP") process.exit(signalExitCode(name));
      wish.abort(name);
    });
  }
  return wish.signal;
}

/** Resolves when a signal aborts. */
export function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener("abort", () => resolve(), { once: true });
  });
}
