import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { defaultLayout, type IdParts } from "../../src/id/layout.ts";
import { listRecents } from "../../src/generator/recent-ticks.ts";
import type { Registry, WorkerRecord } from "../../src/rule/registry.ts";
import { clocksMissing, eventually, HolderError, HolderProcess, WallClock, type HolderState } from "./holder.ts";
import { type ServerSource, shareServer } from "./store-server.ts";
import { namespace as usual, type Subject } from "./subject.ts";

const layout = defaultLayout;

/** A test that sets clocks. */
function withClock(title: string, run: () => Promise<void>): void {
  test(title, async ({ skip }) => {
    if (clocksMissing !== undefined) skip(clocksMissing);
    await run();
  });
}

/** Special properties of a store. */
interface RestartOptions {
  /** The environment of the holders. */
  readonly environment?: Readonly<Record<string, string>>;
  /** Whether a first claim makes its namespace. */
  readonly makesNamespaces?: boolean;
}

/** The same on a server that `findServer` has found, each test in a namespace of its own. */
export function restartMatrixOn(
  name: string,
  source: ServerSource,
  open: (url: string) => Promise<Registry>,
  { environment = {}, makesNamespaces = false }: RestartOptions = {},
): void {
  describe.skipIf(source.isMissing)(source.title, () => {
    const server = shareServer(source, open);
    restartMatrix(name, async () => {
      const url = server.url();
      const registry = await open(url);
      const namespace = server.newNamespace();
      if (!makesNamespaces) await registry.init({ new: true, namespace, layout: layout.fingerprint });
      return { url, namespace, registry, environment, stop: () => registry.close() };
    });
  });
}

/**
 * Restart safety, the same for every registry. Processes are really killed and stopped, and their wall clocks are set back. Every ID that
 * any of them made is compared with every other, and the persisted state of the registry is compared with the IDs.
 */
