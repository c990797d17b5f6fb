import { defaultLimits, type NamespaceInfo, type NamespaceLimits } from "../rule/limits.ts";
import { layouts } from "../id/layout.ts";
import { isSnowleaseError } from "../id/errors.ts";
import { between, ensure, equal, outcome, refuses } from "./assert.ts";
import { check, checkNew, type ConformanceCheck } from "./check.ts";
import { hour, layout, long, newToken, on, otherLayout, type Trial } from "./trial.ts";

const limits = { maxWindow: 5000, maxClockSkew: 4000 };

/** Expects what is fixed for the namespace; a store adds its id and its eras. */
function isFixed(seen: NamespaceInfo | undefined, limits: NamespaceLimits, what: string): void {
  const fixed = seen && { layout: seen.layout, maxWindow: seen.maxWindow, maxClockSkew: seen.maxClockSkew };
  equal(fixed, { layout, ...limits }, what);
}

/** Expects that claims are refused when the holder's clock is wrong by `skew` ms. */
async function refusesSkew(trial: Trial, skew: number): Promise<void> {
  await refuses("CLOCK_SKEW", `a clock ${skew} ms ahead`, trial.ask({ clock: trial.now() + skew, window: 1000 }));
  equal(await trial.records(), [], "the worker IDs in use");
}

