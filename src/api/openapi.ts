import { STATUS_CODES } from "node:http";
import type { ErrorCode } from "../id/errors.ts";
import { anyProblem, statusOf } from "./problem.ts";
import { type Call, receiptHeader, receiptPattern, roleTexts } from "./call.ts";
import { maxBody, namespacePattern, workerId } from "./fields.ts";
import { jsonSchema, type Schema } from "./schema.ts";

type JsonObject = Record<string, unknown>;
type AnyCall = Call<unknown, unknown, unknown>;

/** Errors that every call may answer with. */
const everywhere: readonly ErrorCode[] = ["CONFIG_INVALID", "FORBIDDEN", "REGISTRY_UNAVAILABLE"];

const parameterSchemas: Readonly<Record<string, JsonObject>> = {
  namespace: { type: "string", pattern: namespacePattern.source },
  workerId: jsonSchema(workerId, "input"),
  id: { type: "string" },
};

const bodyRefusals: JsonObject = {
  413: problemResponse(`CONFIG_INVALID: a body of more than ${maxBody} bytes`),
  415: problemResponse("CONFIG_INVALID: a body that is not application/json, or has a content-encoding"),
};

/** Errors that may pass by themselves. */
const passing: ReadonlySet<ErrorCode> = new Set(["WORKER_ID_HELD", "CLOCK_ROLLBACK"]);
const waitingStatuses: ReadonlySet<number> = new Set([429, 503]);

const retryAfter: JsonObject = {
  schema: { type: "integer", minimum: 1, format: "int32" },
  description: "Seconds; `retryAfterMs` of the Problem, rounded up. Without that, a second is a good pause.",
};

/** The parts of the API, by the beginnings of their paths. */
const tags: readonly (readonly [begin: string, name: string, description: string])[] = [
  ["/v1/:namespace/leases", "leases", "Worker IDs for clients with a generator of their own."],
  ["/v1/:namespace/ids", "ids", "IDs that the daemon makes, and what IDs tell."],
  ["/v1/:namespace/workers", "workers", "The holders of worker IDs, for operators."],
  ["/v1/:namespace/pins", "workers", ""],
  ["/v1/:namespace", "namespaces", "Layout, limits and upkeep of a namespace."],
  ["/v1", "namespaces", ""],
  ["/", "daemon", "The daemon itself."],
];

const receipt: JsonObject = {
  description:
    "Opaque. A client keeps the newest one of its lease, and sends it with each renewal and with the release: it shows a registry that went back in time what it forgot.",
};

/** A receipt that cannot be read proves nothing, and is no error. */
const receiptParameter: JsonObject = {
  name: receiptHeader,
  in: "header",
  required: false,
  schema: { type: "string" },
  ...receipt,
};
const receiptAnswer: JsonObject = { schema: { type: "string", pattern: receiptPattern.source }, ...receipt };

const rolesText = Object.entries(roleTexts)
  .map(([role, text]) => `\`${role}\` (${text})`)
  .join(", ");

/** How a token is sent: one or the other. */
const securitySchemes: JsonObject = {
  bearer: { type: "http", scheme: "bearer", description: `A token has one of the roles ${rolesText}.` },
  basic: { type: "http", scheme: "basic", description: "The token is the password; the user does not matter." },
};

/** About whom a description is. */
interface Described {
  /** Of the daemon. */
  readonly version: string;
  /** Whether calls need a token, unless they are open. */
  readonly hasTokens: boolean;
}

