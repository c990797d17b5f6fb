import { statusOf } from "../api/problem.ts";
import { asSnowleaseError, isUnanswered, SnowleaseError } from "../id/errors.ts";

/** What a client is told of an error: nothing of one that is none of ours, or a program error; the log has it. */
export function tellable(cause: unknown): SnowleaseError {
  const { code } = asSnowleaseError(cause);
  if (cause instanceof SnowleaseError && code !== "DEFECT") return cause;
  return new SnowleaseError(code, "The daemon failed on this request; its log says why.", {}, { cause });
}

/**
 * Whether an error is for the log: what the registry or this daemon does wrong is the operator's, what a client does wrong is its own to see.
 * @param status of HTTP, where it is not that of the code.
 */
export function isOperators(error: SnowleaseError, status: number = statusOf[error.code]): boolean {
  return isUnanswered(error) || status === 500;
}
