import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { beforeAll, describe } from "vitest";
import { contained, Container } from "./containers.ts";

type Store = keyof typeof contained;

/** A server for the contract, or for the restart matrix. */
export interface StoreServer {
  url(): string;
  /** Ends it at once, as if its machine had stopped, and starts it again with its saved data. */
  restart(): Promise<void>;
  remove(): Promise<void>;
}

/** A server that the test itself starts and ends. */
interface OwnServer {
  url(): string;
  kill(): Promise<void>;
  start(): Promise<void>;
  remove(): Promise<void>;
}

/** The program of a store on this machine. */
interface Program {
  /** The reason for none. */
  readonly missing: string | undefined;
  start(): Promise<OwnServer>;
}

/** The server's name and how it starts, or why there is none. */
interface Choice {
  readonly title: string;
  readonly start?: () => Promise<StoreServer>;
}

/** The time until a server answers, ms: an image may have to be fetched, and an Oracle takes minutes. */
const patience = 900_000;

/**
 * Runs tests on a server of a store: on the one at a URL that the environment names (`REDIS_URL`), else on a program of this machine,
 * else, with `SNOWLEASE_CONTAINERS=1`, in a container; else skips them, with a warning. `restarts`: the tests restart it.
 */
export function onServerOf(
  store: Store,
  program: Program | undefined,
  { restarts = false }: { readonly restarts?: boolean },
  tests: (server: () => StoreServer) => void,
): void {
  const { title, start } = given(store, restarts) ?? own(store, program);
  if (start === undefined) console.warn(`NOT RUN: ${title}.`);
  describe.skipIf(start === undefined)(title, () => {
    let server: StoreServer;
    beforeAll(async () => {
      if (start === undefined) return undefined;
      server = await start();
      return () => server.remove();
    }, patience);
    tests(() => server);
  });
}

/** A server of another owner, which that owner's command may start again. */
function given(store: Store, restarts: boolean): Choice | undefined {
  const [at, again] = [`${store.toUpperCase()}_URL`, `${store.toUpperCase()}_RESTART`];
  const { [at]: url, [again]: command } = process.env;
  if (url === undefined) return undefined;
  if (restarts && command === undefined) {
    return { title: `${store}: ${again} names no command that starts the server at ${at} again` };
  }
  const server: StoreServer = {
    url: () => url,
    restart: async () => void (await promisify(execFile)("sh", ["-c", command ?? "false"])),
    remove: () => Promise.resolve(),
  };
  return { title: `${store} at ${at}`, start: () => Promise.resolve(server) };
}

function own(store: Store, program: Program | undefined): Choice {
  if (program !== undefined && program.missing === undefined) {
    return { title: `${store} on this machine`, start: async () => restartable(await program.start()) };
  }
  if (process.env["SNOWLEASE_CONTAINERS"] === "1") {
    const { image } = contained[store];
    return {
      title: `${store} in a container of ${image}`,
      start: async () => restartable(await Container.start(store)),
    };
  }
  const others = `${store.toUpperCase()}_URL is not set, nor is SNOWLEASE_CONTAINERS=1`;
  return { title: `${store}: ${program?.missing === undefined ? others : `${program.missing}; ${others}`}` };
}

/** A server of the test's own as one that restarts in one step. */
export function restartable(server: OwnServer): StoreServer {
  return {
    url: () => server.url(),
    async restart() {
      await server.kill();
      await server.start();
    },
    remove: () => server.remove(),
  };
}
