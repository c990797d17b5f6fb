import type { Config } from "./config.ts";

/** A shorter window may have been given in the wrong unit, ms. */
const shortWindow = 1000;

const warned = new Set<string>();

/** Warns once per process: many leases would repeat the same warning. */
function warnOnce(code: string, text: string): void {
  if (!warned.has(code)) process.emitWarning(text, { type: "SnowleaseWarning", code });
  warned.add(code);
}

/** Warns of a short window, for which seconds may have been meant. */
export function warnOfWindow({ window, sources }: Pick<Config, "window" | "sources">): void {
  if (window === undefined || window >= shortWindow) return;
  warnOnce(
    "SNOWLEASE_SHORT_WINDOW",
    `A window of ${window} ms (${sources.window?.text ?? "window"}) is short: while the registry or this process stalls for longer, no IDs are made. ` +
      `If ${window} s are meant, write "${window}s".`,
  );
}

/** Warns that the address of this host is used in place of a registry. */
export function warnOfAddress(): void {
  warnOnce(
    "SNOWLEASE_NO_REGISTRY",
    "No registry is named: the worker ID is the end of this host's address, leased in a file that no other host or user sees. " +
      "Hosts with the same last address bits make the same IDs; so do two users of one host, unless it runs Linux, where the second is refused. " +
      "Name a registry that all of them reach (SNOWLEASE_REGISTRY).",
  );
}
