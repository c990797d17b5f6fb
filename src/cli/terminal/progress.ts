const width = 30;
const interval = 100;
const stream = process.stderr;

/** A progress bar on stderr, where that is a terminal. */
export class Progress {
  readonly #isShown = stream.isTTY && process.env["TERM"] !== "dumb";
  #phase = "";
  #drawnAt = 0;

  /** Draws the bar at the start of a phase, then a few times a second. `share`: 0 to 1; left out where it is unknown. */
  show(phase: string, detail: string, share?: number): void {
    const now = performance.now();
    if (!this.#isShown || (phase === this.#phase && now - this.#drawnAt < interval)) return;
    this.#phase = phase;
    this.#drawnAt = now;
    const done = Math.min(1, share ?? 0);
    const bar = `[${"=".repeat(Math.round(done * width)).padEnd(width)}] ${Math.floor(done * 100)} % `;
    stream.write(`\r\u001b[K${share === undefined ? "" : bar}${phase} ${detail}`);
  }

  /** Clears the bar; call it before other output. */
  end(): void {
    if (this.#isShown) stream.write("\r\u001b[K");
  }
}
