import { asSnowleaseError, isSnowleaseError } from "../../id/errors.ts";

/** The result of one check. `fail`: IDs cannot be made, or are in danger; `warn`: this may happen; `unknown`: it cannot be checked here. */
export interface CheckResult {
  readonly check: string;
  readonly status: "ok" | "warn" | "fail" | "unknown";
  readonly detail: string;
}

export function finding(check: string, status: CheckResult["status"], detail: string): CheckResult {
  return { check, status, detail };
}

export function failed(check: string, cause: unknown): CheckResult {
  const { code, message } = asSnowleaseError(cause);
  return finding(check, "fail", `${code}: ${message}`);
}

/**
 * The same, but `unknown` where only the role of the doctor's own token is too small: that says nothing about the tokens of programs that make IDs.
 * @param what could not be looked at.
 */
export function failedOrUnseen(check: string, cause: unknown, what: string): CheckResult {
  const role = isSnowleaseError(cause, "FORBIDDEN") ? cause.details["role"] : undefined;
  if (typeof role !== "string") return failed(check, cause);
  const other = `Use a token of the role \`${role}\` or \`admin\` to check that, too.`;
  return finding(check, "unknown", `The role of this token does not let it see ${what}. ${other}`);
}
