import { monotonic, systemClock } from "../../lease/clock.ts";
import { SnowleaseError } from "../../id/errors.ts";
import type { Registry } from "../../rule/registry.ts";
import { claimInStep, operationsInOneStep } from "../in-one-step/registry.ts";
import type { RegistryOptions } from "../store-kind.ts";
import { acceptClock, checkClock, machineUptime, type Uptime } from "./clock-guard.ts";
import { damageError, unfiledError } from "./errors.ts";
import { openReopening } from "./reopening.ts";
import { schemaVersion } from "./schema.ts";
import { scopeOfFile } from "./scope.ts";
import { stepIn } from "./step.ts";

/** Where an embedded registry lives. */
export interface SqliteOptions extends RegistryOptions {
  /**
   * The file: created when it is missing (mode 0600; where a group may write to its folder, 0660 less the umask), with the folders
   * above it (0700). All users that share it need read and write access to both. Not on a network file system.
   */
  readonly path: string;
  /** The time since boot. Default: this machine's, with the default clock; none with another one. */
  readonly uptime?: (() => Uptime | undefined) | undefined;
}

const durability =
  "Acknowledged writes survive kill -9 and power loss (synchronous=FULL), for the processes that share this file, as long as the file lasts.";

/**
 * A registry in one SQLite file, for any number of processes of one machine at once. Each operation is a transaction, and waits in a
 * queue for its turn to write. An operation that does not get the lock while no process has written for `operationTimeout` throws
 * REGISTRY_UNAVAILABLE, and has changed nothing. A claim or renewal throws CLOCK_SKEW where `clock-guard.ts` refuses the wall clock.
 *
 * @throws SnowleaseError CONFIG_INVALID for a path that cannot be used, SCHEMA_INCOMPATIBLE for the file of another program or of a
 *   newer version, DRIVER_MISSING; the file is then as it was.
 */
export async function sqliteRegistry({
  path,
  clock = systemClock,
  uptime,
  operationTimeout,
}: SqliteOptions): Promise<Registry> {
  const timeSinceBoot = uptime ?? (clock === systemClock ? machineUptime : () => undefined);
  const title = `The registry file \`${path}\``;
  const database = await openReopening({ path, clock, operationTimeout });

  return {
    kind: "sqlite",

    ...operationsInOneStep({
      title,
      read: (work) => database.read((transaction) => work(stepIn(transaction, timeSinceBoot))),
      write: (work) => database.write((transaction) => work(stepIn(transaction, timeSinceBoot))),
    }),

    async claim(request) {
      const begun = monotonic(clock);
      for (let asked = request; ;) {
        const { answer, file, isFiled } = await database.write((transaction) => {
          const step = stepIn(transaction, timeSinceBoot);
          return { answer: claimInStep(step, asked, title), file: transaction.file, isFiled: step.isFiled };
        });
        if (answer instanceof SnowleaseError) throw answer;
        if (answer.outcome === "granted") return { ...answer, store: file };
        if (answer.outcome !== "exhausted" || isFiled || asked.reuse === "never") return answer;
        // The next transaction files more records. Other processes have their turn in between.
        const passed = Math.floor(monotonic(clock) - begun);
        if (passed >= operationTimeout) throw unfiledError(path, request.pool, operationTimeout);
        asked = { ...request, clock: request.clock + passed };
      }
    },

    acceptClock: () => database.write(({ sql, now }) => ({ by: acceptClock(sql, now, timeSinceBoot()) })),

    scope: async () => scopeOfFile(path),

    ping: () =>
      database.write(({ sql, now }) => {
        sql.get("ping.look");
        sql.run("ping.touch", { done_at: now });
        sql.run("ping.untouch");
        checkClock(sql, now, timeSinceBoot());
        return { clock: now, durability, schema: schemaVersion };
      }),

    verify: () =>
      database.read(({ sql }) => {
        const said = String(Object.values(sql.get("ping.verify") ?? {})[0]);
        if (said !== "ok") throw damageError(said, path);
      }),

    close: () => database.close(),
  };
}