/** What is fixed for a namespace, and the connection to a registry. */
export const namespaces: readonly ConformanceCheck[] = [
  checkNew("`init` creates a namespace, and is repeatable", async (trial) => {
    equal(await trial.describe(), undefined, "what is known of a namespace before");
    const info = await trial.init();
    isFixed(info, defaultLimits, "the answer to `init`");
    equal(await trial.describe(await trial.another()), info, "what another client knows of it");
    equal(await trial.init(defaultLimits), info, "the answer to a second `init`");
    equal(await trial.records(), [], "the worker IDs in use");
  }),

  checkNew("concurrent `init` calls by two clients create one namespace", async (trial) => {
    const answers = await trial.concurrently(2, (registry) => trial.init({ new: true }, registry));
    for (const info of answers) {
      isFixed(info, defaultLimits, "the answer to `init`");
      equal(info, answers[0], "the other answer");
    }
  }),

  checkNew("`init` with `new` is refused after a worker ID was used, and changes nothing", async (trial) => {
    const word = { ...limits, new: true };
    const info = await trial.init(word);
    isFixed(info, limits, "the answer to `init` with `new`");
    equal(await trial.init(word), info, "the answer to a second one");
    const held = await trial.claim({ window: 1000 });
    await refuses("CONFIG_INVALID", "`new` while a worker ID is held", trial.init(word));
    await trial.released(held, { until: held.grant.from });
    await refuses("CONFIG_INVALID", "`new` after one was given back", trial.init(word));
    equal(await trial.init({}), info, "the answer to `init` without it");
    const { workerId, fence } = held.key;
    equal((await trial.record(workerId)).fence, fence, "the fence of the worker ID");
  }),

  checkNew("`init` keeps the limits of the first call, and refuses others", async (trial) => {
    const info = await trial.init({ ...limits, new: true });
    await trial.claim({ window: limits.maxWindow });
    for (const other of [{ maxWindow: 6000 }, { maxClockSkew: 2000 }]) {
      await refuses("CONFIG_INVALID", "`init` with another limit", trial.init(other));
      await refuses("CONFIG_INVALID", "a claim with another limit", trial.ask({ limits: other, window: 1000 }));
    }
    for (const same of [{}, limits, { maxWindow: limits.maxWindow }]) {
      equal(await trial.init(same), info, "the answer to `init`");
      await trial.claim({ limits: same, window: 1000 });
    }
    isFixed(await trial.describe(), limits, "what is known of the namespace");
    equal(await trial.describe(), info, "all that is known of it");
  }),

  check(
    "the scope is one phrase, the same for every client, and for a namespace that does not exist yet",
    async (trial) => {
      const { namespace, registry } = trial;
      if (registry.scope === undefined) return;
      const other = await trial.another();
      const scope = await registry.scope(namespace);
      ensure(/^\S[^\n]*[^\s.]$/.test(scope), "a phrase in one line, which a sentence can end with", scope);
      equal(await other.scope?.(namespace), scope, "what another client is told");
      equal(await other.scope?.(`${namespace}_none`), scope, "what is told of a namespace that does not exist");
    },
  ),

  check("a different layout is LAYOUT_MISMATCH, and changes nothing", async (trial) => {
    await refuses("LAYOUT_MISMATCH", "`init` with another layout", trial.init({ layout: otherLayout }));
    await refuses("LAYOUT_MISMATCH", "a claim with another layout", trial.ask({ layout: otherLayout }));
    isFixed(await trial.describe(), defaultLimits, "what is known of the namespace");
    equal(await trial.records(), [], "the worker IDs in use");
  }),

  check("a window longer than maxWindow, or shorter than 1 ms, is CONFIG_INVALID", async (trial) => {
    for (const window of [defaultLimits.maxWindow + 1, 0, -1, 1.5])
      await refuses("CONFIG_INVALID", `a claim for ${window} ms`, trial.ask({ window }));
    equal(await trial.records(), [], "the worker IDs in use");
    await trial.claim({ window: defaultLimits.maxWindow });
  }),

  check("a clock too far ahead is CLOCK_SKEW", async (trial) => {
    await refusesSkew(trial, 60_000);
    await trial.claim({ clock: trial.now() + 8000 });
  }),

  check("a clock too far behind is CLOCK_SKEW", async (trial) => {
    await refusesSkew(trial, -60_000);
    await trial.claim({ clock: trial.now() - 8000 });
  }),

  checkNew("the maxWindow and maxClockSkew of the namespace decide", async (trial) => {
    await trial.init({ ...limits, new: true });
    await refuses("CONFIG_INVALID", "a window of 5001 ms", trial.ask({ window: 5001 }));
    for (const skew of [9000, -9000]) await refusesSkew(trial, skew);
    const { grant } = await trial.claim({ window: 5000 });
    equal(grant.from, grant.clock - limits.maxClockSkew, "`from`");
  }),

  checkNew(
    "a claim creates a missing namespace, with the limits of the claim",
    async (trial) => {
      await trial.claim({ limits: { maxWindow: 5000 }, window: 5000 });
      isFixed(await trial.describe(), { ...defaultLimits, maxWindow: 5000 }, "what is known of the namespace");
      await refuses("LAYOUT_MISMATCH", "a claim with another layout", trial.ask({ layout: otherLayout, window: 1000 }));
    },
    "creates-namespaces",
  ),

  checkNew(
    "a refused claim creates no namespace",
    async (trial) => {
      await refuses("CONFIG_INVALID", "a window of 0", trial.ask({ window: 0, layout: otherLayout }));
      const skewed = trial.ask({ clock: trial.now() + hour, layout: otherLayout });
      await refuses("CLOCK_SKEW", "a clock an hour ahead", skewed);
      equal(await trial.describe(), undefined, "what is known of the namespace");
      await trial.claim();
    },
    "creates-namespaces",
  ),

  checkNew(
    "a claim that creates its namespace is judged by the limits that it brings",
    async (trial) => {
      const own = { limits, window: 1000 };
      await refuses("CONFIG_INVALID", "a window of 5001 ms", trial.ask({ ...own, window: 5001 }));
      for (const skew of [9000, -9000]) {
        const clock = trial.now() + skew;
        await refuses("CLOCK_SKEW", `a clock that is off by ${skew} ms`, trial.ask({ ...own, clock }));
      }
      equal(await trial.describe(), undefined, "what is known of the namespace");
      const { grant } = await trial.claim(own);
      equal(grant.from, grant.clock - limits.maxClockSkew, "`from`");
    },
    "creates-namespaces",
  ),

  checkNew(
    "a claim that creates its namespace is granted what one in a namespace that exists is granted",
    async (trial) => {
      // Ticks of 10 ms: of the one in which a store begins, another store may know more.
      const { fingerprint } = layouts.sonyflake;
      const existing = `${trial.namespace}_b`;
      await trial.init({ namespace: existing, layout: fingerprint, new: true });
      const { grant } = await trial.claim({ namespace: existing, layout: fingerprint });
      const held = await trial.claim({ layout: fingerprint });
      between(held.grant.from, grant.from, held.grant.clock, "`from`");
      const again = outcome(await trial.registry.claim(held.request), "granted", "the same claim");
      equal({ ...again, clock: 0 }, { ...held.grant, clock: 0 }, "its grant");
      const { receipt } = await trial.renewed(held, { receipt: held.grant.receipt });
      await trial.released(held, { until: held.grant.from }, { receipt });
    },
    "creates-namespaces",
  ),

  checkNew("a namespace that does not exist is empty, and `pin` and `prune` are NOT_FOUND there", async (trial) => {
    const { namespace, registry } = trial;
    equal(await trial.records(), [], "its worker IDs");
    equal(await registry.worker(namespace, 7), undefined, "the record of worker 7");
    equal(await trial.history(7), [], "the history of worker 7");
    equal(await trial.force(7), { outcome: "absent" }, "the answer to a forced release");
    equal(await trial.unpin(7), false, "whether worker 7 was pinned");
    equal((await registry.unpinAll?.(namespace, [7])) ?? [], [], "the worker IDs that were pinned");
    await refuses("NOT_FOUND", "a pin", trial.pin(7));
    await refuses("NOT_FOUND", "a prune", registry.prune(namespace, 0));
    equal(await trial.describe(), undefined, "what is known of the namespace");
  }),

  check("namespaces are independent of each other", async (trial) => {
    const { registry } = trial;
    const namespace = await trial.otherNamespace();
    const token = newToken();
    const here = await trial.claim({ workerId: 7, token });
    equal(await registry.worker(namespace, 7), undefined, "the record in the other namespace");
    const there = await trial.claim({ namespace, workerId: 7, token, holder: on("beta") });
    await registry.pin(namespace, 8, "kept");
    await trial.claim({ workerId: 8 });
    await registry.forceRelease({ namespace, workerId: 7, force: true });
    outcome(await trial.renew(there), "lost", "the renewal in the other namespace");
    await trial.renewed(here);
    const pins = (await trial.records()).map(({ pinned }) => pinned);
    equal(pins, [undefined, undefined], "the pins");
    equal((await trial.history(7)).length, 1, "the number of claims in the history");
    await registry.prune(namespace, trial.now() + 2 * long);
  }),

  check("`ping` returns the registry's clock and durability, `kind` its name", async (trial) => {
    const { clock, durability } = await trial.registry.ping();
    const now = trial.now();
    between(clock, now - defaultLimits.maxClockSkew, now + defaultLimits.maxClockSkew, "the registry's clock");
    ensure(
      durability.trim().length > 0 && !durability.includes("\n"),
      "durability to be one line for people",
      durability,
    );
    ensure(/^[a-z]+$/.test(trial.registry.kind), "a kind in lower case letters", trial.registry.kind);
    await trial.pause(20);
    const later = await trial.registry.ping();
    ensure(later.clock > clock, `the registry's clock to go on from ${clock}`, later.clock);
  }),

  check(
    "a closed registry refuses calls, and its claims stay",
    async (trial) => {
      const second = await trial.another();
      const held = await trial.claim({ workerId: 7 }, second);
      await second.close();
      await second.close();
      const error = await trial.claim({ workerId: 8 }, second).then(
        () => undefined,
        (error: unknown) => error,
      );
      ensure(isSnowleaseError(error), "a claim through a closed registry to be refused with a SnowleaseError", error);
      equal(await trial.registry.worker(trial.namespace, 8), undefined, "the record of what was asked");
      await trial.renewed(held);
    },
    "connections",
  ),

  check("`close` may be repeated", async (trial) => {
    const second = await trial.another();
    for (let i = 0; i < 3; i++) await second.close();
  }),
];
