import type { Registry } from "../../src/rule/registry.ts";
import type { StoreServer } from "./store-server.ts";

/** A registry on which the processes of a test lease, and its server. */
export interface Subject {
  /** The URL for holders. */
  readonly url: string;
  /** The namespace of their leases; default: `namespace`. */
  readonly namespace?: string;
  /** A view of it for the test itself, to read back stored records. */
  readonly registry: Registry;
  /** Further variables for a holder's environment. */
  readonly environment?: Readonly<Record<string, string>>;
  /** Kills its server, and starts it again with its saved data. Absent if there is none, or if other tests cover that. */
  restart?(): Promise<void>;
  stop(): Promise<void>;
}

/** The namespace of the holders if the server is theirs alone. */
export const namespace = "orders";

/** A name of its own: a server with other users may know every name that was used before. */
export function newNamespace(): string {
  return `t${crypto.randomUUID().replaceAll("-", "").slice(0, 20)}`;
}

/** A registry on a server of the test's own, which ends with it. */
export function subjectOn(server: { url(): string; remove(): Promise<void> }, registry: Registry): Subject {
  return {
    url: server.url(),
    registry,
    async stop() {
      await registry.close();
      await server.remove();
    },
  };
}

/** A namespace of its own on a server that goes on after it. */
export function subjectIn(namespace: string, server: StoreServer, registry: Registry): Subject {
  return {
    url: server.url(),
    namespace,
    registry,
    restart: () => server.restart(),
    stop: () => registry.close(),
  };
}
