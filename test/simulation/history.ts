import { memoryRegistry } from "../../src/registries/memory/registry.ts";
import { recalling } from "../../src/registries/recall.ts";
import type { Registry } from "../../src/rule/registry.ts";
import { aftermath } from "./aftermath.ts";
import { type Event, Tally } from "./events.ts";
import { Fleet } from "./fleet.ts";
import { Judge } from "./judge.ts";
import { drawn, type Scenario } from "./scenario.ts";
import { type Leasing, Store } from "./store.ts";
import type { Variant } from "./variant.ts";
import { Machine, World } from "./world.ts";

/** What became of one simulated history. */
export interface Outcome {
  readonly seed: number;
  readonly counts: Readonly<Record<Event, number>>;
  /** What must never happen, in words. */
  readonly violation: string | undefined;
}

/** Servers that take each other's place have clocks within maxClockSkew of each other: so much the quarantine relies on. */
const serversApart = 4000;

/** ms; the first ones are more than a lease can bridge. */
const clockSteps = [
  -60_000, -30_000, -20_000, -15_000, -5000, -3000, -1500, -1500, -700, -700, 700, 1500, 5000, 15_000,
];

/**
 * Plays one history to its end, and what can be had after it: every choice in it comes from the seed.
 * @param sought which violations end it.
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
  const fleet = new Fleet(world, scenario, store, judge, tally, variant);

  function stepClock(): void {
    const by = random.pick(unsteady && random.chance(0.5) ? clockSteps.slice(0, 5) : clockSteps);
    if (!random.chance(0.15)) fleet.stepClock(by);
    else if (forgets) server.offset = random.between(-serversApart, serversApart);
    else server.offset += by;
  }

  /** Lets a message arrive; where children ask for blocks all the while, some. False where there is none. */
  async function deliver(): Promise<boolean> {
    let some = false;
    for (let left = random.between(1, scenario.lends ? 5 : 1); left > 0 && world.deliver(); left--) {
      some = true;
      await settled(scenario);
    }
    return some;
  }

  /** As far as somebody sleeps, a moment, or as long as a quarantine lasts. */
  function advance(): void {
    const quarantine = forgetful?.quarantine ?? 0;
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

  function intervene(): void {
    if (forgetful !== undefined && scenario.goesBack && random.chance(0.5)) {
      goBack(forgetful);
    } else if (unsteady && random.chance(scenario.lends ? 0.8 : 0.5)) {
      const workerId = random.between(0, scenario.options.pool.last);
      void store.forceRelease({ namespace: "default", workerId, force: true }).then(({ outcome }) => {
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
  if (judge.violation === undefined && forgetful?.isDouble !== true)
    await aftermath(world, server, watched, scenario, judge, fleet);
  return { seed, counts: tally.counts, violation: judge.violation };
}

/**
 * Lets what follows from the last step happen. Promises run in a fixed order, so a chain longer than this goes on beside the next
 * step and is still the same in every replay; waiting for the event loop instead costs three times as much.
 */
async function settled({ copies }: Scenario): Promise<void> {
  for (let turn = copies ? 40 : 16; turn > 0; turn--) await Promise.resolve();
}
