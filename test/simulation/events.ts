/** All events of a history that are counted. If one of these hardly occurs in a simulation, the simulation proves nothing about it. */
export const events = [
  "ID",
  "ID that led its maker's clock",
  "claim",
  "claim that continued",
  "claim that took over",
  "ID by what was inherited",
  "lost lease",
  "switch",
  "late give-back after a switch",
  "claim ended by an operator",
  "lead window used up",
  "give-back ahead of the clock",
  "store that lost its last writes",
  "store restored from an older copy",
  "store that lost everything",
  "store put back",
  "loss beside another claim",
  "store put back in a quarantine",
  "store put back to another era",
  "two stores behind one address",
  "decision on a lagging read",
  "claim with a recall",
  "quarantine by a recall",
  "quarantine by a receipt",
  "quarantine that an operator ended",
  "holder of a forgotten window",
  "ID twice by a forgotten window",
  "process that was copied",
  "copy that was found out",
  "ID twice by copies",
  "namespace that was dropped",
  "namespace that was dropped beside a live process",
  "late order to drop",
  "refusal in quarantine",
  "renewal through a quarantine",
  "give-back from an older era",
  "ID during a quarantine",
  "thread that joined",
  "thread that ended without a word",
  "ID by a thread",
  "call with a place in the order",
  "child that began",
  "child that died",
  "ID by a child",
  "ID by a child whose parent had died",
  "ID by a child whose parent had given back",
  "ID by a child whose parent had switched",
] as const;

export type Event = (typeof events)[number];

/** How often each event occurred. */
export class Tally {
  readonly counts: Record<Event, number> = Object.fromEntries(events.map((event) => [event, 0])) as Record<
    Event,
    number
  >;

  count(event: Event, times: number = 1): void {
    this.counts[event] += times;
  }

  add(counts: Readonly<Record<Event, number>>): void {
    for (const event of events) this.counts[event] += counts[event];
  }
}
