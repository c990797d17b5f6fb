import { setTimeout as sleep } from "node:timers/promises";
import { systemClock } from "../../src/clock.ts";
import { snowlease } from "../../src/snowlease.ts";
import { javaIds } from "./java-peer.ts";
import { Maker } from "./maker.ts";

/** A Java process that has a worker ID. */
interface Started {
  readonly workerId: number;
  leave(): Promise<void>;
}

interface Beside {
  readonly url: string;
  /** The namespace's maxClockSkew, ms. */
  readonly skew: number;
  /** Starts a Java process in the worker IDs 0 to 3. Rejects if they are used up. */
  start(): Promise<Started>;
}

/** How often a Java process starts. */
const starts = 6;

/**
 * Holders of Snowlease have all of the worker IDs 0 to 3, and crash one after the other. Their clock is ahead by nearly the largest
 * allowed difference. Java processes start there whenever they can, with a clock that is behind by as much. Returns the IDs of both.
 */
export async function besideJava({ url, skew, start }: Beside): Promise<{ ids: bigint[]; starts: number }> {
  const ahead = { ...systemClock, now: () => Date.now() + skew - 50 };
  const javaNow = (): number => Date.now() - skew + 50;
  const makers: Maker[] = [];
  const crash = async (): Promise<void> => {
    const options = { window: 400, claimTimeout: "20s", pool: "0-3" };
    const maker = new Maker(await snowlease({ registry: url, clock: ahead, ...options }));
    makers.push(maker);
    await sleep(300);
    // The holder goes on to the end of its window, and renews no more.
    await maker.snowflake.lease.orphan();
  };
  const ids: bigint[] = [];
  let done = 0;
  let running = true;
  await Promise.all([0, 1, 2, 3].map(crash));
  const crashes = (async () => {
    while (running) {
      // Two of the four worker IDs rest long enough to go back.
      await sleep(skew);
      await crash();
    }
  })();
  const java = (async () => {
    while (done < starts) {
      const began = await start().then(
        (process) => ({ process, at: javaNow() }),
        () => undefined,
      );
      if (began !== undefined) {
        await sleep(300);
        ids.push(...javaIds(began.process.workerId, began.at, javaNow()));
        done++;
        await began.process.leave();
      }
      await sleep(20);
    }
  })();
  await java;
  running = false;
  await crashes;
  for (const maker of makers) {
    await maker.stop();
    ids.push(...maker.ids);
  }
  return { ids, starts: done };
}
