const enter = "\u001b[?1049h\u001b[?25l\u001b[?7l";
const leave = "\u001b[?7h\u001b[?25h\u001b[?1049l";

/** A key, by its meaning. */
export type KeyPress = "quit" | "interrupt" | "up" | "down" | "page-up" | "page-down" | "first" | "last";

const keys: Readonly<Record<string, KeyPress>> = {
  q: "quit",
  Q: "quit",
  "\u001b": "quit",
  "\u0003": "interrupt",
  "\u001b[A": "up",
  "\u001bOA": "up",
  k: "up",
  "\u001b[B": "down",
  "\u001bOB": "down",
  j: "down",
  "\u001b[5~": "page-up",
  "\u001b[D": "page-up",
  "\u001b[6~": "page-down",
  "\u001b[C": "page-down",
  " ": "page-down",
  "\u001b[H": "first",
  g: "first",
  "\u001b[F": "last",
  G: "last",
};
const pressed = /\u001b(?:[[O][0-9;]*[A-Za-z~])?|[^\u001b]/g;

/** A full-screen terminal. Every end of the process but kill -9 restores the terminal. */
export class Screen {
  readonly #output: NodeJS.WriteStream;
  readonly #input: NodeJS.ReadStream;
  readonly #redraw: () => void;
  readonly #restore = (): void => this.close();
  readonly #resume = (): void => this.#open();
  readonly #read: (data: Buffer) => void;
  #isOpen = false;

  /** `redraw` is called when the terminal has another size, or is in the foreground again. */
  constructor(
    { press, redraw }: { readonly press: (key: KeyPress) => void; readonly redraw: () => void },
    output: NodeJS.WriteStream = process.stdout,
    input: NodeJS.ReadStream = process.stdin,
  ) {
    this.#output = output;
    this.#input = input;
    this.#redraw = redraw;
    this.#read = (data) => {
      for (const [text] of data.toString().matchAll(pressed)) {
        if (text === "\u001a") return this.#suspend();
        const key = keys[text];
        if (key !== undefined) press(key);
      }
    };
    process.on("exit", this.#restore);
    // Restore before Node prints the error; otherwise it vanishes with the screen.
    process.on("uncaughtExceptionMonitor", this.#restore);
    output.on("resize", redraw);
    if (input.isTTY) input.on("data", this.#read);
    this.#open();
  }

  get columns(): number {
    return this.#output.columns || 80;
  }

  get rows(): number {
    return this.#output.rows || 24;
  }

  /** Replaces the screen by these lines, in one write. */
  show(lines: readonly string[]): void {
    if (!this.#isOpen) return;
    this.#output.write(
      `\u001b[?2026h\u001b[H${lines.map((line) => `${line}\u001b[K`).join("\r\n")}\u001b[J\u001b[?2026l`,
    );
  }

  /** Gives the terminal back. Repeatable. */
  close(): void {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    if (this.#input.isTTY) this.#input.setRawMode(false).pause();
    this.#output.write(leave);
  }

  /** The same for good. */
  end(): void {
    this.close();
    process.off("exit", this.#restore);
    process.off("uncaughtExceptionMonitor", this.#restore);
    process.off("SIGCONT", this.#resume);
    this.#output.off("resize", this.#redraw);
    this.#input.off("data", this.#read);
  }

  #open(): void {
    if (this.#isOpen) return;
    this.#isOpen = true;
    if (this.#input.isTTY) this.#input.setRawMode(true).resume();
    this.#output.write(enter);
    this.#redraw();
  }

  /** Ctrl-Z, which the terminal passes on as it is. */
  #suspend(): void {
    this.close();
    process.once("SIGCONT", this.#resume);
    process.kill(process.pid, "SIGSTOP");
  }
}
