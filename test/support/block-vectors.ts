import type { Clock } from "../../src/clock.ts";
import { SnowleaseError } from "../../src/id/errors.ts";
import { Lease } from "../../src/lease/lease.ts";
import { Layout } from "../../src/id/layout.ts";
import type { Ticks } from "../../src/generator/recent-ticks.ts";
import type { BlocksTaken, Grant, Lost, Registry, Renewal } from "../../src/rule/registry.ts";
import { Snowflake } from "../../src/generator/snowflake.ts";
import { BlockLayout } from "../../src/sharing/block-layout.ts";
import type { BlockTicks } from "../../src/sharing/block-ticks.ts";
import { LeaseClient } from "../../src/sharing/lease-client.ts";
import { memoryRegistry } from "../../src/testing.ts";
import { defaults, makeToken, settled } from "./generator.ts";
import { type NextResult, nextOf } from "./next-result.ts";

/** A request for blocks, without the fields that name the claim. */
export interface WantedBlocks {
  readonly first: number;
  readonly spans: number;
  readonly blocks: number;
  readonly held: number;
}

interface BlockGrant {
  readonly workerId: number;
  readonly fence: number;
  readonly from: number;
  readonly until: number;
}

/** A step of a script, at a reading of the wall clock, Unix ms. */
export type BlockStep = { readonly clock: number } & (
  | { readonly do: "next" | "prefetch" | "silent" | "lost" | "close" }
  /** The answer to the oldest request without an answer. */
  | { readonly do: "given"; readonly fence: number; readonly first: number; readonly blocks: readonly number[] }
  | { readonly do: "renewed"; readonly from: number; readonly until: number }
  /** The claim after a loss. */
  | ({ readonly do: "granted" } & BlockGrant)
);

/** A shared grant, its arrival at the reading `clock` of the borrower's wall clock, and the events after it. */
export interface BlockScript {
  readonly why: string;
  readonly layout: string;
  readonly grant: BlockGrant & { readonly clock: number };
  readonly steps: readonly BlockStep[];
}

/** The required result of a step. */
export interface BlockResult extends NextResult {
  /** The request that the step sends; null for a prefetch without a need for one. */
  readonly wants?: WantedBlocks | null;
}

/** Runs a script. */
export type BlockRunner = (script: BlockScript) => Promise<readonly BlockResult[]>;

export async function blockVectors(): Promise<object> {
  const scripts = [];
  for (const script of blockScripts) {
    const results = await borrower(script);
    scripts.push({ ...script, steps: script.steps.map((step, i) => ({ ...step, ...results[i] })) });
  }
  return {
    about:
      "How layouts are divided into spans and blocks, and the span of some Unix ms. Then scripts: a shared grant, and what a borrower does at each reading of its wall clock (`clock`, Unix ms), with the ID or the refusal that `next` ends in, and the request for blocks that it sends.",
    layouts: blockLayouts.map((text) => {
      const layout = Layout.parse(text);
      const division = new BlockLayout(layout);
      const { ticks, blocks, sequences } = division;
      const length = ticks * layout.tick;
      const middle = layout.epoch + Math.floor((layout.endOfLife - layout.epoch) / 3);
      const times = [layout.epoch, layout.epoch + length - 1, layout.epoch + length, middle, layout.endOfLife - 1];
      const spans = times.map((at) => ({ at, span: division.spanAt(at) }));
      return { text, ticks, blocks, sequences, ahead: Math.max(1, Math.ceil(5000 / length)), spans };
    }),
    scripts,
  };
}

