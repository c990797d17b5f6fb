import { statusOf } from "../api/problem.ts";
import { asSnowleaseError, isUnanswered, SnowleaseError } from "../id/errors.ts";

/** The error as a client sees it. Details of a foreign error or a program error appear only in the log. */
export function tellable(cause: unknown): SnowleaseError {
  const { code } = asSnowleaseError(cause);
  if (cause instanceof SnowleaseError && code !== "DEFECT") return cause;
  return new SnowleaseError(code, "The daemon failed on this request; its log says why.", {}, { cause });
}

/**
 * Whether an error belongs in the log. Operators need the errors of the registry and of this daemon. Only the client needs its own errors.
 * @param status of HTTP, if it is not the status of the code.
 */
export function isOperators(error: SnowleaseError, status: number = statusOf[error.code]): boolean {
  return isUnanswered(error) || status === 500;
}
