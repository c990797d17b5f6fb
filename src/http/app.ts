import { randomBytes } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import { Hono } from "hono";
import { systemClock } from "../clock.ts";
import { shown, SnowleaseError } from "../id/errors.ts";
import { defaultLayout } from "../id/layout.ts";
import type { IdMaker } from "../ops/ids.ts";
import type { Optional } from "../api/schema.ts";
import { AnswerMemory } from "../serving/answer-memory.ts";
import type { AppContext } from "./routes/context.ts";
import type { Dashboard } from "./dashboard/dashboard.ts";
import { type DirectRequest, directRoutes, send } from "./direct.ts";
import type { EventStreams } from "./monitoring/event-streams.ts";
import { guard, type AllowedHosts, ownHosts } from "./access/guard.ts";
import { explainRoute, makeRoute } from "./routes/ids.ts";
import { leaseRoutes } from "./routes/leases.ts";
import { silent } from "../serving/log.ts";
import type { Metrics } from "./monitoring/metrics.ts";
import { namespaceRoutes } from "./routes/namespaces.ts";
import { Receipts } from "./access/receipts.ts";
import type { ReceiptKeys } from "./access/receipt-keys.ts";
import { isOperators, tellable } from "../serving/failure.ts";
import { HttpRefusal, type AnswerParts, problemParts, responseOf } from "./problem.ts";
import type { ApiRequest } from "./request.ts";
import type { PageRoute, Route } from "./routes/route.ts";
import { eventsRoute, metricsRoute, systemRoutes } from "./routes/system.ts";
import { type Allowances, Visit } from "./visit.ts";
import { workerRoutes } from "./routes/workers.ts";

/** Options of the HTTP API. The defaults are those of `AppContext`. */
export interface AppOptions
  extends
    Pick<AppContext, "registry">,
    Optional<Omit<AppContext, "registry" | "receipts">>,
    Optional<Omit<Allowances, "signedIn">> {
  /** Keys that sign receipts. Default: each namespace's own. */
  readonly receiptKeys?: ReceiptKeys | undefined;
  /** Makes the IDs of `POST …/ids`. Without it, the route does not exist. */
  readonly ids?: Pick<IdMaker, "holds" | "take"> | undefined;
  /** Names that clients may use for the daemon. Default: this machine's own. */
  readonly hosts?: AllowedHosts | undefined;
  /** Pages for people. Without them, their routes do not exist. */
  readonly dashboard?: Dashboard | undefined;
  /** Readers of events. Without them, the route does not exist. */
  readonly streams?: EventStreams | undefined;
  /** Figures. Without them, the route does not exist. */
  readonly metrics?: Metrics | undefined;
}

/** The HTTP API without sockets. It never rejects. An error becomes a problem+json. */
export interface App {
  /** Answers any request. */
  fetch(request: Request, connection?: NodeBindings): Response | Promise<Response>;
  /** Answers the most frequent requests at half the cost. False: the caller must pass the request to `fetch`. */
  answer(message: IncomingMessage, response: ServerResponse): boolean;
}

/** Node's objects of a request, as hono's server passes them. */
interface NodeBindings {
  readonly outgoing: ServerResponse;
}

const defaultWindow = 60_000;
const methods = ["GET", "POST", "PUT", "PATCH", "DELETE"];

/** The HTTP API of a registry: leases for clients, and views and commands for operators. */
export function createApp(options: AppOptions): App {
  const { registry, takeBlocks, lends = () => false, pool, limits, quota, log = silent } = options;
  const { ids, streams, metrics, tokens, claimRate, dashboard, onKnown, hosts = ownHosts } = options;
  const { memory = new AnswerMemory() } = options;
  const { layout = defaultLayout, window = defaultWindow, clock = systemClock } = options;
  const makeToken = options.makeToken ?? ((): string => randomBytes(16).toString("hex"));
  const receipts = new Receipts(registry, clock, options.receiptKeys);
  const defaults = { layout, pool, window, limits };
  const context: AppContext = { registry, takeBlocks, lends, ...defaults, receipts, clock, makeToken, quota, log };
  const routes: Route[] = [
    ...leaseRoutes(context),
    ...(ids === undefined ? [] : [makeRoute(ids)]),
    explainRoute(context),
    ...workerRoutes(context),
    ...namespaceRoutes(context),
    ...(streams === undefined ? [] : [eventsRoute(context, streams)]),
    ...(metrics === undefined ? [] : [metricsRoute(metrics)]),
  ];
  routes.push(...systemRoutes(context, routes, tokens !== undefined));

  const allowances: Allowances = {
    tokens,
    claimRate,
    memory,
    onKnown,
    signedIn: dashboard?.authorizationOf,
  };

  /** Lets a request pass to a route, or throws. Both the direct path and hono use this gate. */
  function enter(
    route: PageRoute,
    request: ApiRequest,
    param: Visit["param"],
    response: ServerResponse | undefined,
  ): Visit {
    guard(request, hosts, route.page);
    const visit = new Visit(route, allowances, request, param, response);
    if (route.claims) visit.countClaim();
    return visit;
  }

  function refused(cause: unknown): AnswerParts {
    const error = cause instanceof HttpRefusal ? cause : tellable(cause);
    const parts = problemParts(error);
    metrics?.failed(error.code);
    if (isOperators(error, parts.status)) log.error({ err: cause }, error.message);
    return parts;
  }

  const app = new Hono<{ Bindings: Partial<NodeBindings> }>();
  // With one handler for each route, hono calls the handler directly and composes no chain for each request.
  for (const route of [...routes, ...(dashboard?.routes ?? [])]) {
    app.on(route.method, route.path, async (c) => {
      const visit = enter(route, c.req.raw, (name) => c.req.param(name), c.env?.outgoing);
      return responseOf(await route.run(visit));
    });
  }

  app.notFound((c) => {
    guard(c.req.raw, hosts);
    const allowed = methods.filter((method) => app.router.match(method, c.req.path)[0].length > 0);
    const what = shown(`${c.req.method} ${c.req.path}`).replace(/ \(string\)$/, "");
    if (allowed.length === 0) throw new SnowleaseError("NOT_FOUND", `There is no ${what} here; see /openapi.json.`);
    if (allowed.includes("GET")) allowed.push("HEAD");
    const allow = allowed.join(", ");
    throw new HttpRefusal(405, "NOT_FOUND", `There is no ${what} here, only ${allow}.`, { headers: { allow } });
  });

  app.onError((cause) => responseOf(refused(cause)));

  const findDirect = directRoutes(routes);

  async function serve({ route, request, param }: DirectRequest, response: ServerResponse): Promise<void> {
    let parts: AnswerParts;
    try {
      parts = await route.run(enter(route, request, param, response));
    } catch (cause) {
      parts = refused(cause);
    }
    send(response, parts);
  }

  return {
    fetch: (request, connection) => app.fetch(request, connection),

    answer(message, response) {
      const found = findDirect(message);
      if (found === undefined) return false;
      void serve(found, response);
      return true;
    },
  };
}
