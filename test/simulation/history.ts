import { memoryRegistry } from "../../src/registries/memory/registry.ts";
import { recalling } from "../../src/registries/recall.ts";
import { isSnowleaseError } from "../../src/id/errors.ts";
import type { DropRequest, Registry } from "../../src/rule/registry.ts";
import { aftermath } from "./aftermath.ts";
import { CallRecord } from "./calls.ts";
import { type Event, Tally } from "./events.ts";
import { Fleet } from "./fleet.ts";
import { Judge } from "./judge.ts";
import { drawn, type Scenario } from "./scenario.ts";
import { type Leasing, Store } from "./store.ts";
import type { Variant } from "./variant.ts";
import { Machine, World } from "./world.ts";

/** The result of one simulated history. */
export interface Outcome {
  readonly seed: number;
  readonly counts: Readonly<Record<Event, number>>;
  /** Violations, in words. */
  readonly violation: string | undefined;
}

/** Servers that replace each other have clocks within maxClockSkew of each other: the quarantine relies on that. */
const serversApart = 4000;

/** Clock steps, ms; the first ones are more than a lease can bridge. */
const clockSteps = [
  -60_000, -30_000, -20_000, -15_000, -5000, -3000, -1500, -1500, -700, -700, 700, 1500, 5000, 15_000,
];

/**
 * Plays one history to its end, and the aftermath: every choice in it comes from the seed.
 * @param sought the violations that end it.
 */
export async function play(seed: number, variant: Variant = {}, sought: RegExp = /./): Promise<Outcome> {
  const world = new World(seed);
  const { random } = world;
  const tally = new Tally();
  const scenario = drawn(random, variant.traits);
  const { layout, forgets, unsteady } = scenario;
  const server = new Machine(world, random.between(-3000, 3000));
  const judge = new Judge(layout, tally, sought);
  const forgetful = forgets ? new Store(server, random, tally, judge.accuse, scenario.lags, variant.rules) : undefined;
  const watched = judge.watch(forgetful ?? memoryRegistry({ clock: server }));
  const store: Leasing = scenario.remembers ? recalling(watched as Registry) : watched;
  /** An operator's orders to drop the namespace. */
  const orders: DropRequest[] = [];
  let droppedUntil = 0;
  const calls = new CallRecord(scenario.weather.repeatRequest > 0);
  const fleet = new Fleet(world, scenario, store, judge, tally, variant, calls);

  function stepClock(): void {
    const by = random.pick(unsteady && random.chance(0.5) ? clockSteps.slice(0, 5) : clockSteps);
    if (!random.chance(0.15)) fleet.stepClock(by);
    else if (forgets) server.offset = random.between(-serversApart, serversApart);
    else server.offset += by;
  }

  /** Lets a message arrive; some messages while children keep asking for blocks. False if there is none. */
  async function deliver(): Promise<boolean> {
    let some = false;
    for (let left = random.between(1, scenario.lends ? 5 : 1); left > 0 && world.deliver(); left--) {
      some = true;
      await settled(scenario);
    }
    return some;
  }

  /** Until the next sleeper is due, a moment, or as long as a quarantine lasts. */
  function advance(): void {
    const quarantine = Math.max(forgetful?.quarantine ?? 0, droppedUntil - server.now());
    if (scenario.ends && quarantine > 0 && random.chance(0.3)) {
      forgetful?.endQuarantine((content, clock) => judge.hasForgottenNothingOpen(content, clock));
      return;
    }
    if (quarantine > 0 && random.chance(0.5)) world.advance(quarantine);
    else world.advance(random.chance(0.4) ? (world.nextWake() ?? 100) : random.between(1, 1500));
  }

  /** The store goes back in time, in one way or another. */
  function goBack(store: Store): void {
    if (scenario.isSilent || random.chance(0.3)) {
      if (random.chance(0.1)) store.fork(random);
      else store.putBack(random);
      if (scenario.isSetBack) server.offset -= random.between(0, 60_000);
    } else {
      store.forget(random);
      server.offset = random.between(-serversApart, serversApart);
    }
  }

  /** An operator drops the namespace, often once the windows have passed; or an earlier order arrives late, or once more. */
  function drop(): void {
    const late = orders.length > 0 && random.chance(0.3) ? random.pick(orders) : undefined;
    if (random.chance(0.7)) world.advance(scenario.options.window + random.between(0, 5000));
    const order = late === undefined ? store.describe("default") : Promise.resolve(undefined);
    const dropped = order.then((info) => {
      if (late === undefined) orders.push({ namespace: "default", id: info?.id ?? "" });
      return store.dropNamespace?.(late ?? orders.at(-1) ?? { namespace: "default", id: "" });
    });
    dropped.then(
      ({ grantsFrom = 0 } = {}) => {
        droppedUntil = grantsFrom;
        if (late !== undefined) tally.count("late order to drop");
        if (forgetful === undefined) tally.count("namespace that was dropped");
        if (fleet.isAlive) tally.count("namespace that was dropped beside a live process");
      },
      (error: unknown) => {
        if (!isSnowleaseError(error)) judge.accuse(`The operator's order: ${String(error)}`);
        else if (late !== undefined) tally.count("late order to drop");
      },
    );
  }

  function intervene(): void {
    if (scenario.drops && random.chance(0.6)) {
      drop();
    } else if (forgetful !== undefined && scenario.goesBack && random.chance(0.5)) {
      goBack(forgetful);
    } else if (unsteady && random.chance(scenario.lends ? 0.8 : 0.5)) {
      const workerId = random.between(0, scenario.options.pool.last);
      void calls.forceRelease(store, { namespace: "default", workerId, force: true }).then(({ outcome }) => {
        if (outcome === "released") tally.count("claim ended by an operator");
      });
    }
  }

  for (let step = scenario.steps; step > 0 && judge.violation === undefined; step--) {
    const dice = random.next();
    if (dice < 0.5 && (await deliver())) continue;
    if (dice < 0.77) fleet.act();
    else if (dice < 0.91) advance();
    else if (dice < 0.955) stepClock();
    else intervene();
    await settled(scenario);
  }
  fleet.end();
  // Forgotten and dropped calls have no place in an order, and neither have both answers to two copies.
  if (judge.violation === undefined && !forgets && !scenario.copies && !scenario.drops) {
    const verdict = calls.verdict();
    tally.count("call with a place in the order", verdict.calls);
    for (const words of verdict.findings) judge.accuse(`There is no order: ${words}`);
  }
  if (judge.violation === undefined && forgetful?.isDouble !== true)
    await aftermath(world, server, watched, scenario, judge, fleet);
  world.end();
  return { seed, counts: tally.counts, violation: judge.violation };
}

/**
 * Runs the consequences of the last step. Promises run in a fixed order, so a chain longer than this goes on beside the next
 * step, and is still the same in every replay; to wait for the event loop instead costs three times as much.
 */
async function settled({ copies }: Scenario): Promise<void> {
  for (let turn = copies ? 40 : 16; turn > 0; turn--) await Promise.resolve();
}
