import { setTimeout as sleep } from "node:timers/promises";
import { onTestFinished } from "vitest";
import { isSnowleaseError } from "../../src/id/errors.ts";
import type { Snowflake } from "../../src/generator/snowflake.ts";
import { snowlease, type SnowleaseOptions } from "../../src/snowlease.ts";
import { eventually } from "./holder.ts";

/** Starts a maker, which ends with the test. */
export async function startMaker(options: SnowleaseOptions): Promise<Maker> {
  const maker = new Maker(await snowlease(options));
  onTestFinished(async () => {
    await maker.stop();
    await maker.snowflake.close().catch(() => undefined);
  });
  return maker;
}

/** Makes IDs in this process all the time, and keeps them. */
export class Maker {
  readonly ids: bigint[] = [];
  /** Error code -> how often `next` threw it. */
  readonly failures = new Map<string, number>();
  readonly snowflake: Snowflake;
  readonly #ended: Promise<void>;
  #running = true;

  constructor(snowflake: Snowflake) {
    this.snowflake = snowflake;
    this.#ended = this.#run();
  }

  /** Waits until it has made more than so many IDs. */
  async made(count: number): Promise<void> {
    await eventually(
      async () => this.ids.length,
      (made) => made > count,
    );
  }

  /** Stops making IDs. The lease stays. */
  async stop(): Promise<void> {
    this.#running = false;
    await this.#ended;
  }

  async #run(): Promise<void> {
    while (this.#running) {
      try {
        for (let i = 0; i < 20; i++) this.ids.push(this.snowflake.next());
      } catch (error) {
        if (!isSnowleaseError(error)) throw error;
        this.failures.set(error.code, (this.failures.get(error.code) ?? 0) + 1);
      }
      await sleep(2);
    }
  }
}
