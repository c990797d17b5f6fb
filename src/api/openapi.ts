import { STATUS_CODES } from "node:http";
import type { ErrorCode } from "../id/errors.ts";
import { namespacePattern } from "../id/namespace.ts";
import { heldForGood, problem, statusOf } from "./problem.ts";
import { type Call, receiptHeader, receiptPattern } from "./call.ts";
import { maxBody, workerId } from "./fields.ts";
import { jsonSchema, type Schema } from "./schema.ts";

type JsonObject = Record<string, unknown>;
type AnyCall = Call<unknown, unknown, unknown>;

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

const receipt: JsonObject = {
  schema: { type: "string", pattern: receiptPattern.source },
  description:
    "Opaque. A client keeps the newest one of its lease, and sends it with each renewal and with the release: it shows a registry that went back in time what it forgot.",
};

const receiptParameter: JsonObject = { name: receiptHeader, in: "header", required: false, ...receipt };

/** How a token is sent: one or the other. */
const securitySchemes: JsonObject = {
  bearer: { type: "http", scheme: "bearer" },
  basic: { type: "http", scheme: "basic", description: "The token is the password; the user does not matter." },
};

/** The OpenAPI 3.1 description, made of the schemas that validate. @param hasTokens whether calls need a token, unless they are open. */
export function openapi(calls: readonly AnyCall[], hasTokens: boolean): JsonObject {
  const paths: Record<string, JsonObject> = {};
  for (const call of calls) {
    const path = call.path.replace(/:(\w+)/g, "{$1}");
    paths[path] = { ...paths[path], [call.method.toLowerCase()]: operation(call, hasTokens) };
  }
  return {
    openapi: "3.1.0",
    info: {
      title: "Snowlease",
      version: "1",
      description:
        "Worker IDs for Snowflake IDs, leased for windows of embedded time. Times are Unix ms, IDs are strings. The daemon ignores " +
        "unknown fields of a body; a name that is near a known one is refused (400). Later versions may answer with more fields. Every error is a " +
        "Problem. Besides those listed: 304 for the `ETag` of an answer that has one, 405 for a method that a path does not have, with `Allow`; 400, 408, 417 or 431 for what " +
        "cannot be read as a request, after which the connection ends. Where an operation names roles in its `security`, it takes a " +
        "token of one of them or of the role `admin`; where it names none, any token.",
      license: { name: "Apache-2.0", identifier: "Apache-2.0" },
    },
    servers: [{ url: "/" }],
    security: [],
    paths,
    components: { schemas: { Problem: jsonSchema(problem, "output") }, ...(hasTokens && { securitySchemes }) },
  };
}

function operation(
  { path, summary, access, status = 200, body, query, answer, media, receipts, problems = [] }: AnyCall,
  hasTokens: boolean,
): JsonObject {
  const closed = hasTokens && access !== "open";
  return {
    summary,
    ...(closed && {
      security: Object.keys(securitySchemes).map((name) => ({ [name]: access === "any" ? [] : [access] })),
    }),
    parameters: [...pathParameters(path), ...queryParameters(query), ...(receipts ? [receiptParameter] : [])],
    ...(body !== undefined && { requestBody: requestBody(body) }),
    responses: {
      [status]: {
        description: STATUS_CODES[status],
        ...(receipts && answer !== undefined && { headers: { [receiptHeader]: receipt } }),
        ...(answer !== undefined && { content: content(jsonSchema(answer, "output"), media) }),
      },
      ...problemResponses([...everywhere, ...(closed ? (["UNAUTHORIZED"] as const) : []), ...problems]),
      ...(body !== undefined && bodyRefusals),
    },
  };
}

/** A body that may be `{}` may be left out. */
function requestBody(body: Schema<unknown>): JsonObject {
  return { required: !body.safeParse({}).success, content: content(jsonSchema(body, "input")) };
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
    responses[status] = problemResponse(told.join(", "));
  }
  return responses;
}

function statusesOf(code: ErrorCode): readonly number[] {
  return code === "WORKER_ID_HELD" ? [heldForGood, statusOf[code]] : [statusOf[code]];
}

function problemResponse(description: string): JsonObject {
  return { description, content: { "application/problem+json": { schema: { $ref: "#/components/schemas/Problem" } } } };
}

function content(schema: JsonObject, media: string = "application/json"): JsonObject {
  return { [media]: { schema } };
}
