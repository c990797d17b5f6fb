import { setTimeout as sleep } from "node:timers/promises";
import { ensure, equal } from "../conformance/assert.ts";
import { listRecents } from "../generator/recent-ticks.ts";
import { defaultLayout, type IdParts } from "../id/layout.ts";
import type { WorkerRecord } from "../rule/registry.ts";
import { HolderError } from "./holder-process.ts";
import type { HolderState } from "./holder-protocol.ts";
import { eventually, RestartTrial } from "./restart-trial.ts";
import type { ProofNeed, ProofSubject } from "./subject.ts";

/*
 * Restart safety as data, the same for every registry: real processes, killed and stopped for real, with a wall clock that is set back.
 * Every ID that any of them made is compared with every other, and what the registry stored with what was made.
 */

/** One case of the restart matrix. */
export interface RestartCase {
  /** What happens, and what has to come of it; unique. */
  readonly title: string;
  readonly needs: readonly ProofNeed[];
  /** Rejects with an Error that says what was expected and what was seen instead. */
  run(subject: ProofSubject): Promise<void>;
}

function restart(
  title: string,
  needs: readonly ProofNeed[],
  body: (trial: RestartTrial) => Promise<void>,
): RestartCase {
  return {
    title,
    needs,
    async run(subject) {
      const trial = new RestartTrial(subject);
      try {
        await body(trial);
      } finally {
        await trial.end();
      }
    },
  };
}

const layout = defaultLayout;
/** Milliseconds ahead of the store's clock that no window of these cases reaches. */
const farAhead = 60_000;

function parts(ids: readonly bigint[]): IdParts[] {
  return ids.map((id) => layout.decompose(id));
}

/** After a clean end: the last timestamp, the highest sequence in it and the recents are those of the IDs that were made. */
async function storedAsMade(trial: RestartTrial, { workerId }: HolderState, ids: readonly bigint[]): Promise<void> {
  const stored = await trial.record(workerId);
  equal([stored.state, stored.clean], ["free", true], `the state of worker ${workerId}, and whether it was given back`);
  const { recents } = stored;
  ensure(recents !== undefined, "recents to be stored", stored);
  const made = new Map<number, number>();
  for (const each of parts(ids)) {
    if (each.workerId !== workerId || each.timestamp < recents.from) continue;
    const tick = layout.tickOf(each.timestamp);
    made.set(tick, Math.max(made.get(tick) ?? 0, each.sequence));
  }
  // Nothing else ever used this worker ID, so the memory of all its holders is exactly what they made.
  const sorted = (ticks: Iterable<readonly [number, number]>) => [...ticks].toSorted(([a], [b]) => a - b);
  equal(sorted(listRecents(layout, recents)), sorted(made), "the recents, as ticks with their highest sequences");
  const highest = Math.max(-1, ...made.keys());
  if (highest < 0) return;
  equal(stored.until, Math.max(stored.from, layout.timeOf(highest + 1)), "the end of the window");
  equal(stored.checkpoint, { timestamp: layout.timeOf(highest), sequence: made.get(highest) }, "the checkpoint");
}

/** What a request that has to be refused is refused with. */
async function refusalOf(asked: Promise<unknown>, what: string): Promise<HolderError> {
  const error = await asked.then(
    () => undefined,
    (error: unknown) => error,
  );
  ensure(error instanceof HolderError, `${what} to be refused`, error);
  return error;
}

const picked = { label: "a worker ID of the registry's choice", options: {} };
const fixed = { label: "a fixed worker ID", options: { properties: { "snowlease.workerId": 7 } } };

