const width = 30;
const interval = 100;

/** A progress bar on stderr, where that is a terminal. */
export class Progress {
  readonly #stream: NodeJS.WriteStream;
  readonly #isShown: boolean;
  #phase = "";
  #drawnAt = 0;

  constructor(stream: NodeJS.WriteStream = process.stderr) {
    this.#stream = stream;
    this.#isShown = stream.isTTY && process.env["TERM"] !== "dumb";
  }

  /** Draws the bar at the start of a phase, then a few times a second. `share`: 0 to 1; left out where it is unknown. */
  show(phase: string, detail: string, share?: number): void {
    const now = performance.now();
    if (!this.#isShown || (phase === this.#phase && now - this.#drawnAt < interval)) return;
    this.#phase = phase;
    this.#drawnAt = now;
    const done = Math.round(Math.min(1, share ?? 0) * width);
    const bar =
      share === undefined ? "" : `[${"=".repeat(done).padEnd(width)}] ${Math.floor(Math.min(1, share) * 100)} % `;
    this.#stream.write(`\r\u001b[K${bar}${phase} ${detail}`);
  }

  /** Clears the bar; call it before other output. */
  end(): void {
    if (this.#isShown) this.#stream.write("\r\u001b[K");
  }
}
