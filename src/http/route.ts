import type { Context } from "hono";
import { z } from "zod";
import { type ErrorCode, shown, SnowleaseError } from "../core/errors.ts";
import { namespacePattern, workerId } from "../registries/daemon/requests.ts";
import { readJson } from "./body.ts";
import { checked } from "./check.ts";
import type { Access } from "./tokens.ts";

/** A request that was read and checked. What its path does not name is empty. */
interface Call<Body, Query> {
  readonly namespace: string;
  readonly workerId: number;
  readonly id: string;
  readonly request: Request;
  /** Throws when who asked would not be let in any more, as after its token was taken away. */
  readonly admit: () => void;
  readonly body: Body;
  readonly query: Query;
}

/** One route, as its author writes it: the same schemas validate, and describe. */
export interface RouteSpec<Body, Query, Answer> {
  readonly method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** `:namespace`, `:workerId` and `:id` are its parameters. */
  readonly path: string;
  readonly summary: string;
  readonly access: Access;
  /** A browser that was signed in to the dashboard may call it, too. */
  readonly signedIn?: true;
  /** A page for people: links of other sites may lead to it. */
  readonly page?: true;
  /** Counts as a claim of its client. */
  readonly claims?: true;
  readonly status: 200 | 201 | 204;
  readonly body?: z.ZodType<Body>;
  readonly query?: z.ZodType<Query>;
  readonly answer?: z.ZodType<Answer>;
  /** Of an answer that is no JSON. Default application/json. */
  readonly media?: string;
  /** Errors that only some routes have. */
  readonly problems?: readonly ErrorCode[];
  readonly handle: (call: Call<Body, Query>) => Promise<Answer | Response>;
}

/** One route, as the app and the description see it. */
export interface Route extends Omit<RouteSpec<unknown, unknown, unknown>, "handle"> {
  readonly run: (c: Context, admit: () => void) => Promise<Response>;
}

const jsonHeaders = { "content-type": "application/json", "cache-control": "no-store" };
const workerPath = z.object({ workerId });
const plainInteger = /^-?(?:0|[1-9]\d{0,15})$/;

export function route<Body = undefined, Query = undefined, Answer = void>(spec: RouteSpec<Body, Query, Answer>): Route {
  const { handle, path, status, body, query } = spec;
  const [inNamespace, ofWorker, ofId] = [":namespace", ":workerId", ":id"].map((name) => path.includes(name));

  async function run({ req }: Context, admit: () => void): Promise<Response> {
    const answer = await handle({
      namespace: inNamespace ? namespaceOf(req.param("namespace")) : "",
      workerId: ofWorker ? checked(workerPath, { workerId: numberOf(req.param("workerId")) }, "the path").workerId : 0,
      id: (ofId && req.param("id")) || "",
      request: req.raw,
      admit,
      query: readQuery(req.url, query),
      body: body === undefined ? (undefined as Body) : checked(body, await readJson(req.raw), "the body"),
    });
    if (answer instanceof Response) return answer;
    if (status === 204) return new Response(null, { status });
    return new Response(JSON.stringify(answer), { status, headers: jsonHeaders });
  }

  return { ...spec, run };
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

function readQuery<Query>(url: string, schema: z.ZodType<Query> | undefined): Query {
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
