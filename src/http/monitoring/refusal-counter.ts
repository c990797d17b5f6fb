import { refusalError } from "../../lease/lease-errors.ts";
import type { Clock } from "../../clock.ts";
import { type ErrorCode, isUnanswered, type SnowleaseError } from "../../id/errors.ts";
import type { Grant, Lost, Refusal } from "../../rule/registry.ts";
import type { RefusedClaims } from "../../ops/pool/alarms.ts";
import type { InstrumentedCall } from "../../ops/instrumented.ts";
import { BoundedMap } from "../../registries/bounded-map.ts";
import type { Journal } from "./journal.ts";

/** Refused claims are counted for 15 spans of this length, ms. */
const span = 60_000;
const spans = 15;
/** Shortest time between two events about refused claims, ms. */
const eventInterval = 10_000;
/** How many namespaces are counted. Beyond that, the least recently used one is forgotten. */
const mostNamespaces = 200;

interface RefusalCount {
  /** Oldest first. */
  readonly spans: { readonly since: number; count: number }[];
  last: RefusedClaims["last"];
  /** Number of refused claims that no event has reported yet. */
  untold: number;
  waits: boolean;
}

/** Counts claims that the registry refused, and reports them: one event for the first claim, and one for all claims of the next 10 s. */
export class RefusalCounter {
  readonly #journal: Journal;
  readonly #clock: Clock;
  readonly #onRefused: (namespace: string, code: ErrorCode) => void;
  readonly #counted = new BoundedMap<string, RefusalCount>(mostNamespaces);

  constructor(journal: Journal, clock: Clock, onRefused: (namespace: string, code: ErrorCode) => void) {
    this.#journal = journal;
    this.#clock = clock;
    this.#onRefused = onRefused;
  }

  /** The refused claims of the last 15 minutes. Undefined if there were none. */
  of(namespace: string): RefusedClaims | undefined {
    const counted = this.#counted.get(namespace);
    if (counted === undefined) return undefined;
    const recent = counted.spans.filter(({ since }) => since > this.#clock.now() - spans * span);
    const [first] = recent;
    if (first === undefined) return undefined;
    return { count: recent.reduce((sum, { count }) => sum + count, 0), since: first.since, last: counted.last };
  }

  /** The caller must pass every call of the registry. */
  watch({ operation, namespace, answer, error }: InstrumentedCall): void {
    if (operation !== "claim" || namespace === undefined) return;
    if (error !== undefined) {
      // A missing answer is not a refusal.
      if (!isUnanswered(error)) this.#count(namespace, error);
      return;
    }
    const decision = answer as Grant | Refusal | Lost;
    if (decision.outcome !== "granted" && decision.outcome !== "lost")
      this.#count(namespace, refusalError(decision, namespace, this.#clock.now()));
  }

  #count(namespace: string, { code, message }: SnowleaseError): void {
    this.#onRefused(namespace, code);
    const at = this.#clock.now();
    const last = { at, code, message };
    const counted = this.#counted.get(namespace) ?? { spans: [], last, untold: 0, waits: false };
    this.#counted.set(namespace, counted);
    const newest = counted.spans.at(-1);
    if (newest !== undefined && at - newest.since < span && at >= newest.since) newest.count++;
    else counted.spans.push({ since: at, count: 1 });
    if (counted.spans.length > spans) counted.spans.shift();
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
