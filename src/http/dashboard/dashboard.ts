import { createHash } from "node:crypto";
import { html } from "hono/html";
import { readWeb } from "../../assets.ts";
import type { Clock } from "../../clock.ts";
import { asSnowleaseError, isSnowleaseError, shown, SnowleaseError } from "../../id/errors.ts";
import type { PoolBounds } from "../../id/pool-bounds.ts";
import type { Registry } from "../../rule/registry.ts";
import { alarmsOf, type Quarantine } from "../../ops/pool/alarms.ts";
import { healthOf } from "../../ops/pool/health.ts";
import { explain } from "../../ops/explain.ts";
import { inspect } from "../../ops/inspect.ts";
import { type Picture, PoolWatch } from "../../ops/pool/pool-watch.ts";
import { Layout } from "../../id/layout.ts";
import { presetNames } from "../../id/notation.ts";
import { namespacePattern, namespaceRule } from "../../id/namespace.ts";
import { readForm } from "../body.ts";
import { BoundedMap } from "../../registries/bounded-map.ts";
import { eventNames, type Journal } from "../monitoring/journal.ts";
import { noticeOverdue } from "../monitoring/notices.ts";
import { statusOf } from "../../api/problem.ts";
import { type AnswerParts, problemParts } from "../problem.ts";
import type { LastHour } from "../monitoring/last-hour.ts";
import type { RefusalCounter } from "../monitoring/refusal-counter.ts";
import type { ApiRequest } from "../request.ts";
import type { PageRoute } from "../routes/route.ts";
import { admit } from "../access/credentials.ts";
import type { Tokens } from "../../serving/tokens.ts";
import { explanationPart, splitPart, workerPart } from "./detail.ts";
import { chartsPart } from "./charts.ts";
import { claimCommand, commandsFor, endingPart } from "./commands.ts";
import { headerPart } from "./header.ts";
import { alarmsPart, healthPart, notice, page, signInPart } from "./page.ts";
import { holdersPart, readHoldersQuery, writtenHoldersQuery } from "./holders.ts";
import { type PageLink, countsPart, gridPart, workersPart } from "./pool.ts";
import { leastRoom, pageRoom, plain, sizeOf } from "./room.ts";
import { SignIns } from "./sign-ins.ts";
import { askPart, eventsPart, outlookPart } from "./side.ts";
import type { Html } from "./text.ts";

export interface DashboardOptions {
  readonly registry: Registry;
  readonly clock: Clock;
  /** Worker IDs to show. Default: all worker IDs of the namespace's layout. */
  readonly pool?: PoolBounds | undefined;
  readonly journal: Journal;
  readonly refusals: RefusalCounter;
  readonly hour: LastHour;
  /** Namespaces that are known to exist. */
  readonly namespaces: () => readonly string[];
  /** The tokens with access. Default: every client has access. */
  readonly tokens?: Tokens | undefined;
  readonly onSignOut?: (() => void) | undefined;
  readonly version: string;
}

/** The pages for people, and the browsers that are signed in. */
export interface Dashboard {
  readonly routes: readonly PageRoute[];
  /** The `Authorization` of a browser that is signed in. Null for any other browser. */
  authorizationOf(request: ApiRequest): string | null;
  /** Looks at the pools for the charts of the last hour. The caller calls it once a minute. Never rejects. */
  sample(): Promise<void>;
}

/** The parameters in the address of a page. */
type PageQuery = ReturnType<typeof readAsked> & {
  /** The address that the browser uses for this daemon. */
  readonly origin: string;
};

const defaultNamespace = "default";
const unknownToken = "That is no token which this daemon knows; try another.";
/** How many pools are watched. Beyond that, the least recently used one is forgotten. */
const mostWatched = 50;
/** How many pools are sampled for the charts while no browser shows their page. */
const mostSampled = 20;
/** Longest ID in the address, characters. The rest is ignored. */
const longestId = 200;
const eventsShown = 30;
const historyShown = 50;
const workersShown = 100;
/** Size of a page around its main part, bytes. */
const frameSize = 2500;
const types: Readonly<Record<string, string>> = {
  "dashboard.css": "text/css; charset=utf-8",
  "dashboard.js": "text/javascript; charset=utf-8",
  "dashboard.svg": "image/svg+xml",
};
const pageHeaders = {
  "content-type": "text/html; charset=utf-8",
  "cache-control": "no-store",
  "content-security-policy":
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
  // With `no-referrer`, a form from this page would be sent without its Origin, and `guard` would refuse it.
  "referrer-policy": "same-origin",
  "x-content-type-options": "nosniff",
};

