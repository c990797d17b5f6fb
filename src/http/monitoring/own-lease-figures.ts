import type { Clock } from "../../lease/clock.ts";
import type { Lease } from "../../lease/lease.ts";
import type { Figures } from "./figures.ts";

/** A lease whose figures are shown. */
interface ShownLease {
  readonly lease: Lease;
  /** What was left of its window when it was last extended, ms. */
  length: number;
}

/** Figures of the leases on which the daemon itself makes IDs. */
export class OwnLeaseFigures {
  readonly #clock: Clock;
  readonly #leases = new Map<string, ShownLease>();
  readonly #onRollback: (namespace: string, action: string) => void;

  /** @param labelOf the label of a namespace. */
  constructor(figures: Figures, clock: Clock, labelOf: (namespace: string) => string) {
    this.#clock = clock;
    const rollbacks = figures.counter(
      "clock_rollbacks_total",
      "Times that the clock showed less than IDs of this daemon already carried, by what was done.",
      ["namespace", "action"],
    );
    this.#onRollback = (namespace, action) => rollbacks.inc({ namespace: labelOf(namespace), action });
    const show = (name: string, help: string, milliseconds: (shown: ShownLease) => number): unknown =>
      figures.gauge(name, help, ["namespace"], () =>
        Array.from(this.#leases.values(), (shown) => {
          return [{ namespace: labelOf(shown.lease.namespace) }, milliseconds(shown) / 1000] as const;
        }),
      );
    show(
      "own_window_left_seconds",
      "How long this daemon may still make IDs on its own lease without a renewal; 0 or less: it makes none.",
      ({ lease }) => (lease.state === "held" ? lease.until - clock.now() : 0),
    );
    show(
      "own_window_seconds",
      "How much of the window of this daemon's own lease was left when it was last extended.",
      ({ length }) => length,
    );
  }

  /** Shows a lease for as long as it lives. */
  add(lease: Lease): void {
    const lengthNow = (): number => lease.until - this.#clock.now();
    const shown: ShownLease = { lease, length: lengthNow() };
    this.#leases.set(lease.namespace, shown);
    const measure = (): void => void (shown.length = lengthNow());
    lease.on("renewed", measure);
    lease.on("switched", measure);
    lease.on("clock.rollback", ({ action }) => this.#onRollback(lease.namespace, action));
    lease.onChange(() => {
      const ended = lease.state !== "held" && lease.state !== "switching";
      if (ended && this.#leases.get(lease.namespace) === shown) this.#leases.delete(lease.namespace);
    });
  }
}