const givenBack = [picked, fixed].flatMap(({ label, options }): RestartCase[] => [
  ...[1, 2500].map((life) =>
    restart(
      `${label}: stopped gracefully after ${life} IDs, started with the clock further back each time`,
      [],
      async (trial) => {
        const clock = trial.clock();
        const states: HolderState[] = [];
        for (const offset of [0, -4, -6, -8]) {
          clock.set(offset);
          const one = trial.holder(options, clock);
          const begun = await one.ask("start");
          const made = await one.ask("make", { count: life });
          // No wait and no refusal: it goes on behind what is remembered, or on another worker ID.
          equal(made.error, undefined, "the refusal of an ID");
          equal(one.ids().length, life, "the number of IDs");
          states.push(begun);
          await one.ask("close");
          await storedAsMade(trial, begun, trial.allIds());
        }
        equal(trial.distinct(), 4 * life, "the number of all IDs");
        // The clock was still inside the memory of the first one: none had to leave the worker ID.
        equal(new Set(states.map(({ workerId }) => workerId)).size, 1, "the number of worker IDs");
        const fences = states.map(({ fence }) => fence - (states[0]?.fence ?? 0));
        equal(fences, [0, 1, 2, 3], "how the fences rise");
      },
    ),
  ),

  restart(`${label}: nothing made at all between stops, the clock further back each time`, [], async (trial) => {
    const clock = trial.clock();
    const first = trial.holder(options, clock);
    await first.ask("start");
    await first.ask("make", { count: 1000 });
    await first.ask("close");
    for (const offset of [-3, -5, -7]) {
      clock.set(offset);
      const idle = trial.holder(options, clock);
      await idle.ask("start");
      await idle.ask("close");
    }
    const last = trial.holder(options, clock);
    const begun = await last.ask("start");
    equal((await last.ask("make", { count: 1000 })).error, undefined, "the refusal of an ID");
    await last.ask("close");
    equal(trial.distinct(), 2000, "the number of all IDs");
    await storedAsMade(trial, begun, trial.allIds());
  }),

  restart(`${label}: lives of 5 ms, one after the other, the clock going back and forth`, [], async (trial) => {
    const clock = trial.clock();
    let last: HolderState | undefined;
    for (const offset of [0, -5, -5, -2, -7, 0, -1, -8]) {
      clock.set(offset);
      const one = trial.holder(options, clock);
      last = await one.ask("live", { ms: 5 });
      ensure(one.ids().length > 0, "some IDs", one.ids());
      await one.kill();
    }
    trial.distinct();
    if (last !== undefined) await storedAsMade(trial, last, trial.allIds());
  }),
]);