/** Pages for people. They show the same facts as the API, and change nothing. */
export function createDashboard(options: DashboardOptions): Dashboard {
  const { registry, clock, pool, journal, refusals, hour, namespaces, tokens, onSignOut, version } = options;
  const sessions = new SignIns(clock);
  const watches = new BoundedMap<string, PoolWatch>(mostWatched);
  const assets = new Map(Object.keys(types).map((name) => [name, assetOf(name)]));
  const noticed = noticeOverdue(journal);
  const assetUrl = (name: string): string => `/${name}?${assets.get(name)?.hash}`;

  function credentials(request: ApiRequest): string | null {
    return request.headers.get("authorization") ?? sessions.authorizationOf(request);
  }

  /** @throws SnowleaseError UNAUTHORIZED, FORBIDDEN */
  function checkReader(request: ApiRequest, namespace: string): void {
    if (tokens !== undefined) admit(tokens, credentials(request), "read", namespace);
  }

  function mayRead(request: ApiRequest, namespace: string): boolean {
    try {
      checkReader(request, namespace);
      return true;
    } catch {
      return false;
    }
  }

  function watchOf(namespace: string): PoolWatch {
    const watch = watches.get(namespace) ?? new PoolWatch(registry, namespace, clock, pool);
    watches.set(namespace, watch);
    return watch;
  }

  async function answer(status: number, title: string, main: Html, header?: Html): Promise<AnswerParts> {
    const text = await page({ title: `${title} · Snowlease`, assetUrl, version, header, main });
    return { status, headers: pageHeaders, body: plain(String(text)) };
  }

  async function show(request: ApiRequest): Promise<AnswerParts> {
    const { origin, searchParams } = new URL(request.url);
    const asked = { ...readAsked(searchParams), origin };
    const listed = [...new Set([...namespaces(), defaultNamespace])]
      .filter((name) => mayRead(request, name))
      .toSorted();
    const first = listed.find((name) => name !== defaultNamespace && !namespaces().includes(defaultNamespace));
    const namespace = asked.namespace ?? first ?? listed[0] ?? defaultNamespace;
    checkReader(request, namespace);
    const { picture, problem } = await watchOf(namespace).look();
    if (picture !== undefined) noticed(picture);
    if (picture !== undefined && problem === undefined) hour.look(picture);
    const address = addressesIn(namespace);
    const status = problem === undefined ? 200 : statusOf[problem.code];
    const header = headerPart(namespace, listed, picture, credentials(request) !== null && tokens !== undefined);
    // If the registry reports its quarantines, it knows sooner than this daemon's journal that an operator ended one.
    const isTold = problem === undefined && picture?.info.quarantineEnd !== undefined;
    const quarantine = isTold ? undefined : reportedQuarantine(namespace);
    const known = { refused: refusals.of(namespace), quarantine };
    const health = picture && healthPart(healthOf(picture, { problem, ...known }), picture.clock);
    const notices = html`${health} ${problem && notice("fail", problem.code, problem.message)}
    ${alarmsPart(alarmsOf(picture, known))}${picture && endingPart(picture, origin)}`;
    const main = html`<main
      id="main"
      class="${problem !== undefined && picture !== undefined ? "stale" : ""}"
      data-now="${picture?.clock ?? clock.now()}"
      data-namespace="${namespace}"
      data-events="${picture === undefined ? "" : `/v1/${namespace}/events`}"
      data-names="${eventNames.join(" ")}"
    >
      ${notices}
      ${
        picture === undefined
          ? absentPart(namespace, problem !== undefined, origin)
          : await parts(picture, asked, address, frameSize + sizeOf(header) + sizeOf(notices))
      }
      <p id="news" role="status" class="unseen"></p>
    </main>`;
    return answer(status, namespace, main, header);
  }

  /** The parts below the notices. `taken`: size of the page without them, bytes. */
  async function parts(picture: Picture, asked: PageQuery, address: PageLink, taken: number): Promise<Html> {
    const { namespace } = picture;
    const entries = journal.after(namespace, "").entries.slice(-eventsShown);
    const at = asked.at === undefined ? undefined : String(asked.at);
    const query = readHoldersQuery(asked);
    // Links of the list keep the list's query. Links of the grid do not, because the grid has many and they must be short.
    const beside: PageLink = (more) => address({ ...writtenHoldersQuery(query), ...more });
    const details = await detailsOf(picture, asked, beside).catch((cause: unknown) => {
      const { code, message } = asSnowleaseError(cause);
      return html`<section class="detail" id="detail">
        <h2 tabindex="-1">No answer</h2>
        ${notice("fail", code, message)}
      </section>`;
    });
    const upper = html`${countsPart(picture)}${gridPart(picture, address, asked.worker ?? asked.from)}${details}`;
    const side = html`${askPart(picture, { id: asked.id, layout: asked.layout, at, worker: asked.worker })}${outlookPart(picture)}${chartsPart(hour.of(namespace), clock.now())}${eventsPart(entries, picture.clock, address)}`;
    const room = Math.max(leastRoom, pageRoom - taken - sizeOf(upper) - sizeOf(side));
    return html`${upper}
      <div class="columns" id="columns">
        <div>${holdersPart(picture, { query, address, beside, origin: asked.origin, room })}</div>
        <div class="side">${side}</div>
      </div>`;
  }

  async function detailsOf(picture: Picture, asked: PageQuery, address: PageLink): Promise<Html | string> {
    const { origin } = asked;
    const { namespace, layout, pool, cellSize, clock } = picture;
    const { id, at, worker, from } = asked;
    if (id !== undefined && asked.layout !== undefined && asked.layout !== layout.name) {
      const other = Layout.parse(asked.layout);
      return splitPart({ ...inspect(id, other, { at }), layout: other, clock }, address);
    }
    if (id !== undefined) return explanationPart(await explain(registry, namespace, id.trim(), { at }), address);
    if (worker !== undefined) {
      layout.split(worker);
      const [record, history] = await Promise.all([
        registry.worker(namespace, worker),
        registry.history(namespace, worker, { limit: historyShown }),
      ]);
      const commands = commandsFor(worker, record, { registry: origin, namespace });
      return workerPart(worker, { record, history, commands }, clock, address);
    }
    if (from === undefined || from < pool.first || from > pool.last) return "";
    const last = Math.min(pool.last, from - ((from - pool.first) % cellSize) + cellSize - 1);
    const found = await registry.workers(namespace, { after: from - 1, limit: workersShown + 1 });
    const workers = found.filter(({ workerId }) => workerId <= last);
    const more = workers.length > workersShown;
    return workersPart({ workers: workers.slice(0, workersShown), more }, { first: from, last }, clock, address);
  }

  /** A present quarantine, which the registry reported when it refused a request of this daemon. */
  function reportedQuarantine(namespace: string): Quarantine | undefined {
    const { entries } = journal.after(namespace, "");
    const last = entries.findLast(({ event }) => event.event === "quarantine")?.event;
    const until = Number(last?.["until"]);
    return last !== undefined && until > clock.now() ? { until, message: last.message } : undefined;
  }

  async function asPage(request: ApiRequest, make: () => Promise<AnswerParts>): Promise<AnswerParts> {
    try {
      return await make();
    } catch (cause) {
      if (!(cause instanceof SnowleaseError)) throw cause;
      const { code, message } = cause;
      const { pathname, search } = new URL(request.url);
      const next = pathname === "/" ? `/${search}` : "/";
      // A browser that has not sent a token yet gets no error message.
      const wrong = credentials(request) === null ? undefined : unknownToken;
      if (code === "UNAUTHORIZED") return answer(401, "Sign in", signInPart(wrong, next));
      if (code === "FORBIDDEN") return answer(403, "Sign in", signInPart(message, next));
      const main = html`<main id="main" class="narrow">
        ${notice("fail", code, message)}
        <p><a href="/">To the dashboard</a></p>
      </main>`;
      return answer(problemParts(cause).status, "Error", main);
    }
  }

  async function signIn(request: ApiRequest): Promise<AnswerParts> {
    const form = await readForm(request);
    const next = safeNext(form.get("next"));
    const token = form.get("token")?.trim() ?? "";
    if (tokens === undefined) return seeOther(next);
    try {
      admit(tokens, `Bearer ${token}`, "any", undefined);
    } catch (cause) {
      if (!isSnowleaseError(cause, "UNAUTHORIZED")) throw cause;
      return answer(401, "Sign in", signInPart(unknownToken, next));
    }
    return seeOther(next, sessions.start(request, token));
  }

  const route = (
    method: "GET" | "POST",
    path: string,
    run: (request: ApiRequest) => Promise<AnswerParts>,
  ): PageRoute => ({
    method,
    path,
    summary: "A page for people",
    access: "open",
    page: true,
    run: ({ request }) => asPage(request, () => run(request)),
  });

  /** Namespaces whose pool is too large for samples, because one look reads only a part of it. */
  const large = new Set<string>();

  async function sample(): Promise<void> {
    for (const namespace of namespaces().slice(0, mostSampled)) {
      if (large.has(namespace)) continue;
      const { picture, problem } = await watchOf(namespace).look();
      if (picture !== undefined && picture.cellSize > 1) large.add(namespace);
      if (picture !== undefined && problem === undefined) hour.look(picture);
    }
  }

  return {
    sample,
    authorizationOf: (request) => sessions.authorizationOf(request),
    routes: [
      route("GET", "/", show),
      route("POST", "/sign-in", signIn),
      route("POST", "/sign-out", async (request) => {
        const cookie = sessions.end(request);
        onSignOut?.();
        return seeOther("/", cookie);
      }),
      ...[...assets].map(([name, { answer }]) => route("GET", `/${name}`, async () => answer)),
    ],
  };
}

