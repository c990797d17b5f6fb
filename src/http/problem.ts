import { STATUS_CODES } from "node:http";
import { type ErrorCode, type ErrorDetails, SnowleaseError } from "../id/errors.ts";
import { heldForGood, type Problem, statusOf } from "../api/problem.ts";

/** How long a client waits if the error does not say it, ms. */
const defaultRetry = 1000;

interface RefusalOptions extends ErrorOptions {
  readonly headers?: Readonly<Record<string, string>>;
  readonly details?: ErrorDetails;
}

/** An error with its own status, either for a request that HTTP itself refuses (405, 408, 413, 415, 417, 431) or for readiness. */
export class HttpRefusal extends SnowleaseError {
  readonly answers: number;
  readonly extraHeaders: Readonly<Record<string, string>>;

  constructor(status: number, code: ErrorCode, message: string, options: RefusalOptions = {}) {
    const { headers = {}, details, ...rest } = options;
    super(code, message, details, rest);
    this.answers = status;
    this.extraHeaders = headers;
  }
}

/** The parts of an answer. The direct path needs them, because it has no Response. */
export interface AnswerParts {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  /** If it is bytes, all copies of this answer share them. */
  readonly body: string | Uint8Array<ArrayBuffer> | ReadableStream<Uint8Array> | null;
}

export function responseOf({ body, ...init }: AnswerParts): Response {
  return new Response(body, init);
}

/** The status of an error. A worker ID that does not become free with time is a conflict. */
function statusIn(code: ErrorCode, retryAfterMs: number | undefined): number {
  return code === "WORKER_ID_HELD" && retryAfterMs === undefined ? heldForGood : statusOf[code];
}

/** An error in the format of RFC 9457. */
export function problemParts(error: SnowleaseError): AnswerParts & { readonly body: string } {
  const { code, message, details } = error;
  const { retryAfterMs, ...rest } = details;
  const status = error instanceof HttpRefusal ? error.answers : statusIn(code, retryAfterMs);
  const problem: Problem = {
    title: STATUS_CODES[status] ?? code,
    status,
    detail: message,
    code,
    retryAfterMs,
    details: Object.keys(rest).length > 0 ? rest : undefined,
  };
  const waits = retryAfterMs !== undefined || status === 503 || status === 429;
  return {
    status,
    body: JSON.stringify(problem, bigintAsText),
    headers: {
      "content-type": "application/problem+json",
      "cache-control": "no-store",
      ...(waits && { "retry-after": String(Math.max(1, Math.ceil((retryAfterMs ?? defaultRetry) / 1000))) }),
      ...(error instanceof HttpRefusal && error.extraHeaders),
    },
  };
}

function bigintAsText(_: string, value: unknown): unknown {
  return typeof value === "bigint" ? String(value) : value;
}
