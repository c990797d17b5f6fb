import type { Clock } from "../../lease/clock.ts";
import type { InstrumentedCall } from "../../ops/instrumented.ts";
import type { FailedCalls } from "../../ops/pool/alarms.ts";
import type { OperationName } from "../../registries/wrap.ts";
import { BoundedMap } from "../../registries/bounded-map.ts";
import { RecentCount } from "./recent-count.ts";

/** Namespaces that are followed. With more, the one that was used the longest ago is forgotten. */
const mostNamespaces = 200;
/** What a holder lives by. A store that answers reads alone (read-only, full, without its replicas) fails these. */
const writes: ReadonlySet<OperationName> = new Set<OperationName>(["claim", "renew", "release"]);

interface FailureCount {
  readonly recent: RecentCount;
  last: FailedCalls["last"];
  goesOn: boolean;
}

/** Counts claims, renewals and give-backs that the registry did not do. */
export class FailedWrites {
  readonly #clock: Clock;
  readonly #counted = new BoundedMap<string, FailureCount>(mostNamespaces);

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Those of the last quarter of an hour; undefined where there were none. */
  of(namespace: string): FailedCalls | undefined {
    const counted = this.#counted.get(namespace);
    const recent = counted?.recent.at(this.#clock.now());
    return counted && recent && { ...recent, last: counted.last, goesOn: counted.goesOn };
  }

  /** Expects every call of the registry. */
  watch({ operation, namespace, error }: InstrumentedCall): void {
    if (namespace === undefined || !writes.has(operation)) return;
    const counted = this.#counted.get(namespace);
    if (error?.code !== "REGISTRY_UNAVAILABLE") {
      if (counted !== undefined) counted.goesOn = false;
      return;
    }
    const at = this.#clock.now();
    const last = { at, code: error.code, message: error.message };
    const present = counted ?? { recent: new RecentCount(), last, goesOn: true };
    present.recent.add(at);
    this.#counted.set(namespace, Object.assign(present, { last, goesOn: true }));
  }
}
