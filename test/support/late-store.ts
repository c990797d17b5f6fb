import type { LateStore } from "../../src/conformance.ts";
import type { Registry } from "../../src/rule/registry.ts";
import { LateProxy } from "./late-proxy.ts";
import type { PutBack } from "./older-copy.ts";
import { patience } from "./patience.ts";
import { openSql } from "./sql.ts";

/** A server that a check puts back to an older copy of itself. */
interface LateServer {
  readonly port: number;
  /** What a write of a record is known by. */
  readonly mark: string;
  /** Opens a client by way of another port. */
  open(port: number): Promise<Registry>;
  copy(): Promise<() => Promise<unknown>>;
}

/** For the checks of late writes. The proxy ends with its client. */
export async function lateStore({ port, mark, open, copy }: LateServer): Promise<LateStore> {
  const proxy = await LateProxy.start(port, mark);
  const registry = await open(proxy.port);
  return {
    registry: {
      ...registry,
      async close() {
        await registry.close();
        await proxy.stop();
      },
    },
    keepNext: () => proxy.keepNext(),
    copy,
    arrive: () => proxy.arrive(),
  };
}

/** A database, whose tables of the namespace `copyOf` copies. */
export function lateSql<Server extends { readonly port: number; url(): string }>(
  server: Server,
  namespace: string,
  copyOf: (server: Server, namespace: string) => Promise<PutBack>,
): Promise<LateStore> {
  const { port } = server;
  return lateStore({
    port,
    mark: `UPDATE workerid_window_${namespace}`,
    open: (other) => openSql(server.url().replace(`:${port}`, `:${other}`), patience),
    copy: () => copyOf(server, namespace),
  });
}
