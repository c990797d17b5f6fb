import { constants } from "node:os";

/** The exit code of a process that a signal ended, as shells have it. */
export function signalExitCode(signal: NodeJS.Signals): number {
  return 128 + constants.signals[signal];
}

/**
 * Takes SIGINT, SIGTERM and SIGHUP (a terminal closes) as a wish to end in an orderly way. The first one aborts the signal, with the exit
 * code as the reason. A second SIGINT or SIGTERM ends the process at once. A second SIGHUP does not, since shell and kernel both send
 * one.
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

/** The result of the work; undefined if a signal aborts first. Leaves no listener on the signal, which often outlives the work. */
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