/** The restart matrix. Runs in any test runner, or without one. */
export const restarts: readonly RestartCase[] = [
  ...givenBack,

  restart("killed with -9, started with the clock 5 s back: another worker ID at once", [], async (trial) => {
    const clock = trial.clock();
    const first = trial.holder({}, clock);
    const begun = await first.ask("start");
    await first.ask("run");
    await sleep(1500);
    await first.kill();
    const stored = await trial.record(begun.workerId);
    // The window was stored before it was used: whatever was made lies in it. The checkpoint came with a renewal.
    const last = parts(first.ids()).at(-1)?.timestamp ?? -1;
    const { checkpoint, until } = stored;
    ensure(last >= (checkpoint?.timestamp ?? Infinity) && last < until, `the last ID to be before ${until}`, [
      last,
      checkpoint,
    ]);

    const second = await trial.setBack({}, clock, stored);
    const next = await second.ask("start");
    ensure(next.workerId !== begun.workerId, `another worker ID than ${begun.workerId}`, next.workerId);
    ensure((next.events[0]?.rollback ?? 0) > 0, "a rollback to be told", next.events);
    equal((await second.ask("make", { count: 3000 })).error, undefined, "the refusal of an ID");
    await second.ask("close");
    await storedAsMade(trial, next, second.ids());
    trial.distinct();
    const kept = await trial.record(begun.workerId);
    equal(
      [kept.until, kept.clean, kept.fence],
      [until, false, stored.fence],
      "until, clean and fence of the first one",
    );
  }),

  restart(
    "killed with -9, started with the clock 40 s back: another worker ID at once, or CLOCK_SKEW where the registry has a clock of its own",
    [],
    async (trial) => {
      const clock = trial.clock();
      const first = trial.holder({}, clock);
      const begun = await first.ask("start");
      await first.ask("make", { count: 1000 });
      await first.kill();
      clock.set(-40);
      const second = trial.holder({}, clock);
      if (!trial.usesHostClock) {
        const { code } = await refusalOf(second.ask("start"), "a claim by a clock that is 40 s behind");
        equal(code, "CLOCK_SKEW", "the refusal");
        return;
      }
      const next = await second.ask("start");
      ensure(next.workerId !== begun.workerId, `another worker ID than ${begun.workerId}`, next.workerId);
      await second.ask("make", { count: 1000 });
      await second.ask("close");
      trial.distinct();
    },
  ),

  restart(
    "killed with -9, a fixed worker ID, started with the clock 5 s back: told how long, then free",
    [],
    async (trial) => {
      const clock = trial.clock();
      const first = trial.holder(fixed.options, clock);
      await first.ask("start");
      await first.ask("run");
      await sleep(300);
      await first.kill();
      const stored = await trial.record(7);

      const second = await trial.setBack(fixed.options, clock, stored);
      const { code, details } = await refusalOf(second.ask("start"), "a claim of a worker ID that was used later");
      equal(code, "CLOCK_ROLLBACK", "the refusal");
      const { behindMs: behind = 0, retryAfterMs: wait = 0 } = details;
      ensure(behind > 0 && behind <= 5000, "the clock to be up to 5 s behind", behind);
      // The window that has yet to pass, on top of the time that the clock has to make up, less what the answer took.
      const refusal = details.refusal;
      equal([refusal?.workerId, refusal?.freeAt], [7, stored.until], "which worker ID comes free, and when");
      ensure(wait > 0 && wait <= behind + stored.until - stored.seenClock, "the wait to be the rest of both", wait);
      const { state: _, marked: __, ...kept } = await trial.record(7);
      const { state: ___, marked: ____, ...before } = stored;
      equal(kept, before, "the record after the refusal");

      clock.set(0);
      const third = trial.holder(fixed.options, clock);
      await third.ask("start");
      await third.ask("make", { count: 3000 });
      await third.ask("close");
      trial.distinct();
      const ended = await trial.record(7);
      equal([ended.clean, ended.fence], [true, stored.fence + 1], "whether it was given back, and its fence");
    },
  ),

  restart(
    "stopped past its window while another takes the worker ID: the woken one makes nothing more on it",
    [],
    async (trial) => {
      const options = { ...fixed.options, window: 1000, onLost: "stop" };
      const first = trial.holder(options);
      const begun = await first.ask("start");
      await first.ask("run");
      await sleep(500);
      await trial.stop(first);
      const before = (await trial.record(7)).until;
      const second = trial.holder({ ...options, claimTimeout: 5000 });
      const next = await second.ask("start");
      equal(next.fence, begun.fence + 1, "the fence");
      ensure(next.from >= before, `a window that begins at ${before} or later`, next.from);
      await second.ask("run");
      await sleep(300);
      first.signal("SIGCONT");
      const woken = await eventually(
        () => first.ask("state"),
        ({ state }) => state !== "held",
      );
      equal(woken.state, "lost", "the state of the woken one");
      equal(woken.events.find(({ name }) => name === "lost")?.code, "LEASE_LOST", "what it is told");
      await second.ask("close");
      ensure(trial.distinct() > 0, "some IDs", 0);
      const last = Math.max(...parts(first.ids()).map(({ timestamp }) => timestamp));
      ensure(last < next.from, `its last ID to be before ${next.from}`, last);
      const history = await trial.history(7);
      const ends = history.map(({ fence, end }) => [fence - begun.fence, end]);
      equal(
        ends,
        [
          [0, "taken-over"],
          [1, "released"],
        ],
        "how its claims ended",
      );
      const [one, two] = history;
      ensure((two?.from ?? 0) >= (one?.until ?? Infinity), "windows that do not overlap", history);
    },
  ),

  restart(
    "stopped past its window with a worker ID of the registry's choice: the woken one goes on with another",
    [],
    async (trial) => {
      const first = trial.holder({ window: 1000, pool: "0-1" });
      const begun = await first.ask("start");
      await first.ask("run");
      await sleep(300);
      await trial.stop(first);
      // Both numbers of the pool: the stopped one's must be among them.
      const others = [1, 2].map(() => trial.holder({ window: 1000, pool: "0-1", claimTimeout: 5000 }));
      const taken: number[] = [];
      for (const other of others) taken.push((await other.ask("start")).workerId);
      ensure(taken.includes(begun.workerId), `worker ${begun.workerId} to be among those taken`, taken);
      for (const other of others) await other.ask("run");
      await sleep(200);
      for (const other of others.filter((_, i) => taken[i] !== begun.workerId)) await other.ask("close");
      first.signal("SIGCONT");
      await eventually(
        () => first.ask("state"),
        ({ workerId }) => workerId !== begun.workerId,
      );
      const woken = await first.ask("make", { count: 100 });
      equal(woken.error, undefined, "the refusal of an ID");
      ensure(woken.workerId !== begun.workerId, `another worker ID than ${begun.workerId}`, woken.workerId);
      ensure(
        woken.events.some(({ name }) => name === "switched"),
        "a switch to be told",
        woken.events,
      );
      await trial.closeAll();
      trial.distinct();
    },
  ),

  restart(
    "the clock jumps 1 h ahead and back: nothing of the future is leased, and IDs go on",
    ["clock"],
    async (trial) => {
      const clock = trial.clock();
      const one = trial.holder({ window: 1500 }, clock);
      const begun = await one.ask("start");
      await one.ask("run");
      await sleep(300);
      clock.set(3600);
      const ahead = await eventually(
        () => one.ask("state"),
        ({ events, failures }) =>
          failures["LEASE_EXPIRED"] !== undefined && events.some(({ name }) => name === "renew-failed"),
      );
      equal(ahead.events.find(({ name }) => name === "renew-failed")?.code, "CLOCK_SKEW", "the refusal of a renewal");
      const { until } = await trial.record(begun.workerId);
      ensure(until < Date.now() + farAhead, "a window of the present", until);
      // Nor can a newcomer claim with that clock.
      const { code } = await refusalOf(trial.holder({}, clock).ask("start"), "a claim by a clock that is 1 h ahead");
      equal(code, "CLOCK_SKEW", "the refusal");

      clock.set(0);
      const back = await eventually(
        () => one.ask("state"),
        ({ events }) => events.filter(({ name }) => name === "clock.jump").length >= 2,
      );
      equal(back.state, "held", "its state");
      equal((await one.ask("renew")).state, "held", "its state after a renewal");
      const made = await one.ask("make", { count: 100 });
      equal(made.error, undefined, "the refusal of an ID");
      await one.ask("close");
      trial.distinct();
      const latest = Math.max(...parts(one.ids()).map(({ timestamp }) => timestamp));
      ensure(latest < Date.now() + 10_000, "no ID of the future", latest);
      // After a step ahead it cannot know whether it is a copy of a process that went on: its window stays closed.
      const ended = await trial.record(made.workerId);
      ensure(!ended.clean && ended.until >= made.until, `a window that stays closed until ${made.until}`, ended);
    },
  ),

  restart(
    "the clock goes back while it runs: it continues within the memory, and tells or switches beyond",
    [],
    async (trial) => {
      const clock = trial.clock();
      const one = trial.holder({ window: 5000 }, clock);
      await one.ask("start");
      await one.ask("run");
      for (const offset of [-1, -4, -2, -8, 0]) {
        await sleep(250);
        clock.set(offset);
      }
      await sleep(250);
      const state = await one.ask("pause");
      const actions = state.events.filter(({ name }) => name === "clock.rollback").map(({ action }) => action);
      ensure(
        actions.includes("continue") && !actions.includes("switch"),
        "rollbacks that it continues through",
        actions,
      );
      equal(state.failures["LEASE_LOST"], undefined, "how often it lost the lease");
      await one.ask("close");
      ensure(trial.distinct() > 1000, "more than 1000 IDs", trial.allIds().length);
      // After a step ahead it cannot know whether it is a copy of a process that went on: its window stays closed.
      const ended = await trial.record(state.workerId);
      ensure(!ended.clean && ended.until >= state.until, `a window that stays closed until ${state.until}`, ended);
    },
  ),

  restart("crash and restart, again and again: the same few worker IDs serve for ever", [], async (trial) => {
    const used = new Set<number>();
    for (let round = 0; round < 6; round++) {
      const one = trial.holder({ window: 300 });
      used.add((await one.ask("start")).workerId);
      // Where its window is over before the claim is answered, it goes on with a renewal.
      await one.ask("run");
      await eventually(
        () => Promise.resolve(one.ids().length),
        (made) => made >= 200,
      );
      await one.kill();
      await sleep(350);
    }
    equal(used.size, 1, "the number of worker IDs");
    ensure(trial.distinct() >= 1200, "at least 1200 IDs", trial.allIds().length);
  }),

  restart(
    "the server killed with -9 and started again while services make IDs: they go on, and what they hold stays theirs",
    ["restart"],
    async (trial) => {
      const services = [1, 2, 3].map(() => trial.holder({ window: 3000 }));
      for (const service of services) await service.ask("start");
      for (const service of services) await service.ask("run");
      await sleep(400);
      await trial.restart();
      // No window that was stored before ends as late.
      const renewed = Date.now() + 3000;
      const held: HolderState[] = [];
      for (const service of services) {
        held.push(
          await eventually(
            () => service.ask("state"),
            ({ until }) => until > renewed,
          ),
        );
      }
      const late = await trial.holder().ask("start");
      const taken = held.map(({ workerId }) => workerId);
      ensure(!taken.includes(late.workerId), `none of the worker IDs ${taken.join()}`, late.workerId);
      await trial.closeAll();
      trial.distinct();
      for (const { workerId, fence } of held) {
        const { fence: stored, state }: WorkerRecord = await trial.record(workerId);
        equal([stored, state], [fence, "free"], `fence and state of worker ${workerId}`);
      }
    },
  ),
];
