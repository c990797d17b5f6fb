import { setTimeout as sleep } from "node:timers/promises";
import { isSnowleaseError } from "../../src/id/errors.ts";
import type { Snowflake } from "../../src/generator/snowflake.ts";

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

  /** Ends the making; what was leased stays leased. */
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
