import type { LateStore, LossyStore } from "../../src/conformance.ts";
import type { Registry } from "../../src/rule/registry.ts";
import { LateProxy } from "./late-proxy.ts";
import type { PutBack } from "./older-copy.ts";
import { patience } from "./patience.ts";
import { openSql } from "./sql.ts";

/** A server, with a test between it and a client. */
interface ReachedServer {
  /** Its registry URL, with a port. */
  readonly url: string;
  /** Recognizes a write of a record. */
  readonly mark: RegExp;
  /** Opens a client at this URL. */
  open(url: string): Promise<Registry>;
}

/** The same server, which can be put back to an older copy of itself. */
interface LateServer extends ReachedServer {
  copy(): Promise<() => Promise<unknown>>;
}

/** A store for the checks of late writes. */
export async function lateStore({ copy, ...server }: LateServer): Promise<LateStore> {
  const { proxy, registry } = await reach(server);
  return { registry, keepNext: () => proxy.keepNext(), copy, arrive: () => proxy.arrive() };
}

/** A store for the checks of lost answers. */
export async function lossyStore(server: ReachedServer): Promise<LossyStore> {
  const { proxy, registry } = await reach(server);
  return { registry, keepAnswer: () => proxy.keepAnswer(), lose: () => proxy.lose() };
}

/** A client, and the proxy on its way, which ends with the client. */
async function reach({ url, mark, open }: ReachedServer): Promise<{ proxy: LateProxy; registry: Registry }> {
  const [, port = ""] = /:(\d+)(?!.*:\d)/.exec(url) ?? [];
  const proxy = await LateProxy.start(Number(port), mark);
  const registry = await open(url.replace(`:${port}`, `:${proxy.port}`));
  const close = async (): Promise<void> => {
    await registry.close();
    await proxy.stop();
  };
  return { proxy, registry: { ...registry, close } };
}

interface Database {
  url(): string;
}

/** A database as a server, with the tables of a namespace. */
function reachedSql(server: Database, namespace: string): ReachedServer {
  return {
    url: server.url(),
    mark: new RegExp(`(INSERT INTO|UPDATE|DELETE FROM) workerid_window_${namespace}\\b`),
    open: (url) => openSql(url, patience),
  };
}

/** A database for the checks of late writes. `copyOf` copies the tables of the namespace. */
export function lateSql<Server extends Database>(
  server: Server,
  namespace: string,
  copyOf: (server: Server, namespace: string) => Promise<PutBack>,
): Promise<LateStore> {
  return lateStore({ ...reachedSql(server, namespace), copy: () => copyOf(server, namespace) });
}

/** A database for the checks of lost answers. */
export function lossySql(server: Database, namespace: string): Promise<LossyStore> {
  return lossyStore(reachedSql(server, namespace));
}
