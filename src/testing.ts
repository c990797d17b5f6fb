import type { Clock } from "./lease/clock.ts";
import { SnowleaseError } from "./id/errors.ts";
import type { Registry } from "./rule/registry.ts";
import { ask, operationsBy, type OperationCall, requiredOperations } from "./registries/wrap.ts";

export { memoryRegistry } from "./registries/memory/registry.ts";

/** A clock that moves only when it is told to. */
export interface FakeClock extends Clock {
  /**
   * Moves wall and monotonic clock on together by `ms`, stopping at each sleeper that is due on the way, in order, and letting
   * the woken code run: it reads the time at which it was to wake, and may sleep again. Await it before anything else is asked.
   */
  advance(ms: number): Promise<void>;
  /** Sets the wall clock by `ms`, forward or back, as an operator or a time server would. Nobody wakes. */
  step(ms: number): void;
}

/** Nanoseconds, rounded up: a sleeper that woke early by a fraction would find its time not yet come and sleep for nothing. */
const nanosIn = (ms: number): bigint => BigInt(Math.ceil(ms * 1e6));

/** Lets everything run that waits for nothing but promises. Kept here, since a test runner may replace the global one. */
const nextTurn = setImmediate;
const settled = (): Promise<void> => new Promise((resolve) => nextTurn(resolve));

/**
 * A clock for tests. It has no `spin`: where a generator would spin, it throws instead.
 * @param options.start what the wall clock shows first, Unix ms; default 2023-11-14T22:13:20Z.
 */
export function fakeClock({ start = 1_700_000_000_000 }: { readonly start?: number } = {}): FakeClock {
  const sleepers = new Set<{ readonly due: bigint; readonly wake: () => void }>();
  let nanos = 0n;
  let offset = start;

  const next = (until: bigint): { due: bigint; wake: () => void } | undefined =>
    [...sleepers].filter(({ due }) => due <= until).toSorted((a, b) => Number(a.due - b.due))[0];

  return {
    now: () => Math.floor(offset + Number(nanos) / 1e6),
    nanos: () => nanos,

    sleep(ms, { signal } = {}) {
      if (signal?.aborted) return Promise.resolve();
      if (ms <= 0) return settled();
      return new Promise((resolve) => {
        const wake = (): void => {
          sleepers.delete(sleeper);
          signal?.removeEventListener("abort", wake);
          resolve();
        };
        const sleeper = { due: nanos + nanosIn(ms), wake };
        sleepers.add(sleeper);
        signal?.addEventListener("abort", wake, { once: true });
      });
    },

    async advance(ms) {
      const target = nanos + nanosIn(Math.max(0, ms));
      for (;;) {
        await settled();
        const sleeper = next(target);
        if (sleeper === undefined) break;
        if (sleeper.due > nanos) nanos = sleeper.due;
        sleeper.wake();
      }
      if (target > nanos) nanos = target;
    },

    step(ms) {
      offset += ms;
    },
  };
}

/** A call to a registry: which operation, and its arguments. */
export type RegistryCall = OperationCall<(typeof requiredOperations)[number]>;

/** What a lossy registry is told to lose. */
export interface Losses {
  /**
   * Asked before each call. `request`: the registry never hears of it. `reply`: it is applied, and the caller does not hear of
   * it. Either way the caller gets REGISTRY_UNAVAILABLE, and cannot tell which it was.
   */
  readonly lose: (call: RegistryCall) => "request" | "reply" | undefined;
}

/** A registry behind a wire that loses what it is told to lose. It has no optional operation. Closing it closes the registry. */
export function lossyRegistry(registry: Registry, { lose }: Losses): Registry {
  async function pass(call: RegistryCall): Promise<unknown> {
    const lost = lose(call);
    if (lost === undefined) return ask(registry, call);
    if (lost === "reply") await ask(registry, call).catch(() => undefined);
    throw new SnowleaseError(
      "REGISTRY_UNAVAILABLE",
      `The registry did not answer \`${call.method}\`; whether it was applied is unknown: ask again.`,
    );
  }

  return {
    kind: registry.kind,
    ...operationsBy<RegistryCall["method"]>(requiredOperations, pass),
    close: () => registry.close(),
  };
}
