import { SnowleaseError } from "../id/errors.ts";

/** When a client may ask again, ms: a reader on the same network has taken its answer by then. */
const retryAfterMs = 1000;

/** For all large answers together, bytes: 8 of 100,000 IDs. One answer may always be made. */
const most = 64 * 1024 * 1024;

/** The memory that large answers take between being made and being read. */
export class AnswerMemory {
  #held = 0;

  /**
   * Reserves bytes for an answer. Returns what frees them, to be called once the answer is sent or its connection ends.
   * @throws SnowleaseError RATE_LIMITED when too many are reserved.
   */
  hold(bytes: number): () => void {
    if (this.#held > 0 && this.#held + bytes > most) {
      throw new SnowleaseError(
        "RATE_LIMITED",
        `Large answers that clients have yet to read take all ${most} bytes that this daemon has for them; read them, ask for less at once, or try again later.`,
        { retryAfterMs },
      );
    }
    this.#held += bytes;
    return () => void (this.#held -= bytes);
  }
}
