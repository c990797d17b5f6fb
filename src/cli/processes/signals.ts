import { constants } from "node:os";

/** The exit code of a process that a signal ended, as shells have it. */
export function signalExitCode(signal: NodeJS.Signals): number {
  return 128 + constants.signals[signal];
}

/**
 * Takes SIGINT, SIGTERM, and SIGHUP (a terminal that closes) as a wish to end in an orderly way. Aborted at the first one, with
 * the exit code as the reason; a second one ends the process at once. (Not a SIGHUP: shell and kernel both send one.)
 */
export function onInterrupt(): AbortSignal {
  const wish = new AbortController();
  for (const name of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
    process.on(name, () => {
      if (wish.signal.aborted && name !== "SIGHUP") process.exit(signalExitCode(name));
      wish.abort(signalExitCode(name));
    });
  }
  return wish.signal;
}

/** What work comes to; undefined if a signal aborts before that. Leaves no listener on the signal, which outlives much work. */
export async function beforeAbort<Result>(work: Promise<Result>, signal: AbortSignal): Promise<Result | undefined> {
  if (signal.aborted) return undefined;
  let stop = (): void => undefined;
  const abort = new Promise<undefined>((resolve) => (stop = () => resolve(undefined)));
  signal.addEventListener("abort", stop, { once: true });
  try {
    return await Promise.race([work, abort]);
  } finally {
    signal.removeEventListener("abort", stop);
  }
}
