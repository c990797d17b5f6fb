import { setImmediate as nextTurn } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { isSnowleaseError } from "../../src/id/errors.ts";
import { Lease } from "../../src/lease/lease.ts";
import type { Registry, Usage } from "../../src/rule/registry.ts";
import type { Snowflake } from "../../src/generator/snowflake.ts";
import { memoryRegistry } from "../../src/registries/memory/registry.ts";
import { LeaseClient } from "../../src/sharing/lease-client.ts";
import { SharedUsageTracker } from "../../src/sharing/usage-tracker.ts";
import { leaseServer } from "../../src/sharing/lease-server.ts";
import { joinLease } from "../../src/sharing/joined-lease.ts";
import { SharedSnowflake } from "../../src/sharing/shared-snowflake.ts";
import { overNetwork } from "../simulation/network.ts";
import { Machine, World } from "../simulation/world.ts";
import { makeToken } from "../support/generator.ts";
import { layout, options } from "../support/lent-lease.ts";

describe("histories of children of a lease server", () => {
  Error.stackTraceLimit = 0;

  interface Child {
    readonly machine: Machine;
    readonly ids: Snowflake;
    /** Its own generator, and those of its threads. */
    readonly makers: readonly { next(): bigint }[];
    readonly emitted: ((id: bigint) => void) | undefined;
  }

  interface Lender {
    readonly machine: Machine;
    lease?: Lease;
    lent?: Registry | undefined;
    emitted?: ((id: bigint) => void) | undefined;
    children: Child[];
  }

  /** Makes the tracker that accounts for a lease; `emitted` gets every ID made on it. */
  type MakeLedger = (lease: Lease) => SharedUsageTracker & { readonly emitted?: (id: bigint) => void };

  async function play(
    seed: number,
    makeLedger: MakeLedger = (lease) => new SharedUsageTracker(lease, true),
  ): Promise<{ ids: number; neighbours: number; takeovers: number; threaded: number; repeated: bigint | undefined }> {
    const world = new World(seed);
    const { random } = world;
    const server = new Machine(world, random.between(-1000, 1000));
    const registry = memoryRegistry({ clock: server });
    const weather = { loseRequest: 0.05, loseReply: 0.1, lateRequest: 0.05, repeatRequest: 0.05 };
    const calm = { loseRequest: 0, loseReply: 0.05, lateRequest: 0.05, repeatRequest: 0.05 };
    const used = new Set<bigint>();
    const lenders = new Set<Lender>();
    let offset = 0;
    let neighbours = 0;
    let takeovers = 0;
    let threaded = 0;
    let repeated: bigint | undefined;

    const machines = (): Machine[] =>
      [...lenders].flatMap(({ machine, children }) => [machine, ...children.map((c) => c.machine)]);

    function startLender(): void {
      const lender: Lender = { machine: new Machine(world, offset), children: [] };
      lenders.add(lender);
      const host = {
        registry: overNetwork(world, lender.machine, registry, weather),
        clock: lender.machine,
        makeToken,
      };
      Lease.claim(host, { ...options, window: 3000, onLost: random.pick(["stop", "switch"]) }).then(
        (lease) => {
          lender.lease = lease;
          if (lease.fence > 1) takeovers++;
          const ledger = makeLedger(lease);
          lender.emitted = ledger.emitted?.bind(ledger);
          lender.lent = leaseServer(lease, ledger);
        },
        () => lenders.delete(lender),
      );
    }

    function startChild(lender: Lender): void {
      if (lender.lent === undefined) return;
      const machine = new Machine(world, offset);
      const host = { registry: overNetwork(world, machine, lender.lent, calm), clock: machine, makeToken };
      const window = random.pick([400, 1000, 3000]);
      Lease.claim(host, { ...options, borrows: true, window, onLost: random.pick(["stop", "switch"]) }).then(
        async (lease) => {
          const threads = random.pick([0, 0, 1, 3]);
          const blocks = await LeaseClient.open(lease, threads > 0).catch(() => undefined);
          if (blocks === undefined) return lease.orphan();
          if (lender.children.length > 0) neighbours++;
          const ids = new SharedSnowflake(lease, {}, undefined, blocks);
          const joined = Array.from({ length: threads }, () => joinLease(ids.share(), { clock: machine }));
          lender.children.push({ machine, ids, makers: [ids, ...joined], emitted: lender.emitted });
        },
        () => undefined,
      );
    }

    function actAs(lender: Lender): void {
      const dice = random.next();
      const child = lender.children.length > 0 ? random.pick(lender.children) : undefined;
      const forget = (): void => void lender.children.splice(lender.children.indexOf(child as Child), 1);
      if (child === undefined || dice < 0.1) startChild(lender);
      else if (dice < 0.7) emit(child);
      else if (dice < 0.78) {
        child.machine.dead = true;
        forget();
      } else if (dice < 0.86) {
        child.ids.close().catch(() => undefined);
        forget();
      } else if (dice < 0.9) child.machine.stopped = !child.machine.stopped;
      else if (dice < 0.95) lender.lease?.close().catch(() => undefined);
      else {
        // Its children go on: their blocks are theirs until the window ends.
        lender.machine.dead = true;
        lender.lent = undefined;
        if (random.chance(0.5)) lenders.delete(lender);
      }
    }

    function emit({ machine, ids, makers, emitted }: Child): void {
      if (!machine.runs) return;
      const maker = random.pick(makers);
      for (let i = random.between(1, 8); i > 0; i--) {
        try {
          const id = maker.next();
          if (maker !== ids) threaded++;
          if (used.has(id)) repeated ??= id;
          used.add(id);
          emitted?.(id);
        } catch (error) {
          if (!isSnowleaseError(error)) throw error;
          return;
        }
      }
    }

    for (let step = 0; step < 300; step++) {
      const dice = random.next();
      if (dice < 0.4 && world.deliver()) await settled();
      else if (dice < 0.85) {
        const present = [...lenders].filter(({ lease }) => lease === undefined || lease.state === "held");
        if (present.length < 2) startLender();
        else actAs(random.pick([...lenders]));
      } else if (dice < 0.97) world.advance(random.chance(0.4) ? (world.nextWake() ?? 100) : random.between(1, 200));
      else {
        offset = random.pick([-4000, -2500, -1000, 0, 0, 1000, 2500]);
        for (const machine of machines()) machine.offset = offset;
      }
      await settled();
    }
    for (const machine of machines()) machine.dead = true;
    return { ids: used.size, neighbours, takeovers, threaded, repeated };
  }

  async function settled(): Promise<void> {
    for (let turn = 0; turn < 12; turn++) await Promise.resolve();
  }

  // In portions: a busy machine needs many times as long.
  const some = 200;

  test.each(Array.from({ length: 10 }, (_, i) => 1 + i * some))(
    `no ID is made twice in ${some} histories from %i on`,
    { timeout: 120_000 },
    async (first) => {
      const total = { ids: 0, neighbours: 0, takeovers: 0, threaded: 0 };
      for (let seed = first; seed < first + some; seed++) {
        const { ids, neighbours, takeovers, threaded, repeated } = await play(seed);
        expect(repeated, `seed ${seed}`).toBeUndefined();
        total.ids += ids;
        total.neighbours += neighbours;
        total.takeovers += takeovers;
        total.threaded += threaded;
        await nextTurn();
      }
      // Histories without conflicts find nothing.
      expect(total.ids).toBeGreaterThan(500);
      expect(total.neighbours).toBeGreaterThan(100);
      expect(total.takeovers).toBeGreaterThan(20);
      expect(total.threaded).toBeGreaterThan(100);
    },
  );

  /** Counts as used the IDs that its children have made, but not the IDs that they may still make of their blocks. */
  class EmittedOnly extends SharedUsageTracker {
    readonly #lease: Lease;
    #until = 0;

    constructor(lease: Lease) {
      super(lease, true);
      this.#lease = lease;
    }

    emitted(id: bigint): void {
      this.#until = Math.max(this.#until, layout.decompose(id).timestamp + layout.tick);
    }

    override checkpoint(): undefined {
      return undefined;
    }

    override seal(): Usage | undefined {
      const { from } = this.#lease;
      super.seal();
      return { until: Math.max(from, Math.min(this.#until, this.#lease.until)) };
    }
  }

  test("a lender that counts only emitted IDs is found out", { timeout: 120_000 }, async () => {
    let seed = 1;
    while ((await play(seed, (lease) => new EmittedOnly(lease))).repeated === undefined) {
      if (++seed > 3000) throw new Error("It was not found out.");
      await nextTurn();
    }
  });
});
