import { asSnowleaseError } from "../../id/errors.ts";

/** The result of one check. `fail`: IDs cannot be made, or are in danger. `warn`: this may happen. `unknown`: no check is possible here. */
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
