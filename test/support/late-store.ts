import type { LateStore, LossyStore } from "../../src/conformance.ts";
import type { Registry } from "../../src/rule/registry.ts";
import { LateProxy } from "./late-proxy.ts";
import type { PutBack } from "./older-copy.ts";
import { patience } from "./patience.ts";
import { openSql } from "./sql.ts";

/** A server between which and a client a check stands. */
interface ReachedServer {
  readonly port: number;
  /** What a write of a record is known by. */
  readonly mark: RegExp;
  /** Opens a client by way of another port. */
  open(port: number): Promise<Registry>;
}

/** The same, which is put back to an older copy of itself. */
interface LateServer extends ReachedServer {
  copy(): Promise<() => Promise<unknown>>;
}

/** For the checks of late writes. */
export async function lateStore({ copy, ...server }: LateServer): Promise<LateStore> {
  const { proxy, registry } = await reach(server);
  return { registry, keepNext: () => proxy.keepNext(), copy, arrive: () => proxy.arrive() };
}

/** For the checks of lost answers. */
export async function lossyStore(server: ReachedServer): Promise<LossyStore> {
  const { proxy, registry } = await reach(server);
  return { registry, keepAnswer: () => proxy.keepAnswer(), lose: () => proxy.lose() };
}

/** A client, and the proxy on its way, which ends with it. */
async function reach({ port, mark, open }: ReachedServer): Promise<{ proxy: LateProxy; registry: Registry }> {
  const proxy = await LateProxy.start(port, mark);
  const registry = await open(proxy.port);
  const close = async (): Promise<void> => {
    await registry.close();
    await proxy.stop();
  };
  return { proxy, registry: { ...registry, close } };
}

/** A database and the tables of a namespace. */
interface SqlTables {
  readonly server: { readonly port: number; url(): string };
  readonly namespace: string;
}

function reachedSql({ server, namespace }: SqlTables): ReachedServer {
  const { port } = server;
  return {
    port,
    mark: new RegExp(`(INSERT INTO|UPDATE|DELETE FROM) workerid_window_${namespace}\\b`),
    open: (other) => openSql(server.url().replace(`:${port}`, `:${other}`), patience),
  };
}

/** A database, whose tables of the namespace `copyOf` copies. */
export function lateSql<Server extends SqlTables["server"]>(
  server: Server,
  namespace: string,
  copyOf: (server: Server, namespace: string) => Promise<PutBack>,
): Promise<LateStore> {
  return lateStore({ ...reachedSql({ server, namespace }), copy: () => copyOf(server, namespace) });
}

/** A database, whose answers can be lost. */
export function lossySql(server: SqlTables["server"], namespace: string): Promise<LossyStore> {
  return lossyStore(reachedSql({ server, namespace }));
}
