import { type Clock, monotonic, systemClock } from "../../clock.ts";
import type { Registry } from "../../rule/registry.ts";
import { lostNamespace, unknownNamespace } from "../../rule/quarantine.ts";
import { SnowleaseError } from "../../id/errors.ts";
import { inAttempts } from "../engine/optimistic.ts";
import type { StoreRest } from "../engine/port.ts";
import { registryOf } from "../engine/registry.ts";
import type { RegistryOptions } from "../store-kind.ts";
import { isMissingTables, NoTables } from "./errors.ts";
import { openDatabase, type SqlAddress } from "./execute.ts";
import { guard, readNamespace, type SqlNamespace } from "./namespace.ts";
import { numberOf, shortenedLabel } from "./records.ts";
import { rehearse } from "./rehearsal.ts";
import { makeTables } from "./schema.ts";
import { checkElsewhere, elsewhereOf, scopeIn } from "./scope.ts";
import { SqlAttempt, type SqlMemory } from "./store.ts";

/** Claims that one statement deletes. */
const pruneBatch = 500;

/** How long after a lost race a claim still expects others, ms. */
const rushLasts = 1000;

const repeatable = { repeatable: true };
const once = { repeatable: false };

/**
 * A registry in tables of an SQL database; one of them is the table of westid. An operation reads what it needs without a lock,
 * decides, and writes in one short transaction that takes effect only where nothing of that has changed. The clock is the database's.
 * A server that may have forgotten what was acknowledged is in quarantine: `namespace.ts`. It connects at the first operation.
 *
 * @throws SnowleaseError CONFIG_INVALID for settings that make no sense, DRIVER_MISSING.
 */
export async function sqlRegistry(address: SqlAddress, options: RegistryOptions): Promise<Registry> {
  const database = await openDatabase(address, options);
  const { dialect, where, schema } = database;
  const { execute } = database;
  const title = `${dialect.title} ${where}`;
  const memory: SqlMemory = {};

  const store: StoreRest = {
    kind: dialect.kind,
    title,
    samples: true,
    hasOthers: true,

    async prune(namespace, before) {
      const batch = { before, limit: pruneBatch };
      const [pruned] = await execute(namespace, once, ({ tx }) => tx.write(() => [tx.change("history.prune", batch)]));
      return { pruned, isDone: pruned < pruneBatch };
    },

    rehearse: (namespace) =>
      execute(namespace, repeatable, async ({ tx, place }) => rehearse(await readNamespace(tx, place, schema.version))),

    scope: (namespace) => execute(namespace, repeatable, ({ tx }) => scopeIn(tx, database, namespace)),

    ping() {
      const { namespace } = memory;
      return execute(namespace ?? "default", repeatable, async ({ tx }) => {
        const row = await tx.get("session.durability");
        const [touched] = await tx.write(() => [
          tx.get("session.touch"),
          namespace !== undefined && tx.swap("meta.touch", {}),
        ]);
        const clock = numberOf(touched ?? {}, "clock");
        return { clock, ...dialect.durabilityOf(row ?? {}), schema: schema.version };
      });
    },

    close: async () => database.close(),
  };

  const rush = new Rush(options.clock);
  const run = inAttempts((namespace, kind, work) =>
    execute(namespace, { repeatable: kind !== "once" }, (each) => {
      const tried = kind === "claim" ? { ...each, races: rush.racesOf(each) } : each;
      return work(tried, (spread) => new SqlAttempt(tried, database, { memory, kind, spread }));
    }),
  );
  const registry = registryOf(store, { run, pinsTogether: true });
  return {
    ...registry,
    elsewhere: (namespace) => elsewhereOf(database, namespace),

    async init(request) {
      const { namespace } = request;
      if (request.separate !== true) await checkElsewhere(database, namespace);
      await execute(namespace, repeatable, async ({ tx, place }) => {
        await makeTables(tx, place, database);
        const state = await ifThere(readNamespace(tx, place, schema.version));
        if (state !== undefined) await guard(state, dialect);
      });
      return registry.init(request);
    },

    claim: (request) => registry.claim({ ...request, holder: shortenedLabel(request.holder) }),
    renew: (request) => registry.renew(request).catch(withoutTables(() => unknownNamespace(title, request))),
    release: (request) => registry.release(request).catch(withoutTables(() => lostNamespace(request))),
  };
}

/** While other processes claim at once, too, each claim begins as if it had lost as many races as the last one that was beaten. */
class Rush {
  readonly #clock: Clock;
  #races = 0;
  #at = -Infinity;

  constructor(clock: Clock = systemClock) {
    this.#clock = clock;
  }

  racesOf({ races }: { readonly races: number }): number {
    const now = monotonic(this.#clock);
    if (races > 0) [this.#races, this.#at] = [races, now];
    return now - this.#at < rushLasts ? Math.max(this.#races, races) : races;
  }
}

/** Undefined where there is no namespace. */
function ifThere(reading: Promise<SqlNamespace>): Promise<SqlNamespace | undefined> {
  return reading.catch((error: unknown) => {
    if (isMissingTables(error)) return undefined;
    throw error;
  });
}

/** What a holder is told where nothing can be noted of its namespace. */
function withoutTables<Answer>(answer: () => Answer | SnowleaseError): (error: unknown) => Answer {
  return (error) => {
    if (!(error instanceof NoTables)) throw error;
    const told = answer();
    if (told instanceof SnowleaseError) throw told;
    return told;
  };
}