/** Our own generator on a lent lease. Like a simple client, it remembers only the newest tick. */
export const borrower: BlockRunner = async ({ layout: text, grant, steps }) => {
  const layout = Layout.parse(text);
  let wall = grant.clock;
  let nanos = 0n;
  let wake: (() => void)[] = [];
  const clock: Clock = {
    now: () => wall,
    nanos: () => nanos,
    // No event occurs by itself. The script renews.
    sleep: (_, { signal } = {}) => new Promise((done) => signal?.addEventListener("abort", () => done())),
  };
  const secondly: Clock = {
    ...clock,
    sleep: (_, { signal } = {}) =>
      new Promise((done) => {
        wake.push(done);
        signal?.addEventListener("abort", () => done());
      }),
  };
  const setTo = (reading: number): void => {
    // The monotonic clock goes on, even when the wall clock goes back.
    if (reading !== wall) nanos += BigInt(Math.max(2, reading - wall)) * 1_000_000n;
    wall = reading;
  };

  let renewal: () => Renewal | Lost = () => ({ outcome: "lost" });
  const sent: WantedBlocks[] = [];
  const open: { readonly fence: number; answer(taken: BlocksTaken): void; fail(cause: Error): void }[] = [];
  const granted = ({ workerId, fence, from, until }: BlockGrant): Grant => {
    return { outcome: "granted", workerId, fence, from, until, clock: wall, shared: true };
  };
  let grantNext: ((grant: Grant) => void) | undefined;
  let isFirst = true;
  const registry: Registry = {
    ...memoryRegistry({ clock }),
    claim() {
      if (!isFirst) return new Promise((resolve) => (grantNext = resolve));
      isFirst = false;
      return Promise.resolve(granted(grant));
    },
    renew: () => new Promise((resolve) => resolve(renewal())),
    release: () => Promise.resolve({ outcome: "released" }),
    takeBlocks({ fence, first, spans, blocks, held }) {
      sent.push({ first, spans, blocks, held });
      return new Promise((answer, fail) => open.push({ fence, answer, fail }));
    },
  };
  const terms = { ...defaults, layout, pool: layout.pool, borrows: true, onLost: "switch" as const };
  const lease = await Lease.claim({ registry, clock, makeToken }, terms);
  const seenByClient = new Proxy(lease, {
    get(target, name): unknown {
      if (name === "clock") return secondly;
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === "function" ? (value.bind(target) as unknown) : value;
    },
  });
  const opening = LeaseClient.open(seenByClient);
  let ids: Snowflake | undefined;
  void opening.then((client) => {
    ids = new Snowflake(lease, {
      share: { attach: (usage) => lease.attach(usage), ticks: (snapshot) => newestAlone(client.ticks(snapshot)) },
    });
  });
  await settled();

  const wanted = async (): Promise<WantedBlocks | undefined> => {
    await settled();
    const [request, ...more] = sent.splice(0);
    if (more.length > 0) throw new Error("Expected one request at a time.");
    return request;
  };

  const take = async (step: BlockStep): Promise<BlockResult> => {
    switch (step.do) {
      case "next": {
        if (ids === undefined) throw new Error("Expected blocks before the first ID.");
        const result = nextOf(ids);
        const wants = await wanted();
        return { ...result, ...(wants && { wants }) };
      }
      case "prefetch": {
        if (sent.length === 0) for (const each of wake.splice(0)) each();
        return { wants: (await wanted()) ?? null };
      }
      case "given": {
        // This is the answer to a prefetch. The script does not name its request.
        sent.length = 0;
        const request = open.shift();
        if (request?.fence !== step.fence) throw new Error(`Expected a request with fence ${step.fence}.`);
        request.answer({ outcome: "taken", blocks: step.blocks });
        return {};
      }
      case "silent": {
        open.shift()?.fail(new SnowleaseError("REGISTRY_UNAVAILABLE", "No answer."));
        return {};
      }
      case "renewed": {
        const { from, until } = step;
        renewal = () => ({ outcome: "renewed", from, until, clock: step.clock });
        await lease.renew();
        return {};
      }
      case "lost": {
        renewal = () => ({ outcome: "lost", reason: "taken" });
        await lease.renew();
        return {};
      }
      case "granted": {
        grantNext?.(granted(step));
        return {};
      }
      case "close": {
        await lease.close();
        return {};
      }
    }
  };

  const results: BlockResult[] = [];
  for (const step of steps) {
    setTo(step.clock);
    results.push(await take(step));
    await settled();
  }
  await lease.orphan();
  wake = [];
  return results;
};

