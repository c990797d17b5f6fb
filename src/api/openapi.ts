import { STATUS_CODES } from "node:http";
import type { ErrorCode } from "../id/errors.ts";
import { namespacePattern } from "../id/namespace.ts";
import { anyProblem, heldForGood, statusOf } from "./problem.ts";
import { type Call, receiptHeader, receiptPattern, roleTexts } from "./call.ts";
import { maxBody, workerId } from "./fields.ts";
import { namespace } from "./namespaces.ts";
import { jsonSchema, jsonSchemas, type Schema } from "./schema.ts";
import { historyRow, record } from "./workers.ts";

type JsonObject = Record<string, unknown>;
type AnyCall = Call<unknown, unknown, unknown>;

/** The parts that several answers have in common, by their names. */
const shared: readonly (readonly [name: string, schema: Schema<unknown>])[] = [
  ["Problem", anyProblem],
  ["Namespace", namespace],
  ["Worker", record],
  ["HistoryRow", historyRow],
];

/** Errors that every call may answer with. */
const everywhere: readonly ErrorCode[] = ["CONFIG_INVALID", "FORBIDDEN", "REGISTRY_UNAVAILABLE", "DEFECT"];

const parameterSchemas: Readonly<Record<string, JsonObject>> = {
  namespace: { type: "string", pattern: namespacePattern.source },
  workerId: jsonSchema(workerId, "input"),
  id: { type: "string" },
};

const bodyRefusals: JsonObject = {
  413: problemResponse(`CONFIG_INVALID: a body of more than ${maxBody} bytes`),
  415: problemResponse("CONFIG_INVALID: a body that is not application/json, or has a content-encoding"),
};

const waitingStatuses: ReadonlySet<number> = new Set([429, 503]);

const retryAfter: JsonObject = {
  schema: { type: "integer", minimum: 1, format: "int32" },
  description: "Seconds: `retryAfterMs` of the Problem, rounded up; 1 where it has none.",
};

/** The parts of the API, by the beginnings of their paths. A part without a description is listed above. */
const tags: readonly (readonly [begin: string, name: string, description?: string])[] = [
  ["/v1/:namespace/leases", "leases", "Worker IDs for clients with a generator of their own."],
  ["/v1/:namespace/ids", "ids", "IDs that the daemon makes, and what IDs tell."],
  ["/v1/:namespace/workers", "workers", "The holders of worker IDs, for operators."],
  ["/v1/:namespace/pins", "workers"],
  ["/v1/:namespace", "namespaces", "Layout, limits and upkeep of a namespace."],
  ["/", "daemon", "The daemon itself."],
];

const receipt: JsonObject = {
  description:
    "Opaque. A client keeps the newest one of its lease, and sends it with each renewal and with the release: it shows a registry that went back in time what it forgot.",
};

/** An unreadable receipt proves nothing, but is not an error. */
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

/** The two ways to send a token. */
const securitySchemes: JsonObject = {
  bearer: { type: "http", scheme: "bearer", description: `A token has one of the roles ${rolesText}.` },
  basic: { type: "http", scheme: "basic", description: "The token is the password; the user does not matter." },
};

/** The described daemon. */
interface Described {
  readonly version: string;
  /** Whether calls need a token, unless they are open. */
  readonly hasTokens: boolean;
}

