import { refusalError } from "../../lease/lease-errors.ts";
import type { Clock } from "../../lease/clock.ts";
import type { SnowleaseError } from "../../id/errors.ts";
import type { Grant, Lost, Refusal } from "../../rule/registry.ts";
import type { RefusedClaims } from "../../ops/pool/alarms.ts";
import type { InstrumentedCall } from "../../ops/instrumented.ts";
import { BoundedMap } from "../../registries/bounded-map.ts";
import type { Journal } from "./journal.ts";
import { RecentCount } from "./recent-count.ts";

/** Shortest time between two events about refused claims, ms. */
const eventInterval = 10_000;
/** Namespaces whose refused claims are counted. With more, the one that was used the longest ago is forgotten. */
const mostNamespaces = 200;

/** Whether the registry refused a claim. A registry that did not answer has refused nothing. */
export function isRefusal({ operation, answer, error }: InstrumentedCall): boolean {
  if (operation !== "claim") return false;
  if (error !== undefined) return error.code !== "REGISTRY_UNAVAILABLE";
  const { outcome } = answer as Grant | Refusal | Lost;
  return outcome !== "granted" && outcome !== "lost";
}

interface RefusalCount {
  readonly recent: RecentCount;
  last: RefusedClaims["last"];
  /** Not reported by an event yet. */
  untold: number;
  waits: boolean;
}

/** Counts claims that the registry refused, and reports them: one event for the first, and one for all of the next 10 s. */
export class RefusalCounter {
  readonly #journal: Journal;
  readonly #clock: Clock;
  readonly #counted = new BoundedMap<string, RefusalCount>(mostNamespaces);

  constructor(journal: Journal, clock: Clock) {
    this.#journal = journal;
    this.#clock = clock;
  }

  /** Those of the last quarter of an hour; undefined where there were none. */
  of(namespace: string): RefusedClaims | undefined {
    const counted = this.#counted.get(namespace);
    const recent = counted?.recent.at(this.#clock.now());
    return counted && recent && { ...recent, last: counted.last };
  }

  /** Expects every call of the registry. */
  watch(call: InstrumentedCall): void {
    const { namespace, answer, error } = call;
    if (namespace === undefined || !isRefusal(call)) return;
    this.#count(namespace, error ?? refusalError(answer as Refusal, namespace, this.#clock.now()));
  }

  #count(namespace: string, { code, message }: SnowleaseError): void {
    const at = this.#clock.now();
    const last = { at, code, message };
    const counted = this.#counted.get(namespace) ?? { recent: new RecentCount(), last, untold: 0, waits: false };
    this.#counted.set(namespace, counted);
    counted.recent.add(at);
    counted.last = last;
    // A quarantine has an event of its own.
    if (code === "QUARANTINE") return;
    counted.untold++;
    if (!counted.waits) void this.#tell(namespace, counted);
  }

  async #tell(namespace: string, counted: RefusalCount): Promise<void> {
    counted.waits = true;
    while (counted.untold > 0) {
      const { untold: count, last } = counted;
      counted.untold = 0;
      const what = count === 1 ? "a claim was refused" : `${count} claims were refused`;
      this.#journal.warn({ event: "refused", namespace, count, code: last.code }, `${what}: ${last.message}`);
      await this.#clock.sleep(eventInterval, { keepAlive: false });
    }
    counted.waits = false;
  }
}
