import { Random } from "../test/simulation/world.ts";

/**
 * What a fault strikes. A link is the network between one client and its servers, an original a holder that is copied, a worker ID one
 * that an operator does something to.
 */
type Struck = "holder" | "link" | "server" | "store" | "original" | "worker ID";

interface Kind {
  readonly strikes: Struck;
  /** Two faults of one lane never strike the same target at once; a clock can be stepped while its process is stopped. */
  readonly lane: "process" | "clock" | "network" | "copy" | "operator";
  /** How often it comes, compared with the others that strike the same. */
  readonly weight: number;
  /** How long it lasts, ms: from, to. What only happens lasts 0. */
  readonly lasts: readonly [from: number, to: number];
}

/** Every fault there is. */
export const faultKinds = {
  "holder killed (-9)": { strikes: "holder", lane: "process", weight: 2, lasts: [0, 0] },
  "holder stopped": { strikes: "holder", lane: "process", weight: 6, lasts: [20, 2500] },
  "holder deployed anew": { strikes: "holder", lane: "process", weight: 1, lasts: [0, 0] },
  "holder's clock stepped": { strikes: "holder", lane: "clock", weight: 6, lasts: [100, 4000] },
  "holder's clock fast or slow": { strikes: "holder", lane: "clock", weight: 2, lasts: [100, 4000] },
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
  "server's clock fast or slow": { strikes: "server", lane: "clock", weight: 1, lasts: [200, 4000] },
  "store put back": { strikes: "store", lane: "copy", weight: 1, lasts: [300, 5000] },
  "holder copied": { strikes: "original", lane: "copy", weight: 1, lasts: [2000, 5000] },
  "operator: release --force": { strikes: "worker ID", lane: "operator", weight: 3, lasts: [0, 0] },
  "operator: pin, unpin": { strikes: "worker ID", lane: "operator", weight: 2, lasts: [0, 2500] },
  "operator: prune": { strikes: "worker ID", lane: "operator", weight: 1, lasts: [0, 0] },
  "operator: init again": { strikes: "worker ID", lane: "operator", weight: 1, lasts: [0, 0] },
  "operator: doctor": { strikes: "worker ID", lane: "operator", weight: 1, lasts: [0, 0] },
  "operator: migrate": { strikes: "worker ID", lane: "operator", weight: 2, lasts: [0, 2500] },
} as const satisfies Readonly<Record<string, Kind>>;

export type FaultKind = keyof typeof faultKinds;

/** A fault that is to come. */
export interface Fault {
  readonly kind: FaultKind;
  /** ms since the run began. */
  readonly at: number;
  /** ms. */
  readonly lasts: number;
  /** Which holder, link or server. */
  readonly target: number;
  /** By how much a clock is stepped, ms; which way of putting a store back; negative where the copy of a holder speaks first. */
  readonly by: number;
  /** How many seconds pass in a second on a clock that runs fast or slow. */
  readonly rate: number;
}

/** What there is to strike. */
export interface Targets {
  readonly holders: number;
  readonly links: number;
  readonly servers: number;
  /** What cannot be done here. */
  readonly without: readonly FaultKind[];
  /** Mean time between faults of servers, ms. */
  readonly serverEvery: number;
  /** Whether the store is put back to older copies of itself. Then clocks are stepped by less. */
  readonly restores: boolean;
  /** Whether holders are copied. */
  readonly copies: boolean;
  /** How many worker IDs an operator does something to. */
  readonly workerIds: number;
}

/** Servers' clocks are stepped by so much at most, ms: holders that differ more are refused, and would only wait. */
export const serverStep = 2000;
/** Holders' clocks by so much at most, ms, where it is not an hour: an embedded registry, whose clock they are, may come to take that. */
export const holderStep = 8000;
const hour = 3_600_000;
/**
 * And by so much where a store is put back: what it promises then is for clocks that differ by `maxClockSkew` at most, and two of them are
 * stepped.
 */
const restoreStep = 450;
/** The slowest and the fastest clock. */
const [slowest, fastest] = [0.3, 3];
/** Mean time between what an operator does, ms. */
const operatorEvery = 2500;
/** Mean time between two restores, and between two copies, ms: a quarantine is over, and a copy dead, before the next one. */
const [restoreEvery, copyEvery] = [8000, 4000];

/**
 * The faults of a run, in the order in which they come. It depends on nothing but what is passed: the same seed strikes the same targets
 * at the same times again.
 * @param duration of the run, ms; a longer one begins as the shorter one does.
 * @param rate faults of holders and links a second.
 */
export function plan(seed: number, duration: number, rate: number, targets: Targets): readonly Fault[] {
  const clients = faultsOf(new Random(seed), duration, 1000 / rate, targets, ["holder", "link"]);
  const servers = faultsOf(new Random(~seed), duration, targets.serverEvery, targets, ["server"]);
  const restores = faultsOf(new Random(seed + 1), duration, restoreEvery, targets, ["store"]);
  const copies = faultsOf(new Random(seed + 2), duration, copyEvery, targets, ["original"]);
  const operators = faultsOf(new Random(seed + 3), duration, operatorEvery, targets, ["worker ID"]);
  return [...clients, ...servers, ...restores, ...copies, ...operators].toSorted((a, b) => a.at - b.at);
}

function faultsOf(random: Random, duration: number, every: number, targets: Targets, struck: Struck[]): Fault[] {
  const { holders, restores, copies } = targets;
  const counts = {
    holder: holders,
    link: targets.links,
    server: targets.servers,
    store: restores ? 1 : 0,
    original: copies ? holders : 0,
    "worker ID": targets.workerIds,
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
    const mostOff = restores ? restoreStep : strikes === "server" ? serverStep : Infinity;
    const rate = rateOf(random, mostOff / lasts);
    const first = random.below(counts[strikes]);
    // A deployment goes round: it replaces a few of them, one after the other.
    const many = kind === "holder deployed anew" ? random.pick([1, 1, 1, counts.holder]) : 1;
    for (let i = 0; i < many; i++) {
      const target = (first + i) % counts[strikes];
      const begin = at + 100 * i;
      const place = `${strikes} ${target} ${lane}`;
      if ((busy.get(place) ?? 0) > begin) continue;
      // Long enough for a process to be there again.
      busy.set(place, begin + lasts + 500);
      if (begin + lasts < duration) faults.push({ kind, at: begin, lasts, target, by, rate });
    }
  }
  return faults;
}

/** From the jitter of a clock that is slewed to what happens when a battery is empty. */
function step(random: Random, strikes: Struck): number {
  const most = strikes === "server" ? [50, 500, serverStep] : [5, 100, 900, holderStep, holderStep, hour];
  const size = random.pick(most);
  return random.pick([-1, 1]) * random.between(size === hour ? hour / 2 : 1, size);
}

/** Of a clock that differs by so many seconds a second at most. */
function rateOf(random: Random, most: number): number {
  const rate = random.between(slowest * 1000, fastest * 1000) / 1000;
  return 1 + Math.sign(rate - 1) * Math.min(Math.abs(rate - 1), most);
}
