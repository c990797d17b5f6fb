import { BoundedMap } from "../bounded-map.ts";
import type { Standing } from "../engine/port.ts";

/** How many tokens of sent claims, and how many used worker IDs, a client remembers. */
const [mostSent, mostTaken] = [1000, 4096];

/** What a client remembers about its claims. */
export class ClaimMemory {
  /** Tokens of claims whose write was sent. The same claim may come again. */
  readonly sent: BoundedMap<string, true> = new BoundedMap(mostSent);
  /** Worker IDs that this client has just seen in use, by the id of their namespace, and until when. Hints lag behind this. */
  readonly #taken: BoundedMap<string, number> = new BoundedMap(mostTaken);

  /** `until`: Unix ms. */
  noteTaken({ made }: Standing, workerId: number, until: number): void {
    if (made !== undefined) this.#taken.set(`${made.info.id}/${workerId}`, until);
  }

  /** Until when this client has seen a worker ID in use, Unix ms. */
  takenUntil({ made }: Standing, workerId: number): number | undefined {
    return made && this.#taken.get(`${made.info.id}/${workerId}`);
  }
}
