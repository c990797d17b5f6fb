const width = 30;
const interval = 100;

/** How far long work has come: a bar on the terminal that stderr is, nothing where it is none. */
export class Progress {
  readonly #stream: NodeJS.WriteStream;
  readonly #isShown: boolean;
  #phase = "";
  #drawnAt = 0;

  constructor(stream: NodeJS.WriteStream = process.stderr) {
    this.#stream = stream;
    this.#isShown = stream.isTTY && process.env["TERM"] !== "dumb";
  }

  /** Draws it: at the beginning of a phase, and then some times a second. `share`: 0 to 1, left out where nobody knows. */
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

  /** Wipes it away, before anything else is printed. */
  end(): void {
    if (this.#isShown) this.#stream.write("\r\u001b[K");
  }
}