/** The OpenAPI 3.1 description, made of the schemas that validate. */
export function openapi(calls: readonly AnyCall[], { version, hasTokens }: Described): JsonObject {
  const paths: Record<string, JsonObject> = {};
  for (const call of calls) {
    const path = call.path.replace(/:(\w+)/g, "{$1}");
    paths[path] = { ...paths[path], [call.method.toLowerCase()]: operation(call, hasTokens) };
  }
  return {
    openapi: "3.1.0",
    info: {
      title: "Snowlease",
      version,
      description:
        "Worker IDs for Snowflake IDs, leased for windows of embedded time. Times are Unix ms, IDs are strings, other numbers are integers of at most 53 bits. The daemon ignores " +
        "unknown fields of a body; a name that is near a known one is refused (400). Later versions may answer with more fields. " +
        "`version` is the daemon's own. A client needs none: what an older daemon does not know it does not answer, and a call that it does not have is 404 or 405. Every error is a " +
        "Problem. Besides those listed: 304 for the `ETag` of an answer that has one, 405 for a method that a path does not have, with `Allow`; 400, 408, 417 or 431 for what " +
        "cannot be read as a request, after which the connection ends. Where an operation names roles in its `security`, it takes a " +
        "token of one of them or of the role `admin`; where it names none, any token.",
      license: { name: "Apache-2.0", identifier: "Apache-2.0" },
    },
    servers: [{ url: "/" }],
    tags: tags.flatMap(([, name, description]) => (description === "" ? [] : [{ name, description }])),
    security: [],
    paths,
    components: { schemas: { Problem: jsonSchema(anyProblem, "output") }, ...(hasTokens && { securitySchemes }) },
  };
}

function operation(call: AnyCall, hasTokens: boolean): JsonObject {
  const { path, summary, about, access, status = 200, body, query, answer, media, receipts, example = {} } = call;
  const closed = hasTokens && access !== "open";
  const problems = [...everywhere, ...(closed ? (["UNAUTHORIZED"] as const) : []), ...(call.problems ?? [])];
  return {
    operationId: call.operation,
    tags: [tagOf(path)],
    summary,
    ...(about !== undefined && { description: about }),
    ...(closed && {
      security: Object.keys(securitySchemes).map((name) => ({ [name]: access === "any" ? [] : [access] })),
    }),
    parameters: [...pathParameters(path), ...queryParameters(query), ...(receipts ? [receiptParameter] : [])],
    ...(body !== undefined && { requestBody: requestBody(body, example.body) }),
    responses: {
      [status]: {
        description: STATUS_CODES[status],
        ...(receipts && answer !== undefined && { headers: { [receiptHeader]: receiptAnswer } }),
        ...(answer !== undefined && { content: content(jsonSchema(answer, "output"), example.answer, media) }),
      },
      ...problemResponses(problems),
      ...(body !== undefined && bodyRefusals),
    },
  };
}

/** A body that may be `{}` may be left out. */
function requestBody(body: Schema<unknown>, example: unknown): JsonObject {
  return { required: !body.safeParse({}).success, content: content(jsonSchema(body, "input"), example) };
}

function pathParameters(path: string): readonly JsonObject[] {
  return Array.from(path.matchAll(/:(\w+)/g), ([, name = ""]) => {
    return { name, in: "path", required: true, schema: parameterSchemas[name] };
  });
}

function queryParameters(query: Schema<unknown> | undefined): readonly JsonObject[] {
  if (query === undefined) return [];
  const { properties = {} } = jsonSchema(query, "input") as { properties?: Record<string, JsonObject> };
  return Object.entries(properties).map(([name, schema]) => ({ name, in: "query", schema }));
}

function problemResponses(codes: readonly ErrorCode[]): JsonObject {
  const responses: JsonObject = {};
  for (const status of new Set(codes.map((code) => statusOf[code]))) {
    const own = [...new Set(codes.filter((code) => statusOf[code] === status))];
    const waits = waitingStatuses.has(status) || own.some((code) => passing.has(code));
    responses[status] = {
      ...problemResponse(own.join(", ")),
      ...(waits && { headers: { "retry-after": retryAfter } }),
      "x-codes": own,
    };
  }
  return responses;
}

function problemResponse(description: string): JsonObject {
  return { description, content: { "application/problem+json": { schema: { $ref: "#/components/schemas/Problem" } } } };
}

function content(schema: JsonObject, example: unknown, media: string = "application/json"): JsonObject {
  return { [media]: { schema, ...(example !== undefined && { example }) } };
}

function tagOf(path: string): string {
  return tags.find(([begin]) => path.startsWith(begin))?.[1] ?? "";
}