/** The OpenAPI 3.1 description, made from the schemas that validate. */
export function openapi(calls: readonly AnyCall[], { version, hasTokens }: Described): JsonObject {
  const names = new SchemaNames(calls);
  const paths: Record<string, JsonObject> = {};
  for (const call of calls) {
    const path = call.path.replace(/:(\w+)/g, "{$1}");
    paths[path] = { ...paths[path], [call.method.toLowerCase()]: operation(call, names, hasTokens) };
  }
  return {
    openapi: "3.1.0",
    info: {
      title: "Snowlease",
      version,
      description:
        "Worker IDs for Snowflake IDs, leased for windows of embedded time. Times are Unix ms, IDs are strings, other numbers are integers of at most 53 bits. The daemon ignores " +
        "unknown fields of a body; a name that differs from one of that call by a letter or two is refused (400). Later versions may answer with more fields. " +
        "`version` is the daemon's own, for people: a client need not ask for it, since an older daemon leaves out what it does not know, and answers 404 or 405 to a call that it does not have. Every error is a " +
        "Problem. Besides those listed: 304 for the `ETag` of an answer that has one, 405 for a method that a path does not have, with `Allow`; 400, 408, 417 or 431 for what " +
        "cannot be read as a request, after which the connection ends. Where an operation names roles in its `security`, it takes a " +
        "token of one of them or of the role `admin`; where it names none, any token. A daemon without tokens takes every request.",
      license: { name: "Apache-2.0", identifier: "Apache-2.0" },
    },
    servers: [{ url: "/" }],
    tags: tags.flatMap(([, name, description]) => (description === undefined ? [] : [{ name, description }])),
    security: [],
    paths,
    components: { schemas: names.schemas(), ...(hasTokens && { securitySchemes }) },
  };
}

/** The schemas of all bodies and answers, each with a name. Without one, a generator of clients invents a name. */
class SchemaNames {
  readonly #bodies = new Map<string, Schema<unknown>>();
  readonly #answers: Map<string, Schema<unknown>>;
  readonly #names: Map<Schema<unknown>, string>;

  constructor(calls: readonly AnyCall[]) {
    this.#answers = new Map(shared);
    this.#names = new Map(shared.map(([name, schema]) => [schema, name]));
    for (const { operation, body, answer, media } of calls) {
      const name = operation.replace(/^./, (letter) => letter.toUpperCase());
      this.#add(this.#bodies, `${name}Request`, body);
      if (media === undefined) this.#add(this.#answers, `${name}Answer`, answer);
    }
  }

  schemas(): JsonObject {
    return { ...jsonSchemas(this.#answers, "output", uriOf), ...jsonSchemas(this.#bodies, "input", uriOf) };
  }

  /** A reference to a schema, or the schema itself if it has no name. */
  of(schema: Schema<unknown>): JsonObject {
    const name = this.#names.get(schema);
    return name === undefined ? jsonSchema(schema, "output") : { $ref: uriOf(name) };
  }

  #add(kind: Map<string, Schema<unknown>>, name: string, schema: Schema<unknown> | undefined): void {
    if (schema === undefined || this.#names.has(schema)) return;
    this.#names.set(schema, name);
    kind.set(name, schema);
  }
}

function uriOf(name: string): string {
  return `#/components/schemas/${name}`;
}

function operation(call: AnyCall, names: SchemaNames, hasTokens: boolean): JsonObject {
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
    ...(body !== undefined && {
      // If `{}` is a valid body, the body is optional.
      requestBody: { required: !body.safeParse({}).success, content: content(names.of(body), example.body) },
    }),
    responses: {
      [status]: {
        description: STATUS_CODES[status],
        ...(receipts && answer !== undefined && { headers: { [receiptHeader]: receiptAnswer } }),
        ...(answer !== undefined && { content: content(names.of(answer), example.answer, media) }),
      },
      ...problemResponses(problems),
      ...(body !== undefined && bodyRefusals),
    },
  };
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
  const statuses = codes.flatMap((code) => statusesOf(code).map((status) => [status, code] as const));
  for (const status of new Set(statuses.map(([status]) => status))) {
    const told = statuses.filter(([each]) => each === status).map(([, code]) => code);
    responses[status] = {
      ...problemResponse(told.join(", ")),
      ...(waitingStatuses.has(status) && { headers: { "retry-after": retryAfter } }),
      "x-codes": told,
    };
  }
  return responses;
}

function statusesOf(code: ErrorCode): readonly number[] {
  return code === "WORKER_ID_HELD" ? [heldForGood, statusOf[code]] : [statusOf[code]];
}

function problemResponse(description: string): JsonObject {
  return { description, content: { "application/problem+json": { schema: { $ref: uriOf("Problem") } } } };
}

function content(schema: JsonObject, example: unknown, media: string = "application/json"): JsonObject {
  return { [media]: { schema, ...(example !== undefined && { example }) } };
}

function tagOf(path: string): string {
  return tags.find(([begin]) => path.startsWith(begin))?.[1] ?? "";
}
