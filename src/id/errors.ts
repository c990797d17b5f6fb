import { printable } from "./printable.ts";

/** Each error code, and whether the same call may succeed later without any other change. */
const retryableCodes = {
  CONFIG_INVALID: false,
  POOL_EXHAUSTED: true,
  WORKER_ID_HELD: true,
  LEASE_LOST: false,
  LEASE_EXPIRED: true,
  WINDOW_NOT_OPEN: true,
  CLOCK_SKEW: true,
  CLOCK_ROLLBACK: true,
  SEQUENCE_EXHAUSTED: true,
  QUARANTINE: true,
  OTHER_REGISTRY: false,
  LAYOUT_MISMATCH: false,
  LAYOUT_EXPIRED: false,
  SCHEMA_INCOMPATIBLE: false,
  REGISTRY_UNAVAILABLE: true,
  DRIVER_MISSING: false,
  DEFECT: false,
  NOT_FOUND: false,
  UNAUTHORIZED: false,
  FORBIDDEN: false,
  RATE_LIMITED: true,
};

/** One of the closed set of error codes. A new code does not compile until it has an exit code and an HTTP status. */
export type ErrorCode = keyof typeof retryableCodes;

/** All error codes of Snowlease. */
export const errorCodes: readonly ErrorCode[] = Object.keys(retryableCodes) as ErrorCode[];

/** Machine-readable facts about an error; never a token or a password. */
export interface ErrorDetails {
  /** Milliseconds after which the same call may succeed; absent if waiting does not help. */
  readonly retryAfterMs?: number | undefined;
  /** Present on REGISTRY_UNAVAILABLE when an operator has to repair something first; a claim then does not retry. */
  readonly lasting?: boolean | undefined;
  readonly [fact: string]: unknown;
}

/** The one error class. `message`: what happened, to which value; what to do. `retryable`: the same call may succeed later. */
export class SnowleaseError extends Error {
  override readonly name = "SnowleaseError";
  readonly code: ErrorCode;
  readonly retryable: boolean;
  readonly details: ErrorDetails;
  /**
   * The HTTP status of a service that gets this error: 503 if another instance may do better, or this one later. Absent on all other
   * errors: web frameworks answer them with 500, or the caller decides.
   */
  declare readonly status?: 503 | undefined;
  /** The same, under the name that other frameworks read. */
  declare readonly statusCode?: 503 | undefined;
  /** The headers of that answer: `Retry-After`, whole seconds, 1 if the time is not known. */
  declare readonly headers?: Readonly<Record<string, string>> | undefined;
  /** Whether frameworks may send the message to their clients: false, since it names hosts. */
  declare readonly expose?: false | undefined;

  constructor(code: ErrorCode, message: string, details: ErrorDetails = {}, options?: ErrorOptions) {
    const text = printable(withoutLogins(message).replace(/\s*[\r\n]+\s*/g, " "));
    // With `cause: undefined`, an error would have the property `cause`.
    super(text, options?.cause === undefined ? {} : options);
    this.code = code;
    this.retryable = retryableCodes[code];
    this.details = details;
    if (this.retryable || code === "LEASE_LOST") Object.defineProperties(this, unavailable(details));
  }
}

/** A property that is not printed with the error. Frameworks may write it. */
const property = (value: unknown): PropertyDescriptor => ({ value, writable: true, configurable: true });
const [status, expose] = [property(503), property(false)];

/** The properties that errors of the package http-errors have, and that web frameworks read. */
function unavailable({ retryAfterMs = 0 }: ErrorDetails): PropertyDescriptorMap {
  const headers = property({ "Retry-After": String(Math.max(1, Math.ceil(retryAfterMs / 1000))) });
  return { status, statusCode: status, headers, expose };
}

/** Narrows an unknown error to a SnowleaseError, optionally to one code. */
export function isSnowleaseError(error: unknown, code?: ErrorCode): error is SnowleaseError {
  return error instanceof SnowleaseError && (code === undefined || error.code === code);
}

/** Placeholders for a login, with or without a user name, alone or in each of several URLs. */
const placeholder = /^(?:[^@/]*:)?(?:\*\*\*|TOKEN|PASSWORD)(?:@[^@]*,[a-z]+:\/\/(?:[^@/]*:)?\*\*\*)*$/;

