import { monotonic, systemClock } from "../../lease/clock.ts";
import { isSnowleaseError, SnowleaseError } from "../../id/errors.ts";
import { Beaten, Changed } from "../compare-and-set/store.ts";
import type { ZooKeeperConnection } from "./connection.ts";
import { ConnectionLost, silentError } from "./errors.ts";
import type { Exchange } from "./session.ts";

/** The circumstances of one attempt. */
export interface ZooKeeperTry {
  readonly exchange: Exchange;
  /** On the monotonic clock, ms. */
  readonly deadline: number;
  /** How long the operation has waited so far, for a connection and in attempts that failed, whole ms. */
  readonly waited: number;
  /** How often other writers were faster. */
  readonly races: number;
}

/** Longest pause between two attempts where other writers are faster, ms. */
const longestPause = 40;

/**
 * Makes attempts until one is done: each reads, decides, and writes under the condition that nothing has changed since. An attempt may
 * follow one with an unknown answer: it sees whether that was done.
 * @throws SnowleaseError REGISTRY_UNAVAILABLE at the deadline.
 */
export async function operate<Answer>(
  connection: ZooKeeperConnection,
  work: (tried: ZooKeeperTry) => Promise<Answer>,
): Promise<Answer> {
  const { where, operationTimeout } = connection;
  const begun = monotonic(systemClock);
  const deadline = connection.deadline();
  const exchange: Exchange = (calls) => connection.exchange(deadline, calls);
  let lost: ConnectionLost | undefined;
  let races = 0;
  for (let late = false; ;) {
    try {
      late = (await connection.ready(deadline)) || late;
      return await work({ exchange, deadline, waited: late ? Math.floor(monotonic(systemClock) - begun) : 0, races });
    } catch (error) {
      if (error instanceof Beaten) races++;
      else if (error instanceof ConnectionLost) lost = error;
      else if (lost !== undefined && isSnowleaseError(error, "REGISTRY_UNAVAILABLE")) {
        throw silentError(where, operationTimeout, true, lost);
      } else if (!(error instanceof Changed)) throw error;
      late ||= !(error instanceof Changed);
    }
    if (monotonic(systemClock) >= deadline) {
      if (lost !== undefined) throw silentError(where, operationTimeout, true, lost);
      throw new SnowleaseError(
        "REGISTRY_UNAVAILABLE",
        `Other writers were faster ${races} times within ${operationTimeout} ms at ZooKeeper ${where}, nothing was changed; try again.`,
      );
    }
    if (races > 2) await systemClock.sleep(Math.random() * Math.min(5 * races, longestPause));
  }
}