/** Makes ticks before the newest one unusable. */
function newestAlone(ticks: BlockTicks): Ticks {
  return {
    get floor() {
      return Math.max(ticks.floor, ticks.highest);
    },
    get highest() {
      return ticks.highest;
    },
    sequenceOf: (tick) => ticks.sequenceOf(tick),
    nextOf: (tick) => ticks.nextOf(tick),
    lastOf: (sequence) => ticks.lastOf(sequence),
    raise: (tick, sequence) => ticks.raise(tick, sequence),
  };
}

const epoch = 1_700_000_000_000;

const blockLayouts = [
  "westid",
  "twitter",
  "uid",
  "uid-datacenter",
  "sonyflake",
  "safe53",
  `timestamp:41,worker:10,sequence:1@${epoch}/1`,
  `timestamp:41,worker:10,sequence:4@${epoch}/7`,
  `timestamp:41,worker:10,sequence:5@${epoch}/63`,
  `timestamp:41,worker:10,sequence:6@${epoch}/64`,
  `timestamp:40,worker:10,sequence:6@${epoch}/65`,
  `timestamp:31,worker:1,sequence:31@${epoch}/1000`,
  "timestamp:45,worker:1,sequence:17@0",
  "timestamp:21,sequence:1,worker:31@4102444800000/60000",
];

/** Ticks of 64 IDs: 32 blocks of 2. */
const [ms, tenMs, second] = [1, 10, 1000].map((tick) => `timestamp:41,worker:10,sequence:6@${epoch}/${tick}`) as [
  string,
  string,
  string,
];
/** Ticks of 4 IDs: 4 blocks of 1. */
const few = `timestamp:41,worker:10,sequence:2@${epoch}/1`;
/** The first ms of a span, if ticks have 1 ms, and that span. */
const at = epoch + 1_000_000;
const span = 15_625;

const grantOf = (from: number, until: number, workerId = 7, fence = 1): BlockGrant => {
  return { workerId, fence, from, until };
};
const usual = { clock: at, ...grantOf(at - 1000, at + 60_000) };
const next = (clock: number, times = 1): BlockStep[] => Array.from({ length: times }, () => ({ clock, do: "next" }));
const step = (clock: number, what: "prefetch" | "silent" | "lost" | "close"): BlockStep => ({ clock, do: what });
const given = (clock: number, first: number, blocks: readonly number[], fence = 1): BlockStep => {
  return { clock, do: "given", fence, first, blocks };
};
/** The answer to a prefetch: one block of each of these spans. */
const each = (block: number, spans: number, none = 0): number[] => {
  return Array.from({ length: spans }, (_, i) => (i < spans - none ? 2 ** block : 0));
};
/** The first prefetch, with block 3 of each span. */
const begin = (clock: number = at, first: number = span, spans: number = 80): BlockStep[] => {
  return [step(clock, "prefetch"), given(clock, first, each(3, spans))];
};

