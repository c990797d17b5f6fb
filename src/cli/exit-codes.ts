import { printable } from "../id/printable.ts";
import { isSnowleaseError, type ErrorCode } from "../id/errors.ts";

/** The exit code of each error. 0 is success, 1 is a check that found something, and 9 is a check that warns. */
export const exitCodes: Readonly<Record<ErrorCode, number>> = {
  CONFIG_INVALID: 2,
  DRIVER_MISSING: 2,
  NOT_FOUND: 2,
  POOL_EXHAUSTED: 3,
  WORKER_ID_HELD: 3,
  SEQUENCE_EXHAUSTED: 3,
  LEASE_LOST: 4,
  LEASE_EXPIRED: 4,
  WINDOW_NOT_OPEN: 4,
  REGISTRY_UNAVAILABLE: 5,
  QUARANTINE: 5,
  OTHER_REGISTRY: 5,
  RATE_LIMITED: 5,
  CLOCK_SKEW: 6,
  CLOCK_ROLLBACK: 6,
  LAYOUT_MISMATCH: 7,
  LAYOUT_EXPIRED: 7,
  SCHEMA_INCOMPATIBLE: 7,
  UNAUTHORIZED: 8,
  FORBIDDEN: 8,
  // EX_SOFTWARE.
  DEFECT: 70,
};

/** The table of exit codes, as `--help` shows it to people. */
export const exitCodeHelp =
  "0 ok; 1 a check found something; 2 usage or not found; 3 no worker ID; 4 lease; 5 registry; 6 clock; 7 layout or schema; 8 not allowed; 9 a check warns";

/** The exit code of a check that found no problem, but something that an operator should know. */
export const warned = 9;

/** The exit code for an error of a command. */
export function exitCodeOf(error: unknown): number {
  return isSnowleaseError(error) ? exitCodes[error.code] : exitCodes.DEFECT;
}

/** The one line on stderr for an error of a command. */
export function errorLine(error: unknown): string {
  if (isSnowleaseError(error, "DEFECT") && error.cause !== undefined) return errorLine(error.cause);
  if (isSnowleaseError(error)) return `snowlease: ${error.code}: ${error.message}`;
  const said = error instanceof Error ? (error.stack ?? error.message) : String(error);
  return `snowlease: unexpected: ${printable(said.replace(/\s*\n\s*/g, " | "))}; this is a defect of Snowlease: report it with this line.`;
}

/** The one line on stderr for a warning of this process. */
export function warningLine({ name, message }: Error): string {
  return `snowlease: ${name === "SnowleaseWarning" ? "warning" : name}: ${message.replace(/\s*\n\s*/g, " ")}`;
}
