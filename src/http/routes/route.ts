import { refuse } from "../../id/check.ts";
import { shown, SnowleaseError } from "../../id/errors.ts";
import { namespacePattern, namespaceRule } from "../../id/namespace.ts";
import { type Call, receiptHeader } from "../../api/call.ts";
import { workerId } from "../../api/fields.ts";
import { readJson } from "../body.ts";
import { checked, parameters, type Schema } from "../../api/schema.ts";
import type { AnswerParts } from "../problem.ts";
import type { Visit } from "../visit.ts";

/** A request that was read and checked. A field that is not in its path is empty. */
interface CheckedRequest<Body, Query> {
  readonly visit: Visit;
  readonly namespace: string;
  readonly workerId: number;
  readonly id: string;
  readonly body: Body;
  readonly query: Query;
  /** As the client sent it. Null if the request has none, or the call takes none. */
  readonly receipt: string | null;
}

export interface Route extends Call<unknown, unknown, unknown> {
  /** A page for people. Links of other sites may lead to it. */
  readonly page?: true;
  readonly run: (visit: Visit) => Promise<AnswerParts>;
}

/** A page for people. The API's description does not have it. */
export type PageRoute = Omit<Route, "operation">;

const jsonHeaders = { "content-type": "application/json", "cache-control": "no-store" };
const plainInteger = /^-?(?:0|[1-9]\d{0,15})$/;
const workerPath = parameters({ workerId });

/** A route that answers with JSON, or with nothing. */
export function route<Answer, Body, Query>(
  call: Call<Answer, Body, Query>,
  handle: (asked: CheckedRequest<Body, Query>) => Promise<Answer>,
): Route {
  const { status = 200 } = call;
  return rawRoute(call, async (asked) => {
    const answer = await handle(asked);
    if (status === 204) return { status, headers: {}, body: null };
    const { receipt } = asked.visit;
    const headers = receipt === undefined ? jsonHeaders : { ...jsonHeaders, [receiptHeader]: receipt };
    return { status, headers, body: JSON.stringify(answer) };
  });
}

/** A route that writes its answer itself. */
export function rawRoute<Answer, Body, Query>(
  call: Call<Answer, Body, Query>,
  handle: (asked: CheckedRequest<Body, Query>) => Promise<AnswerParts>,
): Route {
  const { path, query, body, receipts } = call;
  const [inNamespace, ofWorker, ofId] = [":namespace", ":workerId", ":id"].map((name) => path.includes(name));
  return {
    ...call,
    async run(visit) {
      const { request, param } = visit;
      return handle({
        visit,
        namespace: inNamespace ? namespaceOf(param("namespace")) : "",
        workerId: ofWorker ? checked(workerPath, { workerId: numberOf(param("workerId")) }, "the path").workerId : 0,
        id: (ofId && param("id")) || "",
        query: readQuery(request.url, query),
        receipt: receipts === true ? request.headers.get(receiptHeader) : null,
        body: body === undefined ? (undefined as Body) : checked(body, await readJson(request), "the body"),
      });
    },
  };
}

function namespaceOf(name: string | undefined): string {
  if (name !== undefined && namespacePattern.test(name)) return name;
  return refuse("namespace", namespaceRule(name), name);
}

/** A parameter in the form that the schemas expect. They are the same for bodies. */
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
