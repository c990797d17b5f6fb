import { Random } from "../test/simulation/world.ts";

/** What a fault strikes. A link is the network between one client and its servers. An original is a holder that is copied. */
type Struck = "holder" | "link" | "server" | "store" | "original";

interface Kind {
  readonly strikes: Struck;
  /**
   * Two faults of one lane never strike the same target at the same time. Lanes differ because, for example, a clock can be stepped while
   * its process is stopped.
   */
  readonly lane: "process" | "clock" | "network" | "copy";
  /** How often the fault comes, compared with other faults of the same target. */
  readonly weight: number;
  /** How long the fault lasts, ms: from, to. It is 0 for a fault without a duration. */
  readonly lasts: readonly [from: number, to: number];
}

/** All kinds of faults. */
export const faultKinds = {
  "holder killed (-9)": { strikes: "holder", lane: "process", weight: 2, lasts: [0, 0] },
  "holder stopped": { strikes: "holder", lane: "process", weight: 6, lasts: [20, 2500] },
  "holder deployed anew": { strikes: "holder", lane: "process", weight: 1, lasts: [0, 0] },
  "holder's clock stepped": { strikes: "holder", lane: "clock", weight: 6, lasts: [100, 4000] },
  "requests lost": { strikes: "link", lane: "network", weight: 2, lasts: [100, 2500] },
  "answers lost": { strikes: "link", lane: "network", weight: 2, lasts: [100, 2500] },
  "requests late": { strikes: "link", lane: "network", weight: 2, lasts: [100, 2500] },
  "answers late": { strikes: "link", lane: "network", weight: 2, lasts: [100, 2500] },
  "cut off": { strikes: "link", lane: "network", weight: 2, lasts: [100, 2500] },
  "connections reset": { strikes: "link", lane: "network", weight: 1, lasts: [0, 0] },
  "server stopped": { strikes: "server", lane: "process", weight: 3, lasts: [50, 2500] },
  "server killed (-9)": { strikes: "server", lane: "process", weight: 2, lasts: [0, 1000] },
  "server restarted": { strikes: "server", lane: "process", weight: 2, lasts: [0, 500] },
  "server cut off": { strikes: "server", lane: "process", weight: 3, lasts: [200, 3000] },
  "primary replaced": { strikes: "server", lane: "process", weight: 3, lasts: [0, 0] },
  "server's clock stepped": { strikes: "server", lane: "clock", weight: 2, lasts: [200, 4000] },
  "store put back": { strikes: "store", lane: "copy", weight: 1, lasts: [300, 5000] },
  "holder copied": { strikes: "original", lane: "copy", weight: 1, lasts: [2000, 5000] },
} as const satisfies Readonly<Record<string, Kind>>;

export type FaultKind = keyof typeof faultKinds;

/** A planned fault. */
export interface Fault {
  readonly kind: FaultKind;
  /** ms since the run began. */
  readonly at: number;
  /** How long the fault lasts, ms. */
  readonly lasts: number;
  /** The number of the holder, link or server. */
  readonly target: number;
  /** By how much a clock is stepped, ms. For a store, which way of putting it back. For an original, negative if the copy sends first. */
  readonly by: number;
}

/** The targets of a run. */
export interface Targets {
  readonly holders: number;
  readonly links: number;
  readonly servers: number;
  /** Faults that are not possible here. */
  readonly without: readonly FaultKind[];
  /** Mean time between faults of servers, ms. */
  readonly serverEvery: number;
  /** Whether the store is put back to older copies of itself. Then clocks are stepped by less. */
  readonly restores: boolean;
  /** Whether holders are copied. */
  readonly copies: boolean;
}

/** Servers' clocks are stepped by this at most, ms. A holder whose clock differs by more is refused, and would only wait. */
export const serverStep = 2000;
/**
 * Holders' clocks are stepped by this at most, ms, or by up to an hour. An embedded registry uses its holders' clocks, and may follow a
 * step of this size.
 */
export const holderStep = 8000;
const hour = 3_600_000;
/**
 * The largest step of a clock in a run with restores, ms. After a restore, the store's promise holds only if clocks differ by at most
 * `maxClockSkew`, and two clocks are stepped.
 */
const restoreStep = 450;
/** Mean time between two restores, and between two copies, ms. Usually a quarantine is over, and a copy dead, before the next one. */
const [restoreEvery, copyEvery] = [8000, 4000];

/**
 * The faults of a run, in the order in which they come. They depend only on the arguments: the same seed strikes the same targets at the
 * same times again.
 * @param duration of the run, ms; a longer run begins as the shorter one does.
 * @param rate faults of holders and links a second.
 */
export function plan(seed: number, duration: number, rate: number, targets: Targets): readonly Fault[] {
  const clients = faultsOf(new Random(seed), duration, 1000 / rate, targets, ["holder", "link"]);
  const servers = faultsOf(new Random(~seed), duration, targets.serverEvery, targets, ["server"]);
  const restores = faultsOf(new Random(seed + 1), duration, restoreEvery, targets, ["store"]);
  const copies = faultsOf(new Random(seed + 2), duration, copyEvery, targets, ["original"]);
  return [...clients, ...servers, ...restores, ...copies].toSorted((a, b) => a.at - b.at);
}

function faultsOf(random: Random, duration: number, every: number, targets: Targets, struck: Struck[]): Fault[] {
  const { holders, restores, copies } = targets;
  const counts = {
    holder: holders,
    link: targets.links,
    server: targets.servers,
    store: restores ? 1 : 0,
    original: copies ? holders : 0,
  };
  const kinds = Object.entries<Kind>(faultKinds).filter(
    ([name, { strikes }]) =>
      struck.includes(strikes) && counts[strikes] > 0 && !targets.without.includes(name as FaultKind),
  );
  const weighted = kinds.flatMap(([name, { weight }]) => new Array<FaultKind>(weight).fill(name as FaultKind));
  const faults: Fault[] = [];
  if (weighted.length === 0) return faults;
  /** When each lane of each target is free again. */
  const busy = new Map<string, number>();
  for (let at = 0; at < duration; at += random.between(every / 2, (3 * every) / 2)) {
    const kind = random.pick(weighted);
    const {
      strikes,
      lane,
      lasts: [least, most],
    }: Kind = faultKinds[kind];
    const lasts = random.between(least, most);
    const wish = step(random, strikes);
    const by = restores && lane === "clock" ? Math.sign(wish) * Math.min(Math.abs(wish), restoreStep) : wish;
    const first = random.below(counts[strikes]);
    // A deployment replaces one holder, or all of them one after the other.
    const many = kind === "holder deployed anew" ? random.pick([1, 1, 1, counts.holder]) : 1;
    for (let i = 0; i < many; i++) {
      const target = (first + i) % counts[strikes];
      const begin = at + 100 * i;
      const place = `${strikes} ${target} ${lane}`;
      if ((busy.get(place) ?? 0) > begin) continue;
      // Long enough for a process to have started again.
      busy.set(place, begin + lasts + 500);
      if (begin + lasts < duration) faults.push({ kind, at: begin, lasts, target, by });
    }
  }
  return faults;
}

/** A random step of a clock. Its size ranges from the jitter of a slewed clock to the error of a clock whose battery is empty. */
function step(random: Random, strikes: Struck): number {
  const most = strikes === "server" ? [50, 500, serverStep] : [5, 100, 900, holderStep, holderStep, hour];
  const size = random.pick(most);
  return random.pick([-1, 1]) * random.between(size === hour ? hour / 2 : 1, size);
}
