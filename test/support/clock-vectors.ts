import type { Clock } from "../../src/clock.ts";
import { SnowleaseError } from "../../src/id/errors.ts";
import { Lease } from "../../src/lease/lease.ts";
import { Layout } from "../../src/id/layout.ts";
import { RecentTicks } from "../../src/generator/recent-ticks.ts";
import type { Lost, Registry, ReleaseRequest, Renewal, RenewRequest } from "../../src/rule/registry.ts";
import { Snowflake } from "../../src/generator/snowflake.ts";
import { memoryRegistry } from "../../src/testing.ts";
import { defaults, makeToken } from "./generator.ts";
import { type NextResult, nextOf } from "./next-result.ts";

/** A step of a script, at a reading of the wall clock, Unix ms. */
export type ClockStep = { readonly clock: number } & (
  | { readonly do: "next" | "quarantine" | "lost" | "close" }
  /** The answer to a renewal. */
  | { readonly do: "renewed"; readonly from: number; readonly until: number }
);

/** A grant, its arrival at the reading `clock` of the holder's wall clock, and the events after it. */
export interface ClockScript {
  readonly why: string;
  readonly layout: string;
  readonly grant: {
    readonly clock: number;
    readonly workerId: number;
    readonly from: number;
    readonly until: number;
  };
  readonly steps: readonly ClockStep[];
}

/** A request's report of the used IDs. */
interface ToldUsage {
  readonly lastTimestamp?: number | undefined;
  readonly lastSequence?: number | undefined;
}

/** The required result of a step. */
export interface StepResult extends NextResult {
  /** For a renewal: its report of the IDs made so far. */
  readonly sends?: ToldUsage;
  /** For a close: the body of the give-back; null if there is no give-back. */
  readonly gives?: (ToldUsage & { readonly until: number }) | null;
}

/** Runs a script. */
export type ClockRunner = (script: ClockScript) => Promise<readonly StepResult[]>;

export async function clockVectors(): Promise<{ readonly about: string; readonly scripts: readonly object[] }> {
  const scripts = [];
  for (const script of clockScripts) {
    const results = await simpleGenerator(script);
    scripts.push({ ...script, steps: script.steps.map((step, i) => ({ ...step, ...results[i] })) });
  }
  return {
    about:
      "Scripts: a grant, and what a client then does at each reading of its wall clock (`clock`, Unix ms), with the ID or the refusal that `next` ends in, what a renewal tells, and what a close gives back.",
    scripts,
  };
}

/** Our own generator and lease. Like a simple client, they remember only the newest tick. */
export const simpleGenerator: ClockRunner = async ({ layout: text, grant, steps }) => {
  const layout = Layout.parse(text);
  let wall = grant.clock;
  let nanos = 0n;
  const clock: Clock = {
    now: () => wall,
    nanos: () => nanos,
    // No event occurs by itself. The script renews.
    sleep: (_, { signal } = {}) => new Promise((done) => signal?.addEventListener("abort", () => done())),
  };
  const setTo = (reading: number): void => {
    // The monotonic clock goes on, even when the wall clock goes back.
    if (reading !== wall) nanos += BigInt(Math.max(2, reading - wall)) * 1_000_000n;
    wall = reading;
  };

  let renewed: RenewRequest | undefined;
  let released: ReleaseRequest | undefined;
  let answer: () => Renewal | Lost = () => ({ outcome: "lost" });
  const registry: Registry = {
    ...memoryRegistry({ clock }),
    claim: ({ clock: asked }) => Promise.resolve({ outcome: "granted", fence: 1, ...grant, clock: asked }),
    renew(request) {
      renewed = request;
      return new Promise((resolve) => resolve(answer()));
    },
    release(request) {
      released = request;
      return Promise.resolve({ outcome: "released" });
    },
  };
  const terms = { ...defaults, layout, pool: layout.pool };
  const lease = await Lease.claim({ registry, clock, makeToken }, terms);
  const ids = new Snowflake(lease, {
    share: {
      attach: (usage) => lease.attach(usage),
      ticks: ({ knownFrom }) => new RecentTicks(layout, knownFrom, undefined, 0),
    },
  });

  const renew = async (by: () => Renewal | Lost): Promise<StepResult> => {
    answer = by;
    await lease.renew();
    return { sends: told(renewed?.checkpoint) };
  };

  const take = async (step: ClockStep): Promise<StepResult> => {
    switch (step.do) {
      case "next":
        return nextOf(ids);
      case "renewed": {
        const { from, until } = step;
        return renew(() => ({ outcome: "renewed", from, until, clock: step.clock }));
      }
      case "quarantine":
        return renew(() => {
          throw new SnowleaseError("QUARANTINE", "The registry went back in time.");
        });
      case "lost":
        return renew(() => ({ outcome: "lost", reason: "taken" }));
      case "close": {
        await lease.close();
        const used = released?.used;
        return { gives: used === undefined ? null : { until: used.until, ...told(used.checkpoint) } };
      }
    }
  };

  const results: StepResult[] = [];
  for (const step of steps) {
    setTo(step.clock);
    results.push(await take(step));
  }
  await lease.orphan();
  return results;
};