export function restartMatrix(name: string, start: () => Promise<Subject>): void {
  describe(`restarts on ${name}`, () => {
    let subject: Subject;
    let namespace: string;
    let holders: HolderProcess[];

    beforeEach(async () => {
      holders = [];
      subject = await start();
      namespace = subject.namespace ?? usual;
    });

    afterEach(async () => {
      await Promise.all(holders.map((holder) => holder.kill()));
      await subject.stop();
    });

    function holder(options: object = {}, clock?: WallClock): HolderProcess {
      const environment = { ...subject.environment, ...clock?.environment };
      const made = new HolderProcess({ registry: subject.url, namespace, window: 2000, ...options }, { environment });
      holders.push(made);
      return made;
    }

    function parts(ids: readonly bigint[]): IdParts[] {
      return ids.map((id) => layout.decompose(id));
    }

    /** Compares all IDs of all holders with each other. Returns their number. */
    function expectDistinct(): number {
      const all = holders.flatMap((made) => made.ids());
      expect(new Set(all).size).toBe(all.length);
      return all.length;
    }

    /** A holder that is ready to start. Its clock is now 5 s behind the time that the registry last saw from the earlier holder. */
    async function setBackFor(options: object, clock: WallClock, stored: WorkerRecord): Promise<HolderProcess> {
      const made = holder(options, clock);
      await made.ask("ready");
      clock.set((stored.seenClock - 5000 - Date.now()) / 1000);
      return made;
    }

    /** Stops a holder between two renewals. A holder that is stopped within one would keep an embedded registry locked for all others. */
    async function stop(running: HolderProcess): Promise<void> {
      await running.ask("renew");
      running.signal("SIGSTOP");
    }

    async function record(workerId: number): Promise<WorkerRecord> {
      const found = await subject.registry.worker(namespace, workerId);
      if (found === undefined) throw new Error(`Worker ${workerId} has no record.`);
      return found;
    }

    /** Checks, after a clean end, that the last timestamp, the highest sequence in it and the recents are those of the made IDs. */
    async function expectPersisted(state: HolderState, ids: readonly bigint[]): Promise<void> {
      const stored = await record(state.workerId);
      expect(stored).toMatchObject({ state: "free", clean: true });
      if (stored.recents === undefined) throw new Error("No recents were stored.");
      const listed = new Map(listRecents(layout, stored.recents));
      const made = new Map<number, number>();
      for (const { timestamp, workerId, sequence } of parts(ids)) {
        if (workerId !== state.workerId || timestamp < stored.recents.from) continue;
        const tick = layout.tickOf(timestamp);
        made.set(tick, Math.max(made.get(tick) ?? 0, sequence));
      }
      // No other process ever used this worker ID, so the recents of all its holders are exactly what they made.
      expect(listed).toEqual(made);
      const highest = Math.max(-1, ...made.keys());
      if (highest < 0) return;
      expect(stored.until).toBe(Math.max(stored.from, layout.timeOf(highest + 1)));
      expect(stored.checkpoint).toEqual({ timestamp: layout.timeOf(highest), sequence: made.get(highest) });
    }

    const picked = { label: "a worker ID of the registry's choice", options: {} };
    const fixed = { label: "a fixed worker ID", options: { properties: { "snowlease.workerId": 7 } } };

    for (const { label, options } of [picked, fixed]) {
      for (const life of [1, 2500]) {
        withClock(
          `${label}: stopped gracefully after ${life} IDs, started with the clock further back each time`,
          async () => {
            const clock = new WallClock();
            const states: HolderState[] = [];
            for (const offset of [0, -4, -6, -8]) {
              clock.set(offset);
              const one = holder(options, clock);
              const begun = await one.ask("start");
              const made = await one.ask("make", { count: life });
              // The holder does not wait and is not refused. It continues after the recents, or on another worker ID.
              expect(made.error).toBeUndefined();
              expect(one.ids()).toHaveLength(life);
              states.push(begun);
              await one.ask("close");
              await expectPersisted(
                begun,
                holders.flatMap((each) => each.ids()),
              );
            }
            expect(expectDistinct()).toBe(4 * life);
            // The clock was still inside the recents of the first holder, so no holder had to leave the worker ID.
            expect(new Set(states.map(({ workerId }) => workerId)).size).toBe(1);
            expect(states.map(({ fence }) => fence)).toEqual([1, 2, 3, 4]);
          },
        );
      }

      withClock(`${label}: nothing made at all between stops, the clock further back each time`, async () => {
        const clock = new WallClock();
        const first = holder(options, clock);
        await first.ask("start");
        await first.ask("make", { count: 1000 });
        await first.ask("close");
        for (const offset of [-3, -5, -7]) {
          clock.set(offset);
          const idle = holder(options, clock);
          await idle.ask("start");
          await idle.ask("close");
        }
        const last = holder(options, clock);
        const begun = await last.ask("start");
        expect((await last.ask("make", { count: 1000 })).error).toBeUndefined();
        await last.ask("close");
        expect(expectDistinct()).toBe(2000);
        await expectPersisted(
          begun,
          holders.flatMap((each) => each.ids()),
        );
      });

      withClock(`${label}: lives of 5 ms, one after the other, the clock going back and forth`, async () => {
        const clock = new WallClock();
        let last: HolderState | undefined;
        for (const offset of [0, -5, -5, -2, -7, 0, -1, -8]) {
          clock.set(offset);
          const one = holder(options, clock);
          last = await one.ask("live", { ms: 5 });
          expect(one.ids().length).toBeGreaterThan(0);
          await one.kill();
        }
        if (last === undefined) throw new Error("Nobody lived.");
        expectDistinct();
        await expectPersisted(
          last,
          holders.flatMap((each) => each.ids()),
        );
      });
    }

    withClock("killed with -9, started with the clock 5 s back: another worker ID at once", async () => {
      const clock = new WallClock();
      const first = holder({}, clock);
      const begun = await first.ask("start");
      await first.ask("run");
      await sleep(1500);
      await first.kill();
      const stored = await record(begun.workerId);
      // The registry persisted the window before the holder used it, so all IDs lie in it. The checkpoint came with a renewal.
      const last = parts(first.ids()).at(-1);
      expect(last?.timestamp).toBeGreaterThanOrEqual(stored.checkpoint?.timestamp ?? Infinity);
      expect(last?.timestamp).toBeLessThan(stored.until);

      const second = await setBackFor({}, clock, stored);
      const next = await second.ask("start");
      expect(next.workerId).not.toBe(begun.workerId);
      expect(next.events[0]?.rollback).toBeGreaterThan(0);
      expect((await second.ask("make", { count: 3000 })).error).toBeUndefined();
      await second.ask("close");
      await expectPersisted(next, second.ids());
      expectDistinct();
      expect(await record(begun.workerId)).toMatchObject({ until: stored.until, clean: false, fence: stored.fence });
    });

    withClock(
      "killed with -9, started with the clock 40 s back: another worker ID at once, or CLOCK_SKEW where the registry has a clock of its own",
      async () => {
        const clock = new WallClock();
        const first = holder({}, clock);
        const begun = await first.ask("start");
        await first.ask("make", { count: 1000 });
        await first.kill();
        clock.set(-40);
        const second = holder({}, clock);
        if (!subject.url.startsWith("sqlite:")) {
          await expect(second.ask("start")).rejects.toMatchObject({ code: "CLOCK_SKEW" });
          return;
        }
        const next = await second.ask("start");
        expect(next.workerId).not.toBe(begun.workerId);
        await second.ask("make", { count: 1000 });
        await second.ask("close");
        expectDistinct();
      },
    );

    withClock(
      "killed with -9, a fixed worker ID, started with the clock 5 s back: told how long, then free",
      async () => {
        const clock = new WallClock();
        const first = holder(fixed.options, clock);
        await first.ask("start");
        await first.ask("run");
        await sleep(300);
        await first.kill();
        const stored = await record(7);

        const second = await setBackFor(fixed.options, clock, stored);
        const refusal = await second.ask("start").then(
          () => undefined,
          (error: unknown) => error,
        );
        if (!(refusal instanceof HolderError)) throw new Error("It was not refused.");
        expect(refusal.code).toBe("CLOCK_ROLLBACK");
        const behind = refusal.details.behindMs ?? 0;
        expect(behind).toBeGreaterThan(0);
        expect(behind).toBeLessThanOrEqual(5000);
        // The rest of the window, and the time by which the clock is behind, minus the time that the answer took.
        expect(refusal.details.refusal).toMatchObject({ workerId: 7, freeAt: stored.until });
        expect(refusal.details.retryAfterMs).toBeGreaterThan(0);
        expect(refusal.details.retryAfterMs).toBeLessThanOrEqual(behind + stored.until - stored.seenClock);
        const kept = await record(7);
        const { state, marked } = kept;
        expect(kept).toEqual({ ...stored, state, ...(marked !== undefined && { marked }) });

        clock.set(0);
        const third = holder(fixed.options, clock);
        await third.ask("start");
        await third.ask("make", { count: 3000 });
        await third.ask("close");
        expectDistinct();
        expect(await record(7)).toMatchObject({ clean: true, fence: stored.fence + 1 });
      },
    );

    test("stopped past its window while another takes the worker ID: the woken one makes nothing more on it", async () => {
      const options = { ...fixed.options, window: 1000, onLost: "stop" };
      const first = holder(options);
      const begun = await first.ask("start");
      await first.ask("run");
      await sleep(500);
      await stop(first);
      const before = (await record(7)).until;
      const second = holder({ ...options, claimTimeout: 5000 });
      const next = await second.ask("start");
      expect(next.fence).toBe(begun.fence + 1);
      expect(next.from).toBeGreaterThanOrEqual(before);
      await second.ask("run");
      await sleep(300);
      first.signal("SIGCONT");
      const woken = await eventually(
        () => first.ask("state"),
        ({ state }) => state !== "held",
      );
      expect(woken.state).toBe("lost");
      expect(woken.events.find(({ name: event }) => event === "lost")?.code).toBe("LEASE_LOST");
      await second.ask("close");
      expect(expectDistinct()).toBeGreaterThan(0);
      expect(Math.max(...parts(first.ids()).map(({ timestamp }) => timestamp))).toBeLessThan(next.from);
      const history = await subject.registry.history(namespace, 7);
      expect(history.map(({ fence, end }) => ({ fence, end }))).toEqual([
        { fence: 1, end: "taken-over" },
        { fence: 2, end: "released" },
      ]);
      expect(history[1]?.from).toBeGreaterThanOrEqual(history[0]?.until ?? Infinity);
    });

    test("stopped past its window with a worker ID of the registry's choice: the woken one goes on with another", async () => {
      const first = holder({ window: 1000, pool: "0-1" });
      const begun = await first.ask("start");
      await first.ask("run");
      await sleep(300);
      await stop(first);
      // These holders take both worker IDs of the pool, so one of them has the worker ID of the stopped holder.
      const others = [1, 2].map(() => holder({ window: 1000, pool: "0-1", claimTimeout: 5000 }));
      const taken: number[] = [];
      for (const other of others) taken.push((await other.ask("start")).workerId);
      expect(taken).toContain(begun.workerId);
      for (const other of others) await other.ask("run");
      await sleep(200);
      for (const other of others.filter((_, i) => taken[i] !== begun.workerId)) await other.ask("close");
      first.signal("SIGCONT");
      await eventually(
        () => first.ask("state"),
        ({ workerId }) => workerId !== begun.workerId,
      );
      const woken = await first.ask("make", { count: 100 });
      expect(woken.error).toBeUndefined();
      expect(woken.workerId).not.toBe(begun.workerId);
      expect(woken.events.map(({ name: event }) => event)).toContain("switched");
      for (const each of holders) await each.ask("close").catch(() => undefined);
      expectDistinct();
    });

    withClock("the clock jumps 1 h ahead and back: nothing of the future is leased, and IDs go on", async () => {
      const clock = new WallClock();
      const one = holder({ window: 1500 }, clock);
      const begun = await one.ask("start");
      await one.ask("run");
      await sleep(300);
      clock.set(3600);
      const ahead = await eventually(
        () => one.ask("state"),
        ({ events, failures }) =>
          failures["LEASE_EXPIRED"] !== undefined && events.some(({ name: event }) => event === "renew-failed"),
      );
      expect(ahead.events.find(({ name: event }) => event === "renew-failed")?.code).toBe("CLOCK_SKEW");
      const stored = await record(begun.workerId);
      expect(stored.until).toBeLessThan(Date.now() + 60_000);

      // A new holder with that clock is refused, too.
      const stranger = holder({}, clock);
      await expect(stranger.ask("start")).rejects.toMatchObject({ code: "CLOCK_SKEW" });

      clock.set(0);
      const back = await eventually(
        () => one.ask("state"),
        ({ events }) => events.filter(({ name: event }) => event === "clock.jump").length >= 2,
      );
      expect(back.state).toBe("held");
      expect(await one.ask("renew")).toMatchObject({ state: "held" });
      const made = await one.ask("make", { count: 100 });
      expect(made.error).toBeUndefined();
      await one.ask("close");
      expectDistinct();
      for (const { timestamp } of parts(one.ids())) expect(timestamp).toBeLessThan(Date.now() + 10_000);
      // After a step ahead, the holder cannot know whether it is a copy of a process that went on. So its window stays closed.
      const ended = await record(made.workerId);
      expect(ended.clean).toBe(false);
      expect(ended.until).toBeGreaterThanOrEqual(made.until);
    });

    withClock(
      "the clock goes back while it runs: it continues within the memory, and tells or switches beyond",
      async () => {
        const clock = new WallClock();
        const one = holder({ window: 5000 }, clock);
        await one.ask("start");
        await one.ask("run");
        for (const offset of [-1, -4, -2, -8]) {
          await sleep(250);
          clock.set(offset);
        }
        // The holder compares its clocks from time to time. It must see this setback before the test undoes it.
        await eventually(
          () => one.ask("state"),
          ({ events }) => events.reduce((sum, { name, by = 0 }) => (name === "clock.jump" ? sum + by : sum), 0) < -7000,
        );
        clock.set(0);
        await sleep(250);
        const state = await one.ask("pause");
        const actions = state.events
          .filter(({ name: event }) => event === "clock.rollback")
          .map(({ action }) => action);
        expect(actions).toContain("continue");
        expect(actions).not.toContain("switch");
        expect(state.failures).not.toHaveProperty("LEASE_LOST");
        await one.ask("close");
        expect(expectDistinct()).toBeGreaterThan(1000);
        // After a step ahead, the holder cannot know whether it is a copy of a process that went on. So its window stays closed.
        const ended = await record(state.workerId);
        expect(ended.clean).toBe(false);
        expect(ended.until).toBeGreaterThanOrEqual(state.until);
      },
    );

    test("crash and restart, again and again: the same few worker IDs serve for ever", async () => {
      const used = new Set<number>();
      for (let round = 0; round < 6; round++) {
        const one = holder({ window: 300 });
        used.add((await one.ask("start")).workerId);
        // If its window is over before the answer to the claim comes, the holder continues with a renewal.
        await one.ask("run");
        await eventually(
          () => Promise.resolve(one.ids().length),
          (made) => made >= 200,
        );
        await one.kill();
        await sleep(350);
      }
      expect(used.size).toBe(1);
      expect(expectDistinct()).toBeGreaterThanOrEqual(1200);
    });
  });
}
