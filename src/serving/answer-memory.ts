import { SnowleaseError } from "../id/errors.ts";

/** Wait before the client's next try, ms. A reader on the same network has taken its answer by then. */
const retryAfterMs = 1000;

/** Memory for all large answers together, bytes: 8 answers of 100,000 IDs. One answer is always allowed. */
const most = 64 * 1024 * 1024;

/** The memory of large answers, until the client has read them. */
export class AnswerMemory {
  #held = 0;

  /**
   * Reserves bytes for an answer. Returns the function that frees them. The caller calls it when the answer is sent or its connection ends.
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
