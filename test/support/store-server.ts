import { afterAll, beforeAll } from "vitest";
import type { Registry } from "../../src/rule/registry.ts";
import { OwnNamespaces } from "../../src/verify/namespaces.ts";
import { patience } from "./patience.ts";
import { composedService, type ComposedStore } from "./compose.ts";

/** A server on which a test can lease. */
interface Server {
  /** Its registry URL. */
  url(query?: string): string;
  remove(): Promise<void>;
}

/** A program of this machine that a test can start. */
export interface Program<Own extends Server> {
  /** Why the program cannot be started; undefined if it can. */
  readonly missing: string | undefined;
  start(): Promise<Own>;
}

/** A server that was found for a test. */
interface FoundServer<Own extends Server> extends Server {
  /** If the test has started a program of this machine: what else the test can do to that program. */
  readonly own?: Own;
  /** The server was there before the test, and stays. What the test leaves there stays, too. */
  readonly stays?: true;
}

/** Where the server of a store comes from. */
export interface ServerSource<Own extends Server = Server> {
  /** What the server is, or why there is none, and all ways to get one. */
  readonly title: string;
  /** Whether there is no server. */
  readonly isMissing: boolean;
  /** Whether the server is the program of this machine. */
  readonly isOwn: boolean;
  start(): Promise<FoundServer<Own>>;
}

/**
 * Finds a server for the contract and the restarts of a store, the first of these that exists:
 *
 * 1. the registry URL in `REDIS_URL`, `POSTGRES_URL` and so on;
 * 2. the program on this machine, started by the test;
 * 3. the store's service of docker-compose.yml, if it runs;
 * 4. the image of that service, in a container of the test's own. Oracle's image is large: it is used only if the engine has it.
 *
 * `SNOWLEASE_CONTAINERS=1` takes containers even if there is a program, and fetches Oracle's image, too. `tags`: the same, but it takes
 * the engine's image with the tag, and does not compare digests. `0`, or CI without this variable: no containers.
 */
export async function findServer<Own extends Server>(
  store: ComposedStore,
  program: Program<Own>,
): Promise<ServerSource<Own>> {
  const variable = `${store.toUpperCase()}_URL`;
  const given = process.env[variable];
  if (given !== undefined) return standing(`on the server in ${variable}`, given);

  const asked = process.env["SNOWLEASE_CONTAINERS"] ?? (process.env["CI"] === undefined ? "" : "0");
  if (!["", "0", "1", "tags"].includes(asked)) {
    throw new Error(`Expected \`SNOWLEASE_CONTAINERS\` to be 0, 1 or tags, got \`${asked}\`.`);
  }
  const isOwn = program.missing === undefined && asked !== "1" && asked !== "tags";
  if (isOwn) return { title: "on a server of this machine", isMissing: false, isOwn, start: () => owned(program) };

  const none = (containers: string): ServerSource<Own> => {
    const ways = [program.missing, `name a server in ${variable}`, containers].filter(Boolean);
    const title = `${store}: no server. To get one: ${ways.join("; or ")}`;
    // If the caller asked for containers, missing ones are not skipped.
    return { title, isMissing: asked !== "1", isOwn, start: () => Promise.reject(new Error(title)) };
  };
  if (asked === "0") return none("allow containers: SNOWLEASE_CONTAINERS=1");
  const containers = await import("./containers.ts");
  const engine = await containers.findEngine();
  if (engine === undefined) return none("start Docker, or name its socket in DOCKER_HOST: no engine answers this user");
  const composed = await containers.findComposed(engine, store);
  if (composed !== undefined && composed.url === undefined) {
    return none(`wait until the service ${store} of docker-compose.yml is healthy: docker compose up --wait ${store}`);
  }
  if (composed?.url !== undefined) return standing(`on the service ${store} of docker-compose.yml`, composed.url);

  const { image, tag } = composedService(store);
  const wanted = asked === "tags" ? tag : image;
  const isFetched = asked === "1" || (asked === "" && store !== "oracle");
  if (!isFetched && !(await containers.hasImage(engine, wanted))) return none(`fetch its image: docker pull ${wanted}`);
  try {
    await containers.fetchImage(engine, wanted);
  } catch (error) {
    return none(`let Docker fetch ${wanted}: ${(error as Error).message}`);
  }
  const start = async (): Promise<FoundServer<Own>> => {
    const { url, remove } = await containers.startContainer(store, wanted);
    return { url: (query) => withQuery(url, query), remove };
  };
  return { title: `in a container of ${tag}`, isMissing: false, isOwn, start };
}

async function owned<Own extends Server>(program: Program<Own>): Promise<FoundServer<Own>> {
  const own = await program.start();
  return { own, url: (query) => own.url(query), remove: () => own.remove() };
}

/** A server that was there before the test. */
function standing<Own extends Server>(title: string, url: string): ServerSource<Own> {
  const server: FoundServer<Own> = {
    url: (query) => withQuery(url, query),
    remove: () => Promise.resolve(),
    stays: true,
  };
  return { title, isMissing: false, isOwn: false, start: () => Promise.resolve(server) };
}

/** A URL, which may have a query, with an addition to the query. */
function withQuery(url: string, query = ""): string {
  return url.includes("?") ? url + query.replace("?", "&") : url + query;
}

/** A server that the tests of a `describe` share. */
export interface SharedServer<Own extends Server> {
  readonly own: Own | undefined;
  url(query?: string): string;
  /** A namespace that did not exist before, even on a server that stays. */
  newNamespace(): string;
}

/**
 * Starts the server of a source before the tests of this `describe`, and removes it after them. If the server stays, removes what the
 * tests made there. `open`: opens a registry there.
 */
export function shareServer<Own extends Server>(
  source: ServerSource<Own>,
  open: (url: string) => Promise<Registry>,
): SharedServer<Own> {
  let starting: Promise<FoundServer<Own>> | undefined;
  let server: FoundServer<Own> | undefined;
  const names = new OwnNamespaces(`t${crypto.randomUUID().replaceAll("-", "").slice(0, 16)}`);
  beforeAll(async () => {
    starting = source.start();
    server = await starting;
  }, patience);
  afterAll(async () => {
    // Also if the tests were given up before the server had started.
    server = await starting?.catch(() => undefined);
    if (server?.stays === true) {
      const registry = await open(server.url());
      const { left } = await names.removeAll(registry, () => undefined);
      await registry.close();
      for (const { namespace, reason } of left) console.warn(`Left behind: namespace ${namespace}: ${reason}`);
    }
    await server?.remove();
  }, patience);
  return {
    get own() {
      return server?.own;
    },
    url(query) {
      if (server === undefined) throw new Error("It was not started yet.");
      return server.url(query);
    },
    newNamespace: () => names.next(),
  };
}
