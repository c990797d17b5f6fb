import { isOver } from "../../lease/lease-view.ts";
import type { Clock } from "../../clock.ts";
import type { Lease } from "../../lease/lease.ts";
import type { Figures } from "./figures.ts";

interface ShownLease {
  readonly lease: Lease;
  /** Time left in its window at the last extension, ms. */
  length: number;
}

/**
 * Figures of the leases on which the daemon itself makes IDs. Returns a function that shows a lease for as long as it lives.
 * @param labelOf the label of a namespace.
 */
export function ownLeaseFigures(
  figures: Figures,
  clock: Clock,
  labelOf: (namespace: string) => string,
): (lease: Lease) => void {
  const leases = new Map<string, ShownLease>();
  const rollbacks = figures.counter(
    "clock_rollbacks_total",
    "Times that the clock showed less than IDs of this daemon already carried, by what was done.",
    ["namespace", "action"],
  );
  const show = (name: string, help: string, milliseconds: (shown: ShownLease) => number): unknown =>
    figures.gauge(name, help, ["namespace"], () =>
      Array.from(leases.values(), (shown) => {
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

  return (lease) => {
    const { namespace } = lease;
    const lengthNow = (): number => lease.until - clock.now();
    const shown: ShownLease = { lease, length: lengthNow() };
    leases.set(namespace, shown);
    const measure = (): void => void (shown.length = lengthNow());
    lease.on("renewed", measure);
    lease.on("switched", measure);
    lease.on("clock.rollback", ({ action }) => rollbacks.inc({ namespace: labelOf(namespace), action }));
    lease.onChange(() => {
      if (isOver(lease.state) && leases.get(namespace) === shown) leases.delete(namespace);
    });
  };
}
