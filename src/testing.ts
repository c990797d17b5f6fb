import type { Clock } from "./lease/clock.ts";
import { SnowleaseError } from "./id/errors.ts";
import type { Registry } from "./rule/registry.ts";

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

/** The operations of a registry that go over a wire. */
type Operation = Exclude<
  keyof Registry,
  "kind" | "close" | "acceptClock" | "verify" | "rehearse" | "takeBlocks" | "pinAll" | "unpinAll"
>;

/** A call to a registry: which operation, and its arguments. */
export type RegistryCall = {
  readonly [Method in Operation]: { readonly method: Method; readonly args: Parameters<Registry[Method]> };
}[Operation];

/** What a lossy registry is told to lose. */
export interface Losses {
  /**
   * Asked before each call. `request`: the registry never hears of it. `reply`: it is applied, and the caller does not hear of
   * it. Either way the caller gets REGISTRY_UNAVAILABLE, and cannot tell which it was.
   */
  readonly lose: (call: RegistryCall) => "request" | "reply" | undefined;
}

/** A registry behind a wire that loses what it is told to lose. Closing it closes the registry. */
export function lossyRegistry(registry: Registry, { lose }: Losses): Registry {
  async function pass<Answer>(call: RegistryCall, run: () => Promise<Answer>): Promise<Answer> {
    const lost = lose(call);
    if (lost !== "request") {
      const [answer] = await Promise.allSettled([run()]);
      if (lost === undefined && answer.status === "rejected") throw answer.reason;
      if (lost === undefined && answer.status === "fulfilled") return answer.value;
    }
    throw new SnowleaseError(
      "REGISTRY_UNAVAILABLE",
      `The registry did not answer \`${call.method}\`; whether it was applied is unknown: ask again.`,
    );
  }

  return {
    kind: registry.kind,
    init: (...args) => pass({ method: "init", args }, () => registry.init(...args)),
    describe: (...args) => pass({ method: "describe", args }, () => registry.describe(...args)),
    claim: (...args) => pass({ method: "claim", args }, () => registry.claim(...args)),
    renew: (...args) => pass({ method: "renew", args }, () => registry.renew(...args)),
    release: (...args) => pass({ method: "release", args }, () => registry.release(...args)),
    workers: (...args) => pass({ method: "workers", args }, () => registry.workers(...args)),
    worker: (...args) => pass({ method: "worker", args }, () => registry.worker(...args)),
    history: (...args) => pass({ method: "history", args }, () => registry.history(...args)),
    forceRelease: (...args) => pass({ method: "forceRelease", args }, () => registry.forceRelease(...args)),
    pin: (...args) => pass({ method: "pin", args }, () => registry.pin(...args)),
    unpin: (...args) => pass({ method: "unpin", args }, () => registry.unpin(...args)),
    prune: (...args) => pass({ method: "prune", args }, () => registry.prune(...args)),
    ping: (...args) => pass({ method: "ping", args }, () => registry.ping(...args)),
    close: () => registry.close(),
  };
}
