import { type Clock, monotonic } from "../clock.ts";
import { asSnowleaseError, type SnowleaseError } from "../id/errors.ts";
import type { Registry } from "../rule/registry.ts";
import { type OperationName, requiredOperations, wrapRegistry } from "../registries/wrap.ts";

/** All operations that programs use. */
const operations = [...requiredOperations, "takeBlocks", "pinAll", "unpinAll"] as const;

/** A finished call, with an answer or an error. */
export interface InstrumentedCall {
  readonly operation: OperationName;
  /** Undefined for `ping`. */
  readonly namespace: string | undefined;
  /** How long it took, on the monotonic clock. */
  readonly seconds: number;
  readonly answer?: unknown;
  readonly error?: SnowleaseError;
}

/** The same registry, which reports every call to `watch`. */
export function instrumentedRegistry<Watched extends Registry>(
  registry: Watched,
  clock: Clock,
  watch: (call: InstrumentedCall) => void,
): Watched {
  return wrapRegistry(registry, operations, async ({ method: operation, args }, run) => {
    const namespace = namespaceOf(args[0]);
    const asked = monotonic(clock);
    const seconds = (): number => (monotonic(clock) - asked) / 1000;
    try {
      const answer = await run();
      watch({ operation, namespace, seconds: seconds(), answer });
      return answer;
    } catch (error) {
      watch({ operation, namespace, seconds: seconds(), error: asSnowleaseError(error) });
      throw error;
    }
  });
}

function namespaceOf(argument: unknown): string | undefined {
  if (typeof argument === "string") return argument;
  return (argument as { readonly namespace?: string } | undefined)?.namespace;
}
