import { createHash } from "node:crypto";
import { type ErrorCode, shown, SnowleaseError } from "../../id/errors.ts";
import { namespacePattern, workerPath } from "../../api/requests.ts";
import { readJson } from "../body.ts";
import { checked, type Schema } from "../../api/schema.ts";
import type { AnswerParts } from "../problem.ts";
import type { Access } from "../access/tokens.ts";
import type { Visit } from "../visit.ts";

/** A request that was read and checked. What its path does not name is empty. */
interface RouteCall<Body, Query> {
  readonly visit: Visit;
  readonly namespace: string;
  readonly workerId: number;
  readonly id: string;
  readonly body: Body;
  readonly query: Query;
}

/** What there is to say of a route: the same schemas validate, and describe. */
interface RouteFacts<Body, Query> {
  readonly method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** `:namespace`, `:workerId` and `:id` are its parameters. */
  readonly path: string;
  readonly summary: string;
  readonly access: Access;
  /** A browser that is signed in to the dashboard may also call it. */
  readonly signedIn?: true;
  /** A page for people: links of other sites may lead to it. */
  readonly page?: true;
  /** Counts as a claim of its client. */
  readonly claims?: true;
  readonly status: 200 | 201 | 204;
  readonly body?: Schema<Body>;
  readonly query?: Schema<Query>;
  readonly answer?: Schema<unknown>;
  /** Of an answer that is no JSON. Default application/json. */
  readonly media?: string;
  /** Errors that only some routes have. */
  readonly problems?: readonly ErrorCode[];
}

/** A route that answers with JSON, or with nothing. */
export interface JsonRoute extends RouteFacts<unknown, unknown> {
  readonly run: (visit: Visit) => Promise<AnswerParts>;
}

/** A route that answers with something else. */
export interface OtherRoute extends RouteFacts<unknown, unknown> {
  readonly respond: (visit: Visit) => Promise<Response>;
}

export type Route = JsonRoute | OtherRoute;

interface JsonRouteSpec<Body, Query, Answer> extends RouteFacts<Body, Query> {
  readonly answer?: Schema<Answer>;
  readonly handle: (call: RouteCall<Body, Query>) => Promise<Answer>;
}

interface OtherRouteSpec<Body, Query> extends RouteFacts<Body, Query> {
  readonly media: string;
  readonly handle: (call: RouteCall<Body, Query>) => Promise<Response>;
}

const jsonHeaders = { "content-type": "application/json", "cache-control": "no-store" };
const plainInteger = /^-?(?:0|[1-9]\d{0,15})$/;

export function route<Body = undefined, Query = undefined, Answer = void>(
  spec: JsonRouteSpec<Body, Query, Answer>,
): JsonRoute {
  const { handle, status, ...facts } = spec;
  const read = reader(spec);
  return {
    ...facts,
    status,
    async run(visit) {
      const answer = await handle(await read(visit));
      if (status === 204) return { status, headers: {}, body: "" };
      return { status, headers: jsonHeaders, body: JSON.stringify(answer) };
    },
  };
}

/** A route whose answer never changes: made once, at the first request. A client that has it already gets 304. */
export function constantRoute<Answer>(
  facts: RouteFacts<undefined, undefined> & { readonly answer: Schema<Answer> },
  make: () => Answer,
): JsonRoute {
  let made: AnswerParts | undefined;
  const read = reader(facts);
  return {
    ...facts,
    async run(visit) {
      await read(visit);
      made ??= constantParts(facts.status, JSON.stringify(make()));
      const { headers } = made;
      // A proxy that packs answers makes their tags weak.
      return visit.request.headers.get("if-none-match")?.replace(/^W\//, "") === headers["etag"]
        ? { status: 304, headers, body: "" }
        : made;
    },
  };
}

function constantParts(status: number, text: string): AnswerParts {
  const etag = `"${createHash("sha256").update(text).digest("hex").slice(0, 32)}"`;
  return {
    status,
    headers: { "content-type": "application/json", "cache-control": "no-cache", etag },
    body: new TextEncoder().encode(text),
  };
}

export function otherRoute<Body = undefined, Query = undefined>(spec: OtherRouteSpec<Body, Query>): OtherRoute {
  const { handle, ...facts } = spec;
  const read = reader(spec);
  return { ...facts, respond: async (visit) => handle(await read(visit)) };
}

/** Reads and checks requests for a route. */
function reader<Body, Query>({
  path,
  query,
  body,
}: RouteFacts<Body, Query>): (visit: Visit) => Promise<RouteCall<Body, Query>> {
  const [inNamespace, ofWorker, ofId] = [":namespace", ":workerId", ":id"].map((name) => path.includes(name));
  return async (visit) => {
    const { request, param } = visit;
    return {
      visit,
      namespace: inNamespace ? namespaceOf(param("namespace")) : "",
      workerId: ofWorker ? checked(workerPath, { workerId: numberOf(param("workerId")) }, "the path").workerId : 0,
      id: (ofId && param("id")) || "",
      query: readQuery(request.url, query),
      body: body === undefined ? (undefined as Body) : checked(body, await readJson(request), "the body"),
    };
  };
}

function namespaceOf(name: string | undefined): string {
  if (name !== undefined && namespacePattern.test(name)) return name;
  throw new SnowleaseError(
    "CONFIG_INVALID",
    `Expected \`namespace\` to match ${namespacePattern.source}, got ${shown(name)}.`,
  );
}

/** A parameter as the schemas, which are the same as for bodies, want it. */
function numberOf(text: string | undefined): number | string | undefined {
  return text !== undefined && plainInteger.test(text) ? Number(text) : text;
}

function readQuery<Query>(url: string, schema: Schema<Query> | undefined): Query {
  const at = url.indexOf("?");
  if (at < 0 && schema === undefined) return undefined as Query;
  const parameters = [...new URLSearchParams(at < 0 ? "" : url.slice(at + 1))];
  const values = Object.fromEntries(parameters.map(([name, value]) => [name, numberOf(value)]));
  if (Object.keys(values).length < parameters.length) {
    throw new SnowleaseError("CONFIG_INVALID", "Expected the query to have every parameter once.");
  }
  if (schema !== undefined) return checked(schema, values, "the query");
  throw new SnowleaseError("CONFIG_INVALID", `Expected no query here, got ${shown(parameters[0]?.[0])}.`);
}
