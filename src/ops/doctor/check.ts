import { asSnowleaseError } from "../../id/errors.ts";

/** The result of one check. `fail`: IDs cannot be made, or are in danger; `warn`: this may happen; `unknown`: it cannot be checked here. */
export interface CheckResult {
  readonly check: string;
  readonly status: "ok" | "warn" | "fail" | "unknown";
  readonly detail: string;
}

/** Runs a part of a check; its failure is a result as well. */
export async function attempted<Value>(
  check: string,
  run: () => Promise<Value>,
): Promise<{ readonly value: Value } | CheckResult> {
  try {
    return { value: await run() };
  } catch (cause) {
    return failed(check, cause);
  }
}

export function failed(check: string, cause: unknown): CheckResult {
  const { code, message } = asSnowleaseError(cause);
  return { check, status: "fail", detail: `${code}: ${message}` };
}
