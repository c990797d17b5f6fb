import { isSnowleaseError } from "../../src/id/errors.ts";
import type { Snowflake } from "../../src/generator/snowflake.ts";

/** The required result of a generator's `next`. */
export interface NextResult {
  readonly id?: string;
  readonly refused?: { readonly code: string; readonly retryAfterMs?: number | undefined };
}

export function nextOf(ids: Snowflake): NextResult {
  try {
    return { id: ids.next().toString() };
  } catch (error) {
    if (!isSnowleaseError(error)) throw error;
    const { retryAfterMs } = error.details;
    return { refused: { code: error.code, ...(retryAfterMs !== undefined && { retryAfterMs }) } };
  }
}
