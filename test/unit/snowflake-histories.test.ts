import { fc } from "../support/fast-check.ts";
import { describe, expect, it } from "vitest";
import { isSnowleaseError } from "../../src/id/errors.ts";
import { Layout, layouts } from "../../src/id/layout.ts";
import { Lease, type LeaseSnapshot } from "../../src/lease/lease.ts";
import type { Registry } from "../../src/rule/registry.ts";
import { Snowflake } from "../../src/generator/snowflake.ts";
import type { Mode } from "../../src/generator/tick-allocator.ts";
import { fakeClock, type FakeClock, lossyRegistry, memoryRegistry } from "../../src/testing.ts";
import { defaults, makeToken, open, start } from "../support/generator.ts";

describe("for any clock", () => {
  type Command =
    | { readonly does: "advance" | "step"; readonly ms: number }
    | { readonly does: "next" | "fill" | "async" | "take"; readonly count: number }
    | { readonly does: "close" | "crash" | "cut" | "renew" };

  const command = fc.oneof(
    {
      weight: 6,
      arbitrary: fc.record({
        does: fc.constant("advance" as const),
        ms: fc.oneof(
          fc.integer({ min: 1, max: 4 }),
          fc.double({ min: 0.01, max: 3, noNaN: true }),
          fc.constantFrom(50, 600, 9_995, 20_000, 61_000),
        ),
      }),
    },
    {
      weight: 4,
      arbitrary: fc.record({
        does: fc.constant("step" as const),
        ms: fc.oneof(
          fc.integer({ min: -6, max: 6 }),
          // The last is a wrap of the layout `scene`.
          fc.constantFrom(-10_001, -10_000, -9_999, -10_300, -30_000, -61_000, 9_000, 61_000, 2 ** 21),
        ),
      }),
    },
    {
      weight: 10,
      arbitrary: fc.record({
        does: fc.constantFrom("next" as const, "fill" as const, "async" as const),
        count: fc.integer({ min: 1, max: 12 }),
      }),
    },
    {
      // In lead mode, up to the end of a short window.
      weight: 2,
      arbitrary: fc.record({ does: fc.constant("take" as const), count: fc.integer({ min: 13, max: 300 }) }),
    },
    {
      weight: 4,
      arbitrary: fc.record({
        does: fc.constantFrom("close" as const, "crash" as const, "cut" as const, "renew" as const),
      }),
    },
  );

  interface Wish {
    /** The registry's clock is steady when the holders' is not. */
    readonly ownClock: boolean;
    readonly onLost: "switch" | "stop";
    /** Windows of a few ticks. */
    readonly short: boolean;
    /** Of each holder after the other. */
    readonly modes: readonly Mode[];
    readonly spread: number;
  }

  const wish: fc.Arbitrary<Wish> = fc.record({
    ownClock: fc.boolean(),
    onLost: fc.constantFrom("switch" as const, "stop" as const),
    short: fc.boolean(),
    modes: fc.constantFrom<readonly Mode[]>(["wall"], ["lead"], ["lead", "wall"]),
    spread: fc.constantFrom(1, 1, 4),
  });

  /** Runs a history on one registry: at most one holder is the present one, and those that were cut off go on as they can. */
  class Trial {
    readonly #layout: Layout;
    readonly #clock = fakeClock({ start });
    /** Also steady when the holders' clock is not. */
    readonly #registryClock: FakeClock;
    readonly #registry: Registry;
    readonly #wish: Wish;
    #wire = { cut: false };
    #holders: Snowflake[] = [];
    /** Every ID, and the embedded time for which it was made. */
    readonly made = new Map<bigint, number>();
    rollbacks = 0;
    /** IDs that led the clock. */
    led = 0;

    constructor(layout: Layout, wish: Wish) {
      this.#layout = layout;
      this.#registryClock = wish.ownClock ? fakeClock({ start }) : this.#clock;
      this.#registry = memoryRegistry({ clock: this.#registryClock });
      this.#wish = wish;
    }

    async run(commands: readonly Command[]): Promise<void> {
      for (const command of commands) {
        await this.#claim();
        await this.#obey(command);
      }
      await Promise.all(this.#holders.map((ids) => ids.close().catch(() => undefined)));
    }

    async #claim(): Promise<void> {
      if (!this.#wire.cut && this.#holders.at(-1)?.lease.state === "held") return;
      const wire = { cut: false };
      const registry = lossyRegistry(this.#registry, { lose: () => (wire.cut ? "request" : undefined) });
      const pool = { first: 5, last: 6 };
      const { onLost, short, modes, spread } = this.#wish;
      const workerId = onLost === "stop" ? 5 : undefined;
      const window = short ? Math.max(25, 4 * this.#layout.tick) : defaults.window;
      const options = { ...defaults, layout: this.#layout, pool, workerId, onLost, window, operationTimeout: 0 };
      try {
        const lease = await Lease.claim({ registry, clock: this.#clock, makeToken }, options);
        const mode = modes[this.#holders.length % modes.length];
        this.#holders.push(new Snowflake(lease, { mode, spread }));
        this.#wire = wire;
      } catch (error) {
        if (!isSnowleaseError(error)) throw error;
      }
    }

    async #obey(command: Command): Promise<void> {
      const present = this.#holders.at(-1);
      switch (command.does) {
        case "advance":
          await this.#clock.advance(command.ms);
          if (this.#registryClock !== this.#clock) await this.#registryClock.advance(command.ms);
          return;
        case "step":
          this.#clock.step(command.ms);
          // A step ahead may go unnoticed for less than 1 ms, and then an ID does not tell in which wrap it was made.
          return command.ms < 2 ** 21 ? undefined : this.#clock.advance(1);
        case "cut":
          this.#wire.cut = true;
          return;
        case "renew":
          return void (await present?.lease.renew());
        case "close":
          return present?.close().catch(() => undefined);
        case "crash":
          return present?.lease.orphan().catch(() => undefined);
        default:
          for (const ids of this.#holders) await this.#make(ids, command.does, command.count);
      }
    }

    async #make(ids: Snowflake, how: "next" | "fill" | "async" | "take", count: number): Promise<void> {
      try {
        // The lease before: a holder that leads its clock may give it up at the end of its window, after its last ID.
        const { snapshot } = ids.lease;
        if (how === "take") this.#take(snapshot, ...ids.take(count));
        else if (how === "fill") {
          const target = new BigUint64Array(count);
          const got = ids.fill(target);
          this.#take(snapshot, ...target.subarray(0, got));
        } else if (how === "next") {
          for (let i = 0; i < count; i++) this.#take(snapshot, ids.next());
        } else {
          for (let i = 0; i < count; i++) {
            const id = await ids.nextAsync({ timeout: 0 });
            this.#take(ids.lease.snapshot, id);
          }
        }
      } catch (error) {
        if (!isSnowleaseError(error)) throw error;
      }
    }

    #take(snapshot: LeaseSnapshot | undefined, ...fresh: readonly bigint[]): void {
      const { wrap = Infinity } = this.#layout;
      for (const id of fresh) {
        const parts = this.#layout.decompose(id, this.#clock.now());
        const { timestamp, workerId, rollback = 0 } = parts;
        const last = this.made.get(id);
        if (last !== undefined && Math.abs(timestamp - last) < wrap) {
          throw new Error(`made twice: ${id}, ${JSON.stringify(parts)}`);
        }
        this.made.set(id, timestamp);
        this.rollbacks += Math.min(rollback, 1);
        this.led += Number(timestamp > this.#clock.now());
        expect(id).not.toBe(0n);
        expect(workerId).toBe(snapshot?.workerId);
        expect(timestamp).toBeGreaterThanOrEqual(snapshot?.knownFrom ?? Infinity);
        expect(timestamp + this.#layout.tick).toBeLessThanOrEqual(snapshot?.until ?? -Infinity);
      }
    }
  }

  /** Further than a generator remembers, and not before its window. */
  const farBack: Command[] = [
    { does: "next", count: 3 },
    { does: "advance", ms: 20_000 },
    { does: "next", count: 3 },
    { does: "step", ms: -10_300 },
    { does: "next", count: 3 },
    { does: "advance", ms: 10_300 },
    { does: "next", count: 3 },
  ];

  /** More than any tick has. */
  const burst: Command[] = [{ does: "take", count: 10_000 }];

  const layoutsToTry: ReadonlyArray<readonly [what: string, notation: string, numRuns: number]> = [
    ["ticks of 1 ms", "timestamp:41,worker:10,sequence:3@1490346283706/1", 100],
    ["ticks of 10 ms, the sequence above the worker", "timestamp:39,sequence:5,worker:16@1409529600000/10", 50],
    ["ticks of 1 s", "timestamp:28,worker:22,sequence:5@1463673600000/1000", 50],
    ["rollback bits", "timestamp:41,machine:3,process:5,rollback:2,sequence:3@1580486400000", 80],
    ["rollback bits and ticks of 1 s", "timestamp:31,worker:5,rollback:1,sequence:5@1580486400000/1000", 50],
    ["a timestamp that wraps", "timestamp:21,worker:5,sequence:3@1490346283706/1/wraps", 50],
    // One with a single worker ID leaves none to switch to.
    ...Object.entries(layouts).flatMap(([name, { workerBits }]) => (workerBits > 0 ? [[name, name, 25] as const] : [])),
  ];

  const plain: Wish = { ownClock: false, onLost: "switch", short: false, modes: ["wall"], spread: 1 };

  const title = "no ID is made twice, and none outside its window: %s";
  it.each(layoutsToTry)(title, { timeout: 120_000 }, async (_, notation, numRuns) => {
    const layout = Layout.parse(notation);
    let made = 0;
    let rollbacks = 0;
    let led = 0;
    await fc.assert(
      fc.asyncProperty(
        fc.array(command, { minLength: 1, maxLength: 60, size: "max" }),
        wish,
        async (commands, wish) => {
          const trial = new Trial(layout, wish);
          await trial.run(commands);
          made += trial.made.size;
          led += trial.led;
          rollbacks += trial.rollbacks;
        },
      ),
      {
        numRuns,
        examples: [
          [farBack, plain],
          [burst, { ...plain, modes: ["lead"] }],
        ],
      },
    );
    // Histories that are all refusals would prove nothing.
    expect(made).toBeGreaterThan(numRuns * 10);
    expect(led).toBeGreaterThan(numRuns);
    if (layout.maxRollback > 0) expect(rollbacks).toBeGreaterThan(0);
  });

  it.each<readonly [string, Mode, number]>([
    ["in wall mode, as long as the clock does not go back", "wall", 0],
    ["in lead mode, always", "lead", -30_000],
  ])("IDs of one generator rise %s", async (_, mode, least) => {
    const ms = fc.oneof(fc.double({ min: 0, max: 3, noNaN: true }), fc.integer({ min: least, max: 0 }));
    const step = fc.tuple(ms, fc.integer({ min: 1, max: 12 }), fc.boolean());
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 60, size: "max" }), fc.constantFrom(1, 8), async (steps, spread) => {
        const { clock, ids } = await open({
          mode,
          spread,
          layout: Layout.parse("timestamp:41,worker:10,sequence:3@1490346283706/1"),
        });
        let last = -1n;
        for (const [ms, count, bulk] of steps) {
          if (ms < 0) clock.step(ms);
          else await clock.advance(ms);
          const target = new BigUint64Array(count);
          try {
            if (bulk) ids.fill(target);
            else for (let i = 0; i < count; i++) target[i] = ids.next();
          } catch (error) {
            if (!isSnowleaseError(error, "SEQUENCE_EXHAUSTED")) throw error;
          }
          for (const id of target.filter((id) => id > 0n)) {
            expect(id > last).toBe(true);
            last = id;
          }
        }
      }),
      { numRuns: 100 },
    );
  });
});
