import { type Clock, monotonic } from "../../clock.ts";
import type { Registry } from "../../rule/registry.ts";
import { lostNamespace, unknownNamespace } from "../../rule/quarantine.ts";
import { SnowleaseError } from "../../id/errors.ts";
import { type AttemptOptions, optimistic, type RemoteStore } from "../engine/optimistic.ts";
import type { RegistryOptions } from "../store-kind.ts";
import { isMissingTables, NoTables } from "./errors.ts";
import { openDatabase, type SqlAddress } from "./database.ts";
import { guard, readNamespace, type SqlNamespace } from "./namespace.ts";
import { numberOf, shortenedLabel } from "./records.ts";
import { rehearse } from "./rehearsal.ts";
import { dropTables, makeTables } from "./schema.ts";
import { checkElsewhere, elsewhereOf, scopeIn } from "./scope.ts";
import { SqlAttempt, type SqlMemory } from "./store.ts";

/** How many claims one statement deletes. */
const pruneBatch = 500;

/** For how long after a lost race a claim still expects other claims, ms. */
const rushLasts = 1000;

const repeatable = { repeatable: true };
const once = { repeatable: false };

/**
 * A registry in tables of an SQL database. One of them is the table of westid. An operation reads what it needs without a lock, decides,
 * and writes in one short transaction, which takes effect only if nothing of that has changed. The clock is the database's. A server that
 * may have forgotten acknowledged writes is in quarantine: `namespace.ts`. The registry connects at the first operation.
 *
 * @throws SnowleaseError CONFIG_INVALID for settings that make no sense, DRIVER_MISSING.
 */
export async function sqlRegistry(address: SqlAddress, options: RegistryOptions): Promise<Registry> {
  const database = await openDatabase(address, options);
  const { title, clock, operationTimeout, silent, dialect, schema, execute } = database;
  const memory: SqlMemory = { forgotten: new Map() };
  const rush = new Rush(clock);

  const store: RemoteStore = {
    kind: dialect.kind,
    title,
    clock,
    operationTimeout,
    samples: true,
    hasOthers: true,
    pinsTogether: true,
    silent,

    attempt(namespace, how, work) {
      return database.attempt(namespace, how.deadline, (tools) => {
        const options = how.kind === "claim" ? rush.expected(how) : how;
        return work(new SqlAttempt(tools, database, { ...options, memory }));
      });
    },

    async prune(namespace, before) {
      const batch = { before, limit: pruneBatch };
      const [pruned] = await execute(namespace, once, ({ tx }) => tx.write(() => [tx.change("history.prune", batch)]));
      return { pruned, isDone: pruned < pruneBatch };
    },

    rehearse: (namespace) =>
      execute(namespace, repeatable, async ({ tx, place }) => rehearse(await readNamespace(tx, place, schema.version))),

    scope: (namespace) => execute(namespace, repeatable, ({ tx }) => scopeIn(tx, database, namespace)),

    async ping() {
      const { namespace } = memory;
      const answer = execute(namespace ?? "default", repeatable, async ({ tx }) => {
        const row = await tx.get("session.durability");
        const [touched] = await tx.write(() => [
          tx.get("session.touch"),
          namespace !== undefined && tx.swap("meta.touch", {}),
        ]);
        const touchedAt = numberOf(touched ?? {}, "clock");
        return { clock: touchedAt, ...dialect.durabilityOf(row ?? {}), schema: schema.version };
      });
      return answer.catch((error: unknown) => {
        if (namespace === undefined || !isMissingTables(error)) throw error;
        // Another process has removed the namespace. A ping without it shows what the server can do.
        if (memory.namespace === namespace) delete memory.namespace;
        return store.ping();
      });
    },

    close: async () => database.close(),
  };

  const registry = optimistic(store);
  return {
    ...registry,
    elsewhere: (namespace) => elsewhereOf(database, namespace),

    async init(request) {
      const { namespace } = request;
      const make = async () => {
        if (request.separate !== true) await checkElsewhere(database, namespace);
        await execute(namespace, repeatable, async ({ tx, place }) => {
          await makeTables(tx, place, database);
          const state = await ifThere(readNamespace(tx, place, schema.version));
          if (state !== undefined) await guard(state, dialect);
        });
        return registry.init(request);
      };
      // Another process may have removed the namespace meanwhile, with its tables.
      return make().catch((error: unknown) => {
        if (isMissingTables(error)) return make();
        throw error;
      });
    },

    async remove(request) {
      const { namespace } = request;
      memory.forgotten.delete(namespace);
      await registry.remove?.(request);
      const beside = memory.forgotten.get(namespace);
      memory.forgotten.delete(namespace);
      if (beside !== undefined) await dropTables(database, namespace, beside);
    },

    claim: (request) => registry.claim({ ...request, holder: shortenedLabel(request.holder) }),
    renew: (request) => registry.renew(request).catch(withoutTables(() => unknownNamespace(title, request))),
    release: (request) => registry.release(request).catch(withoutTables(() => lostNamespace(request))),
  };
}

/** While other processes claim at the same time, each claim begins as if it had lost as many races as the last beaten claim. */
class Rush {
  readonly #clock: Clock;
  #last = { races: 0, spread: 0 };
  #at = -Infinity;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** The options of an attempt, adapted to the other claims. */
  expected(how: AttemptOptions): AttemptOptions {
    const { races, spread } = how;
    const now = monotonic(this.#clock);
    if (races > 0) [this.#last, this.#at] = [{ races, spread }, now];
    if (now - this.#at >= rushLasts) return how;
    return { ...how, races: Math.max(this.#last.races, races), spread: Math.max(this.#last.spread, spread) };
  }
}

/** Undefined if there is no namespace. */
function ifThere(reading: Promise<SqlNamespace>): Promise<SqlNamespace | undefined> {
  return reading.catch((error: unknown) => {
    if (isMissingTables(error)) return undefined;
    throw error;
  });
}

/** The answer to a holder if nothing can be noted about its namespace. */
function withoutTables<Answer>(answer: () => Answer | SnowleaseError): (error: unknown) => Answer {
  return (error) => {
    if (!(error instanceof NoTables)) throw error;
    const told = answer();
    if (told instanceof SnowleaseError) throw told;
    return told;
  };
}