const blockScripts: readonly BlockScript[] = [
  {
    why: "As usual: the sequences of the block, in each tick of the span; then of the next span's block. No ID is made after a close.",
    layout: ms,
    grant: usual,
    steps: [
      step(at, "prefetch"),
      given(at, span, [8, 2 ** 31, ...each(0, 78)]),
      ...next(at, 2),
      ...next(at + 1),
      ...next(at + 63, 2),
      ...next(at + 64),
      ...next(at + 128, 2),
      step(at + 129, "close"),
      ...next(at + 129),
    ],
  },
  {
    why: "A tick is full: more blocks are asked for, and used in the order in which they came, also in the ticks that follow.",
    layout: ms,
    grant: usual,
    steps: [
      ...begin(),
      ...next(at, 3),
      given(at, span, [0b110000, 0, 0b10000, 0b10000]),
      ...next(at, 4),
      ...next(at + 1, 6),
      // After the blocks of the first answer.
      ...next(at + 64, 4),
      ...next(at + 128, 4),
    ],
  },
  {
    why: "A second request asks for as many blocks as are held.",
    layout: ms,
    grant: usual,
    steps: [
      ...begin(),
      ...next(at, 3),
      given(at, span, [0b10000, 0b10000, 0b10000, 0b10000]),
      ...next(at, 3),
      given(at, span, [0b1100000, 0, 0, 0]),
      ...next(at, 5),
    ],
  },
  {
    why: "While a request is on its way, no other one is sent.",
    layout: ms,
    grant: usual,
    steps: [
      ...begin(),
      ...next(at, 4),
      ...next(at + 1, 3),
      ...next(at + 64, 3),
      given(at + 64, span, [0b10000, 0b10000, 0b10000, 0b10000]),
      ...next(at + 64, 3),
    ],
  },
  {
    why: "A request that is not answered: the next ID that finds no sequence asks again. An answer without blocks changes nothing.",
    layout: ms,
    grant: usual,
    steps: [
      ...begin(),
      ...next(at, 3),
      step(at, "silent"),
      ...next(at, 2),
      given(at, span, [0, 0, 0, 0]),
      ...next(at),
      step(at + 1, "silent"),
      ...next(at + 1),
    ],
  },
  {
    why: "A span without a block: refused until the next tick, with a request.",
    layout: ms,
    grant: usual,
    steps: [
      step(at, "prefetch"),
      given(at, span, [0, ...each(0, 79)]),
      ...next(at + 62),
      ...next(at + 63),
      ...next(at + 64),
    ],
  },
  {
    why: "Prefetches continue behind the last span with a block, up to 5 s ahead.",
    layout: ms,
    grant: usual,
    steps: [
      ...begin(),
      step(at + 10, "prefetch"),
      step(at + 1000, "prefetch"),
      given(at + 1000, span + 80, each(5, 15)),
      ...next(at + 1000),
      // From the present span on, after a pause that is longer than the prefetched blocks last.
      step(at + 20_000, "prefetch"),
      given(at + 20_000, span + 312, each(6, 80)),
      ...next(at + 20_000),
    ],
  },
  {
    why: "The lender gives no blocks behind its window: they are asked for again. The window ends inside a span, and a renewal reopens it.",
    layout: ms,
    grant: { clock: at, ...grantOf(at, at + 1000) },
    steps: [
      step(at, "prefetch"),
      given(at, span, each(1, 80, 64)),
      ...next(at + 999),
      ...next(at + 1000),
      step(at + 1000, "prefetch"),
      given(at + 1000, span + 16, each(1, 79, 79)),
      { clock: at + 1001, do: "renewed", from: at, until: at + 3000 },
      ...next(at + 1001),
      step(at + 2000, "prefetch"),
      given(at + 2000, span + 31, each(2, 80, 64)),
      ...next(at + 2000, 2),
    ],
  },
  {
    why: "A renewal raises `from`: blocks before it are of no use.",
    layout: ms,
    grant: usual,
    steps: [
      ...begin(),
      ...next(at),
      { clock: at + 10, do: "renewed", from: at + 100, until: at + 70_000 },
      ...next(at + 10),
      ...next(at + 99),
      ...next(at + 100),
    ],
  },
  {
    why: "A window that opens inside a span of ticks of 10 ms, and inside a tick.",
    layout: tenMs,
    grant: { clock: at + 1, ...grantOf(at + 1, at + 60_000) },
    steps: [
      step(at + 1, "prefetch"),
      given(at + 1, 14_285, each(3, 73)),
      ...next(at + 1),
      ...next(at + 10, 2),
      // The last tick of the span, and the first one of the next.
      ...next(at + 19, 2),
      ...next(at + 20),
    ],
  },
  {
    why: "The clock goes back by some ticks: refused until it shows the tick of the newest ID again, where the sequences go on.",
    layout: ms,
    grant: usual,
    steps: [...begin(), ...next(at + 100), ...next(at + 90), ...next(at + 63), ...next(at + 100, 2)],
  },
  {
    why: "The clock goes ahead, to a span without blocks, and comes back: no ID was made there.",
    layout: ms,
    grant: usual,
    steps: [
      ...begin(),
      ...next(at + 5),
      ...next(at + 30_000),
      given(at + 30_000, span + 468, [0, 0, 0, 0]),
      ...next(at + 6),
    ],
  },
  {
    why: "The clock is set back by more than was prefetched, to before any ID: the blocks of that time are prefetched, and those of later times stay.",
    layout: ms,
    grant: { ...usual, ...grantOf(at - 60_000, at + 60_000) },
    steps: [
      ...begin(),
      step(at - 20_000, "prefetch"),
      given(at - 20_000, span - 313, each(4, 80)),
      ...next(at - 20_000),
      ...next(at),
    ],
  },
  {
    why: "The lease is lost, and another worker ID is granted: all blocks are forgotten, and an answer to a request before it is dropped.",
    layout: ms,
    grant: usual,
    steps: [
      ...begin(),
      ...next(at, 3),
      step(at + 1, "lost"),
      { clock: at + 2, do: "granted", ...grantOf(at, at + 60_000, 8, 5) },
      step(at + 2, "prefetch"),
      given(at + 2, span, [0b10000, 0b10000, 0b10000, 0b10000]),
      ...next(at + 2),
      given(at + 2, span, each(9, 80), 5),
      ...next(at + 2),
      given(at + 2, span, [0, 1, 1, 1], 5),
      ...next(at + 2),
    ],
  },
  {
    why: "The same worker ID is granted again, with another fence: its blocks are new, too.",
    layout: ms,
    grant: usual,
    steps: [
      ...begin(),
      ...next(at),
      step(at + 1, "lost"),
      { clock: at + 2, do: "granted", ...grantOf(at + 2, at + 60_000, 7, 2) },
      step(at + 2, "prefetch"),
      given(at + 2, span, each(4, 80), 2),
      ...next(at + 2),
    ],
  },
  {
    why: "The ID 0 is never made: worker 0 skips sequence 0 of tick 0, in whichever order its blocks come.",
    layout: ms,
    grant: { clock: epoch, ...grantOf(epoch, epoch + 60_000, 0) },
    steps: [
      given(epoch, 0, [0b10, ...each(0, 79)]),
      ...next(epoch, 3),
      given(epoch, 0, [1, 0, 0, 0]),
      ...next(epoch, 2),
      ...next(epoch + 1, 4),
    ],
  },
  {
    why: "The ID 0 alone is in the block: there is no sequence.",
    layout: few,
    grant: { clock: epoch, ...grantOf(epoch, epoch + 60_000, 0) },
    steps: [given(epoch, 0, each(0, 80)), ...next(epoch), ...next(epoch + 1)],
  },
  {
    why: "Fewer than 32 sequences: a block is one of them, and all of them are held in the end.",
    layout: few,
    grant: usual,
    steps: [
      ...begin(),
      ...next(at, 2),
      given(at, span, [0b1, 0b1, 0b1, 0b1]),
      ...next(at, 2),
      given(at, span, [0b110, 0, 0, 0]),
      ...next(at, 3),
      given(at, span, [0, 0, 0, 0]),
      ...next(at + 1, 4),
    ],
  },
  {
    why: "Ticks of 1 s: a span has one tick.",
    layout: second,
    grant: { clock: at + 400, ...grantOf(at, at + 60_000) },
    steps: [
      step(at + 400, "prefetch"),
      given(at + 400, 1000, each(30, 6)),
      ...next(at + 400),
      ...next(at + 999, 2),
      given(at + 999, 1000, [2 ** 31, 2 ** 31, 2 ** 31, 2 ** 31]),
      ...next(at + 999),
      ...next(at + 1000),
      step(at + 1400, "prefetch"),
      given(at + 1400, 1006, [2]),
      ...next(at + 6000),
    ],
  },
  {
    why: "The default layout: block 1 begins with sequence 128; the worker ID is the highest.",
    layout: "westid",
    grant: { clock: at, ...grantOf(at, at + 60_000, 1023) },
    steps: [
      step(at, "prefetch"),
      given(at, Math.floor((at - 1490346283706) / 64), each(1, 80)),
      ...next(at, 2),
      ...next(at + 1),
    ],
  },
];
