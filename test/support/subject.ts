import type { Registry } from "../../src/rule/registry.ts";

/** A registry on which the processes of a test lease, and the server behind it. */
export interface Subject {
  /** The URL for the holders. */
  readonly url: string;
  /** The namespace for the holders. Default: `namespace`. */
  readonly namespace?: string;
  /** A client for the test itself, to read what was persisted. */
  readonly registry: Registry;
  /** Additions to a holder's environment. */
  readonly environment?: Readonly<Record<string, string>>;
  stop(): Promise<void>;
}

/** The namespace for the holders if the store belongs to the test alone. */
export const namespace = "orders";

/** A registry on a server of the test's own. The server ends with it. */
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
