import type { Registry } from "../../src/rule/registry.ts";

/** A registry on which the processes of a test lease, and what is behind it. */
export interface Subject {
  /** Where the holders find it. */
  readonly url: string;
  /** In which they lease. Default: `namespace`. */
  readonly namespace?: string;
  /** A view on it for the test itself, to read back what was persisted. */
  readonly registry: Registry;
  /** What else has to stand in a holder's environment. */
  readonly environment?: Readonly<Record<string, string>>;
  stop(): Promise<void>;
}

/** The namespace in which its holders lease, where the store is the test's alone. */
export const namespace = "orders";

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
