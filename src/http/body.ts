import { shown, SnowleaseError } from "../id/errors.ts";
import { maxBody } from "../api/fields.ts";
import { HttpRefusal } from "./problem.ts";
import type { ApiRequest } from "./request.ts";

const decoder = new TextDecoder("utf-8", { fatal: true });
const lenient = new TextDecoder();
const jsonType = /^application\/(?:[\w.-]+\+)?json\s*(?:;|$)/i;
/** The tokens of a text that is known to be JSON. */
const tokens = /"(?:[^"\\]|\\.)*"|[{}[\],:]/g;

/**
 * The body as JSON. `{}` if there is no body.
 * @throws SnowleaseError CONFIG_INVALID: not JSON, not UTF-8, a name twice; with status 413 above 64 KiB, 415 for another type, none, or a content-encoding.
 */
export async function readJson(request: ApiRequest): Promise<unknown> {
  const type = request.headers.get("content-type");
  if (type !== null && !jsonType.test(type)) throw notJson();
  let bytes: ArrayBuffer | Uint8Array;
  try {
    bytes = await bytesOf(request);
  } catch (cause) {
    throw brokenOff(cause);
  }
  if (bytes.byteLength === 0) return {};
  // A page of another site can make a browser send a body, but not with this type.
  if (type === null) throw notJson();
  let text: string;
  let value: unknown;
  try {
    text = decoder.decode(bytes);
    value = JSON.parse(text);
  } catch {
    throw new SnowleaseError("CONFIG_INVALID", "Expected the body to be JSON in UTF-8.");
  }
  // If the value, written as JSON, equals the text, parsing lost nothing. Only other texts need a closer look.
  if (tersely(value) !== text) refuseRepeats(text);
  return value;
}

/** The fields of a form. @throws SnowleaseError CONFIG_INVALID: incomplete body; with status 413 above 64 KiB, 415 for another type or a content-encoding. */
export async function readForm(request: ApiRequest): Promise<URLSearchParams> {
  const type = request.headers.get("content-type") ?? "";
  if (!/^application\/x-www-form-urlencoded\s*(?:;|$)/i.test(type)) {
    throw new HttpRefusal(415, "CONFIG_INVALID", "Expected a form of content-type application/x-www-form-urlencoded.");
  }
  try {
    return new URLSearchParams(lenient.decode(await bytesOf(request)));
  } catch (cause) {
    throw brokenOff(cause);
  }
}

/** JSON.parse reads any depth, but writing and checking JSON are limited by the stack. */
function tersely(value: unknown): string {
  try {
    return JSON.stringify(value);
  } catch (cause) {
    throw new SnowleaseError("CONFIG_INVALID", "Expected the body to be nested less deeply.", {}, { cause });
  }
}

function bytesOf(request: ApiRequest): Promise<ArrayBuffer | Uint8Array> {
  const coding = request.headers.get("content-encoding") || "identity";
  if (coding.toLowerCase() !== "identity") throw coded(coding);
  const length = request.headers.get("content-length");
  if (length !== null && Number(length) > maxBody) throw tooLong();
  return length === null ? readUnmeasured(request.body) : request.arrayBuffer();
}

function brokenOff(cause: unknown): SnowleaseError {
  if (cause instanceof SnowleaseError) return cause;
  return new SnowleaseError("CONFIG_INVALID", "Expected the whole body; it broke off.", {}, { cause });
}

/** A body of unknown length (Transfer-Encoding: chunked). */
async function readUnmeasured(body: Request["body"]): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of body ?? []) {
    size += chunk.byteLength;
    if (size > maxBody) throw tooLong();
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

function notJson(): HttpRefusal {
  return new HttpRefusal(415, "CONFIG_INVALID", "Expected a body of content-type application/json; send that header.");
}

/** The refusal of a compressed body: a small one could fill the memory when unpacked. */
function coded(coding: string): HttpRefusal {
  return new HttpRefusal(
    415,
    "CONFIG_INVALID",
    `Expected a body without content-encoding, got ${shown(coding)}; send it as it is.`,
    { headers: { "accept-encoding": "identity" } },
  );
}

function tooLong(): HttpRefusal {
  return new HttpRefusal(413, "CONFIG_INVALID", `Expected a body of at most ${maxBody} bytes; send less.`);
}

/** JSON.parse keeps the last of two equal names, but the sender may mean the first. */
function refuseRepeats(json: string): void {
  const open: Array<Set<string> | undefined> = [];
  let last = "";
  for (const [token] of json.matchAll(tokens)) {
    if (token === "{") open.push(new Set());
    else if (token === "[") open.push(undefined);
    else if (token === "}" || token === "]") open.pop();
    else if (token === ":") {
      const names = open.at(-1);
      const name = JSON.parse(last) as string;
      if (names?.has(name) === true)
        throw new SnowleaseError("CONFIG_INVALID", "Expected the body to have every name once.");
      names?.add(name);
    }
    last = token;
  }
}
