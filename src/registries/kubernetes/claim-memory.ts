import { BoundedMap } from "../bounded-map.ts";
import type { Standing } from "../engine/port.ts";

/** Tokens of claims that are remembered, and numbers of a namespace that other claimers took first. */
const [mostSent, mostTaken] = [1000, 4096];

/** What a client remembers of its claims. */
export class ClaimMemory {
  /** Tokens of claims whose write was sent: the same claim may come again. */
  readonly sent: BoundedMap<string, true> = new BoundedMap(mostSent);
  /** Worker IDs that it has just seen used, by the id of their namespace, and until when: hints lag. */
  readonly #taken: BoundedMap<string, number> = new BoundedMap(mostTaken);

  /** `until`: Unix ms. */
  noteTaken({ made }: Standing, workerId: number, until: number): void {
    if (made !== undefined) this.#taken.set(`${made.info.id}/${workerId}`, until);
  }

  /** Until when it has seen a worker ID used, Unix ms. */
  takenUntil({ made }: Standing, workerId: number): number | undefined {
    return made && this.#taken.get(`${made.info.id}/${workerId}`);
  }
}
