import { setImmediate as turn } from "node:timers/promises";
import { monotonic, systemClock } from "../../clock.ts";
import type { PoolBounds } from "../../id/pool-bounds.ts";
import { byAge } from "../../rule/pool.ts";
import type { Registry } from "../../rule/registry.ts";
import { inOneStep } from "../engine/in-one-step.ts";
import type { RegistryOptions } from "../store-kind.ts";
import { acceptClock, checkClock, machineUptime, type Uptime } from "./clock-guard.ts";
import { damageError, takenError } from "./errors.ts";
import { openReopening } from "./reopening.ts";
import { schemaVersion } from "./schema.ts";
import { scopeOfFile } from "./scope.ts";
import { type AgedNumber, type PoolSearch, SqliteView, Unsearched } from "./view.ts";

/** How many claims one step of `prune` deletes. Other processes wait until the step ends. */
const pruneBatch = 500;
/** How many records one part of a search looks at. The event loop waits until the part ends. */
const searchedTogether = 10_000;

/** The place and the options of an embedded registry. */
export interface SqliteOptions extends RegistryOptions {
  /**
   * The file. It is created if it is missing (mode 0600; if a group may write to its folder, 0660 less the umask), with the folders above
   * it (0700). All users that share it need read and write access to file and folder. Not on a network file system.
   */
  readonly path: string;
  /** The time since boot. Default: this machine's, with the default clock; none with another one. */
  readonly uptime?: (() => Uptime | undefined) | undefined;
}

const durability =
  "Acknowledged writes survive kill -9 and power loss (synchronous=FULL), for the processes that share this file, as long as the file lasts.";

/**
 * A registry in one SQLite file, for any number of processes of one machine at once. Each operation is a transaction, and waits in a queue
 * for its turn to write. An operation throws REGISTRY_UNAVAILABLE if it does not get the lock, and no process has written, for
 * `operationTimeout`. It has then changed nothing. A claim or renewal throws CLOCK_SKEW if `clock-guard.ts` refuses the wall clock.
 *
 * @throws SnowleaseError CONFIG_INVALID for a path that cannot be used, SCHEMA_INCOMPATIBLE for the file of another program or of a newer
 *   version, DRIVER_MISSING. The file is then unchanged.
 */
export async function sqliteRegistry({
  path,
  clock = systemClock,
  uptime = clock === systemClock ? machineUptime : () => undefined,
  operationTimeout,
}: SqliteOptions): Promise<Registry> {
  const title = `The registry file \`${path}\``;
  const database = await openReopening({ path, clock, operationTimeout });

  /** Looks at the records of a pool part by part, without the lock, until it finds one whose window has passed. */
  async function search(namespace: string, { first, last }: PoolBounds, limit: number): Promise<PoolSearch> {
    let oldest: readonly AgedNumber[] = [];
    for (let next = first; ;) {
      const { part, passed } = await database.read((transaction) => {
        const view = new SqliteView(transaction, namespace, { uptime });
        return { part: view.numbers(next, last, searchedTogether), passed: view.passed };
      });
      const over = part.filter(({ until }) => until <= passed);
      const lot = over[Math.floor(Math.random() * over.length)];
      if (lot !== undefined) return { places: [lot], isAll: false };
      oldest = [...oldest, ...part].toSorted(byAge).slice(0, limit);
      if (part.length < searchedTogether) return { places: oldest, isAll: true };
      next = (part.at(-1)?.workerId ?? last) + 1;
      await turn();
    }
  }

  return inOneStep({
    kind: "sqlite",
    title,
    samples: true,

    async atomically(namespace, writes, work) {
      const begun = monotonic(clock);
      let searched: PoolSearch | undefined;
      for (;;) {
        const passed = searched === undefined ? 0 : Math.floor(monotonic(clock) - begun);
        const done = await database[writes ? "write" : "read"]((transaction) => {
          const view = new SqliteView(transaction, namespace, { uptime, searched });
          const waited = passed + transaction.waited;
          try {
            return { answer: work({ waited, view, commit: (changes) => view.commit(changes) }) };
          } catch (error) {
            if (error instanceof Unsearched) return error;
            throw error;
          }
        });
        if ("answer" in done) return done.answer;
        if (passed >= operationTimeout) throw takenError(path, done.pool, operationTimeout);
        searched = await search(namespace, done.pool, done.limit);
      }
    },

    async prune(namespace, before) {
      const pruned = await database.write((transaction) =>
        new SqliteView(transaction, namespace, { uptime }).prune(before, pruneBatch),
      );
      return { pruned, isDone: pruned < pruneBatch };
    },

    acceptClock: () => database.write(({ sql, now }) => ({ by: acceptClock(sql, now, uptime()) })),

    scope: async () => scopeOfFile(path),

    ping: () =>
      database.write(({ sql, now }) => {
        sql.get("ping.look");
        sql.run("ping.touch", { done_at: now });
        sql.run("ping.untouch");
        checkClock(sql, now, uptime());
        return { clock: now, durability, schema: schemaVersion };
      }),

    verify: () =>
      database.read(({ sql }) => {
        const said = String(Object.values(sql.get("ping.verify") ?? {})[0]);
        if (said !== "ok") throw damageError(said, path);
      }),

    close: () => database.close(),
  });
}