/** The text without the logins of URLs in it, wherever the text came from: a URL in the wrong option still has a password. */
function withoutLogins(text: string): string {
  if (!/[@=]/.test(text)) return text;
  return text
    .replace(/([a-z][\w+.-]*:\/+)(\S*)@/gi, (whole, scheme: string, login: string) =>
      placeholder.test(login) ? whole : `${scheme}***@`,
    )
    .replace(/([?&]\w*(?:password|token)=)[^&\s`]*/gi, "$1***");
}

/** Formats a rejected value for a message: the value, then its type. */
export function shown(value: unknown): string {
  const text = withoutLogins(typeof value === "bigint" ? `${value}n` : (asJson(value) ?? String(value)));
  const short = text.length > 60 ? `${text.slice(0, 57)}...` : text;
  return `\`${printable(short)}\` (${value === null ? "null" : Array.isArray(value) ? "array" : typeof value})`;
}

function asJson(value: unknown): string | undefined {
  if (typeof value !== "object" || value === null) return undefined;
  try {
    return JSON.stringify(value);
  } catch {
    return "[not JSON]";
  }
}

/** Any error as a SnowleaseError. An unknown error of a driver means that the answer of the registry is unknown. */
export function asSnowleaseError(cause: unknown): SnowleaseError {
  if (cause instanceof SnowleaseError) return cause;
  if (isDefect(cause)) {
    const message = `A program error ended a request to the registry, and whether it was applied is unknown: ${cause.name}: ${cause.message}; report it with the stack of \`error.cause\`.`;
    return new SnowleaseError("DEFECT", message, {}, { cause });
  }
  const said = cause instanceof Error ? cause.message : String(cause);
  return new SnowleaseError("REGISTRY_UNAVAILABLE", `The registry did not answer: ${said}`, {}, { cause });
}

/** Whether the error leaves open if the request took effect. */
export function isUnanswered({ code }: SnowleaseError): boolean {
  return code === "REGISTRY_UNAVAILABLE" || code === "DEFECT";
}

/**
 * Whether the error comes from the program, not from the network: JavaScript threw it, Node refused an argument, or a file of the program
 * is missing.
 */
function isDefect(cause: unknown): cause is Error {
  if (!(cause instanceof Error)) return false;
  const { code } = cause as { readonly code?: unknown };
  if (typeof code === "string") return /^ERR_INVALID_|MODULE_NOT_FOUND$/.test(code);
  // An answer that is not JSON came from a proxy. A `fetch` without an answer has a cause in Node, a code in Bun, and neither in Deno.
  const isThrown = cause instanceof TypeError || cause instanceof ReferenceError || cause instanceof RangeError;
  return isThrown && cause.cause === undefined && !cause.message.startsWith("error sending request");
}

/** The most frequent error: the caller has to correct a value, a file or the environment. */
export function configInvalid(message: string, cause?: unknown): SnowleaseError {
  return new SnowleaseError("CONFIG_INVALID", message, {}, cause === undefined ? {} : { cause });
}

/** Adds to a refusal the source of the refused value. */
export function withSource<Result>(from: string, read: () => Result): Result {
  try {
    return read();
  } catch (error) {
    if (!isSnowleaseError(error)) throw error;
    const message = `${error.message.replace(/\.$/, "")}; correct ${from}.`;
    throw new SnowleaseError(error.code, message, error.details, { cause: error });
  }
}

/** Ignores a SnowleaseError, and throws any other error again: for background work whose refusals the next call reports. */
export function ignoreRefusal(error: unknown): void {
  if (!isSnowleaseError(error)) throw error;
}

/** A number with its noun, for messages: "1 pin", "2 pins". */
export function counted(count: number, one: string, many: string = `${one}s`): string {
  return `${count} ${count === 1 ? one : many}`;
}

/** Unix ms as messages show it. */
export function timeText(ms: number): string {
  return Number.isFinite(ms) && Math.abs(ms) <= 8.64e15 ? new Date(ms).toISOString() : String(ms);
}