function told(checkpoint: RenewRequest["checkpoint"]): ToldUsage {
  return checkpoint === undefined ? {} : { lastTimestamp: checkpoint.timestamp, lastSequence: checkpoint.sequence };
}

const epoch = 1_700_000_000_000;
/** Ticks of four IDs. */
const [ms, tenMs] = [1, 10].map((tick) => `timestamp:41,worker:10,sequence:2@${epoch}/${tick}`) as [string, string];
const at = epoch + 1_000_000;

const grantAt = (clock: number, from: number, until: number, workerId = 7): ClockScript["grant"] => {
  return { clock, workerId, from, until };
};
const usual = grantAt(at, at, at + 60_000);
const next = (clock: number, times = 1): ClockStep[] => Array.from({ length: times }, () => ({ clock, do: "next" }));
const step = (clock: number, what: "quarantine" | "lost" | "close"): ClockStep => ({ clock, do: what });
const renewed = (clock: number, from: number, until: number): ClockStep => ({ clock, do: "renewed", from, until });

const clockScripts: readonly ClockScript[] = [
  {
    why: "As usual: sequences begin at 0 in each tick, a renewal moves the end, a close gives back behind the last ID.",
    layout: ms,
    grant: usual,
    steps: [
      ...next(at, 3),
      ...next(at + 1),
      ...next(at + 20_000, 2),
      renewed(at + 20_000, at, at + 80_000),
      ...next(at + 20_000),
      ...next(at + 79_999),
      step(at + 79_999, "close"),
      ...next(at + 79_999),
    ],
  },
  {
    why: "The default layout; the worker ID is the highest.",
    layout: "westid",
    grant: grantAt(at, at, at + 60_000, 1023),
    steps: [...next(at, 2), ...next(at + 59_999)],
  },
  {
    why: "A tick is full: the next ID waits for the next tick.",
    layout: ms,
    grant: usual,
    steps: [...next(at, 5), ...next(at + 1)],
  },
  {
    why: "A tick of 10 ms is full.",
    layout: tenMs,
    grant: usual,
    steps: [...next(at + 3, 4), ...next(at + 7), ...next(at + 9), ...next(at + 10)],
  },
  {
    why: "The window ends: the last tick is usable to its end, the tick at `until` is not. A renewal reopens it.",
    layout: ms,
    grant: usual,
    steps: [
      ...next(at + 59_999),
      ...next(at + 60_000),
      ...next(at + 3_600_000),
      renewed(at + 3_600_000, at, at + 3_660_000),
      ...next(at + 3_600_000),
    ],
  },
  {
    why: "A tick that `until` cuts through is not usable.",
    layout: tenMs,
    grant: grantAt(at, at, at + 95),
    steps: [...next(at + 89), ...next(at + 90), ...next(at + 94), renewed(at + 94, at, at + 100), ...next(at + 94)],
  },
  {
    why: "A window that opens later.",
    layout: ms,
    grant: grantAt(at, at + 500, at + 60_000),
    steps: [...next(at), ...next(at + 499), ...next(at + 500), step(at + 500, "close")],
  },
  {
    why: "A window that begins inside a tick: the holder before may have used that tick.",
    layout: tenMs,
    grant: grantAt(at + 1, at + 1, at + 60_000),
    steps: [...next(at + 1), ...next(at + 9), ...next(at + 10)],
  },
  {
    why: "The clock goes back inside a tick of 10 ms: the sequence goes on.",
    layout: tenMs,
    grant: usual,
    steps: [...next(at + 25, 2), ...next(at + 21), ...next(at + 29), ...next(at + 20)],
  },
  {
    why: "The clock goes back by some ticks: refused until it shows the tick of the newest ID again.",
    layout: ms,
    grant: usual,
    steps: [...next(at + 1000, 2), ...next(at + 990), ...next(at + 999), ...next(at + 1000, 3), ...next(at + 1001)],
  },
  {
    why: "The clock goes back to before the window: the same, or until the window opens where no ID was made.",
    layout: ms,
    grant: usual,
    steps: [...next(at - 1), ...next(at + 10), ...next(at - 600_000), ...next(at + 9), ...next(at + 10)],
  },
  {
    why: "The clock goes far ahead, past `until`, and comes back: nothing was made there, so nothing is used.",
    layout: ms,
    grant: usual,
    steps: [...next(at + 5), ...next(at + 86_400_000), ...next(at + 6)],
  },
  {
    why: "The clock goes ahead inside the window and comes back: that ID counts.",
    layout: ms,
    grant: usual,
    steps: [...next(at + 5), ...next(at + 50_000), ...next(at + 6), ...next(at + 49_999), ...next(at + 50_000)],
  },
  {
    why: "A renewal raises `from`, as after a quarantine: times before it are lost, used or not.",
    layout: ms,
    grant: usual,
    steps: [
      ...next(at + 1000),
      renewed(at + 2000, at + 5000, at + 62_000),
      ...next(at + 2000),
      ...next(at + 4999),
      ...next(at + 5000),
      ...next(at + 4999),
      step(at + 5001, "close"),
    ],
  },
  {
    why: "A renewal raises `from` to inside a tick, and nothing is made behind it: the window closes at `from`.",
    layout: tenMs,
    grant: usual,
    steps: [
      ...next(at + 1000),
      renewed(at + 1001, at + 1015, at + 62_000),
      ...next(at + 1015),
      step(at + 1016, "close"),
    ],
  },
  {
    why: "The answer to an earlier renewal comes late: neither `from` nor `until` goes back.",
    layout: ms,
    grant: usual,
    steps: [
      renewed(at + 1, at + 1000, at + 90_000),
      renewed(at + 2, at, at + 70_000),
      ...next(at + 999),
      ...next(at + 1000),
      ...next(at + 89_999),
      ...next(at + 90_000),
    ],
  },
  {
    why: "A renewal is refused with QUARANTINE: IDs go on, but never at times before that request, where another window may have been.",
    layout: ms,
    grant: usual,
    steps: [
      ...next(at + 1000),
      step(at + 5000, "quarantine"),
      ...next(at + 4000),
      ...next(at + 5000),
      ...next(at + 59_999),
      ...next(at + 60_000),
    ],
  },
  {
    why: "QUARANTINE after the window has passed: all of it is given up.",
    layout: ms,
    grant: usual,
    steps: [...next(at + 1000), step(at + 70_000, "quarantine"), ...next(at + 30_000), ...next(at + 59_999)],
  },
  {
    why: "The lease is lost: no more IDs, and nothing to give back.",
    layout: ms,
    grant: usual,
    steps: [...next(at), step(at + 1, "lost"), ...next(at + 1), ...next(at + 59_999), step(at + 59_999, "close")],
  },
  {
    why: "Closed without an ID: the window closes at `from`.",
    layout: ms,
    grant: usual,
    steps: [step(at + 5, "close"), ...next(at + 5)],
  },
  {
    why: "Closed after an ID in a tick of 10 ms: the window closes at the end of the tick.",
    layout: tenMs,
    grant: usual,
    steps: [...next(at + 14, 2), step(at + 15, "close")],
  },
  {
    why: "The ID 0 is never made: worker 0 begins tick 0 with sequence 1.",
    layout: ms,
    grant: grantAt(epoch, epoch, epoch + 60_000, 0),
    steps: [...next(epoch, 4), ...next(epoch + 1), step(epoch + 1, "close")],
  },
  {
    why: "Other workers begin tick 0 with sequence 0.",
    layout: ms,
    grant: grantAt(epoch, epoch, epoch + 60_000, 1),
    steps: next(epoch, 2),
  },
  {
    why: "The clock goes back to before the epoch of the layout.",
    layout: ms,
    grant: grantAt(epoch + 10, epoch - 1000, epoch + 60_000),
    steps: [...next(epoch + 10), ...next(epoch - 5), ...next(epoch + 9), ...next(epoch + 10)],
  },
  {
    why: "The timestamp bits run out inside the window.",
    layout: `timestamp:21,worker:10,sequence:2@${epoch}/1`,
    grant: grantAt(epoch + 2 ** 21 - 2, epoch + 2 ** 21 - 2, epoch + 2 ** 21 + 60_000),
    steps: [...next(epoch + 2 ** 21 - 1), ...next(epoch + 2 ** 21)],
  },
  {
    why: "The worker ID lies below the sequence, and ticks have 10 ms.",
    layout: "sonyflake",
    grant: grantAt(at, at, at + 60_000, 65_535),
    steps: [...next(at, 2), ...next(at + 10)],
  },
];