/** A file for browsers. All answers share its bytes. */
function assetOf(name: string) {
  const body = new TextEncoder().encode(readWeb(name));
  const hash = createHash("sha256").update(body).digest("hex").slice(0, 12);
  const headers = {
    "content-type": types[name] ?? "text/plain",
    // The address of a file changes with its contents.
    "cache-control": "public, max-age=31536000, immutable",
    "x-content-type-options": "nosniff",
  };
  return { hash, answer: { status: 200, headers, body } };
}

/** Shown instead of the pool if the namespace does not exist. `unknown`: the registry did not say whether it exists. */
function absentPart(namespace: string, unknown: boolean, origin: string): Html {
  if (unknown) return html`<p class="empty">Nothing is known of <b>${namespace}</b> yet.</p>`;
  return html`<section class="absent">
    <h2>Namespace <b>${namespace}</b> does not exist yet</h2>
    <p>The first claim makes it, with the layout that it brings:</p>
    ${claimCommand(origin, namespace)}
  </section>`;
}

function addressesIn(namespace: string): PageLink {
  return (query) => {
    const asked = Object.entries(query).map(([name, value]) => `&${name}=${encodeURIComponent(value)}`);
    return `/?namespace=${namespace}${asked.join("")}`;
  };
}

/** @throws SnowleaseError CONFIG_INVALID */
function readAsked(query: URLSearchParams) {
  // An empty input field counts as absent.
  const text = (name: string): string | undefined => query.get(name)?.trim() || undefined;
  const refuse = (name: string, rule: string, value: string): never => {
    const what = `Expected \`${name}\` ${rule}, got ${shown(value)}; correct the address.`;
    throw new SnowleaseError("CONFIG_INVALID", what);
  };
  const integer = (name: string): number | undefined => {
    const value = text(name);
    if (value !== undefined && !/^\d{1,15}$/.test(value)) refuse(name, "to be an integer", value);
    return value === undefined ? undefined : Number(value);
  };
  const namespace = text("namespace");
  if (namespace !== undefined && !namespacePattern.test(namespace)) {
    refuse("namespace", namespaceRule(namespace), namespace);
  }
  const layout = text("layout");
  if (layout !== undefined && !presetNames.some((name) => name === layout)) {
    refuse("layout", `to be one of ${presetNames.join(", ")}`, layout);
  }
  return {
    namespace,
    /** Details of this worker ID. */
    worker: integer("worker"),
    /** List of the worker IDs from this one to the end of its cell. */
    from: integer("from"),
    /** The query of the list of holders. */
    find: text("find")?.slice(0, longestId),
    show: text("show"),
    sort: text("sort"),
    skip: integer("skip"),
    /** An ID to explain, its layout if it is not the namespace's, and a time near its creation. */
    id: text("id")?.slice(0, longestId),
    layout,
    at: integer("at"),
  };
}

/** The address of the page after the sign-in. It is always in this dashboard, even if another site made the form. */
function safeNext(next: string | null): string {
  return next !== null && /^\/\?[\w=&%.~+-]*$/.test(next) ? next : "/";
}

function seeOther(location: string, cookie?: string): AnswerParts {
  const headers = { location, "cache-control": "no-store", ...(cookie !== undefined && { "set-cookie": cookie }) };
  return { status: 303, headers, body: null };
}
