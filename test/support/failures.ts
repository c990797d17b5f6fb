import { isSnowleaseError, type SnowleaseError } from "../../src/id/errors.ts";

/** The error with which a promise rejects. */
export async function failure(promise: Promise<unknown>): Promise<SnowleaseError> {
  try {
    await promise;
  } catch (error) {
    if (isSnowleaseError(error)) return error;
    throw error;
  }
  throw new Error("It did not fail.");
}

/** Code and message of an error. */
export function textOf({ code, message }: { readonly code: string; readonly message: string }): string {
  return `${code}: ${message}`;
}

/** Code and message of the error that this work throws; "" if it throws none. */
export function messageOf(work: () => unknown): string {
  try {
    work();
    return "";
  } catch (error) {
    return textOf(error as SnowleaseError);
  }
}
