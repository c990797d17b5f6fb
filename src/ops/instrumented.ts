import { type Clock, monotonic } from "../lease/clock.ts";
import { asSnowleaseError, type SnowleaseError } from "../id/errors.ts";
import type { Registry } from "../rule/registry.ts";

/** The operations of a registry that are watched: all that ask the store something. */
const operations = [
  "init",
  "describe",
  "claim",
  "renew",
  "release",
  "takeBlocks",
  "workers",
  "worker",
  "history",
  "forceRelease",
  "pin",
  "unpin",
  "pinAll",
  "unpinAll",
  "prune",
  "ping",
] as const;

type RegistryOperation = (typeof operations)[number];

/** A call that has come back, with an answer or an error. */
export interface InstrumentedCall {
  readonly operation: RegistryOperation;
  /** Undefined for `ping`. */
  readonly namespace: string | undefined;
  /** How long it took, on the monotonic clock. */
  readonly seconds: number;
  readonly answer?: unknown;
  readonly error?: SnowleaseError;
}

type AnyOperation = (...args: readonly unknown[]) => Promise<unknown>;

/** The same registry; `watch` is told of every call. */
export function instrumentedRegistry<Watched extends Registry>(
  registry: Watched,
  clock: Clock,
  watch: (call: InstrumentedCall) => void,
): Watched {
  const watched = (operation: RegistryOperation): AnyOperation => {
    return async (...args) => {
      const namespace = namespaceOf(args[0]);
      const asked = monotonic(clock);
      const seconds = (): number => (monotonic(clock) - asked) / 1000;
      try {
        const answer = await (registry[operation] as AnyOperation)(...args);
        watch({ operation, namespace, seconds: seconds(), answer });
        return answer;
      } catch (error) {
        watch({ operation, namespace, seconds: seconds(), error: asSnowleaseError(error) });
        throw error;
      }
    };
  };
  const there = operations.filter((operation) => registry[operation] !== undefined);
  return { ...registry, ...Object.fromEntries(there.map((operation) => [operation, watched(operation)])) };
}

function namespaceOf(argument: unknown): string | undefined {
  if (typeof argument === "string") return argument;
  return (argument as { readonly namespace?: string } | undefined)?.namespace;
}
