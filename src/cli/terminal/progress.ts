const width = 30;
/** The time between two drawings, and between two lines of a log, ms. */
const [drawInterval, logInterval] = [100, 10_000];
/** How long a command waits before it shows that it waits, ms. */
const silence = 1000;
const stream = process.stderr;

let isDrawn = false;
/** The timer of the wait that is shown now. */
let waiting: NodeJS.Timeout | undefined;

/** Shows on stderr what a command does: a bar on a terminal, otherwise, as in a log, a line each 10 s. */
export class Progress {
  #phase = "";
  #shownAt = performance.now();

  /** Shows the start of a phase on a terminal, then its progress. `share`: 0 to 1, left out if it is unknown. */
  show(phase: string, detail: string, share?: number): void {
    endWaiting();
    const now = performance.now();
    const isNew = isTerminal() && phase !== this.#phase;
    if (!isNew && now - this.#shownAt < (isTerminal() ? drawInterval : logInterval)) return;
    this.#phase = phase;
    this.#shownAt = now;
    draw(`${phase} ${detail}`.trimEnd(), share);
  }

  /** Clears the bar; call it before other output to stderr. */
  end(): void {
    clearProgress();
  }
}

/**
 * After a second of work, shows what the command waits for, and how long it has waited. This ends with the work, or when the command
 * shows something else. `what`: such as `redis://db`, without secrets.
 */
export async function whileWaiting<Result>(what: string, work: () => Promise<Result>): Promise<Result> {
  endWaiting();
  const begun = performance.now();
  let shownAt = begun;
  const timer = setInterval(() => {
    const now = performance.now();
    if (!isTerminal() && now - shownAt < logInterval) return;
    shownAt = now;
    draw(`waiting for ${what}, ${Math.round((now - begun) / 1000)} s`);
  }, silence);
  timer.unref();
  waiting = timer;
  try {
    return await work();
  } finally {
    if (waiting === timer) endWaiting();
  }
}

/** Ends the display of a wait, since the command shows something else now. */
export function endWaiting(): void {
  if (waiting === undefined) return;
  clearInterval(waiting);
  waiting = undefined;
  clearProgress();
}

/** Clears the line of a terminal that shows what a command does. */
function clearProgress(): void {
  if (!isDrawn) return;
  isDrawn = false;
  stream.write("\r\u001b[K");
}

function isTerminal(): boolean {
  return stream.isTTY && process.env["TERM"] !== "dumb";
}

function draw(text: string, share?: number): void {
  const percent = share === undefined ? undefined : Math.floor(Math.min(1, share) * 100);
  if (!isTerminal()) {
    stream.write(`snowlease: ${text}${percent === undefined ? "" : ` (${percent} %)`}\n`);
    return;
  }
  const filled = "=".repeat(Math.round(((percent ?? 0) / 100) * width)).padEnd(width);
  const line = percent === undefined ? text : `[${filled}] ${percent} % ${text}`;
  // A line that wraps cannot be cleared.
  stream.write(`\r\u001b[K${line.slice(0, Math.max(1, (stream.columns || 80) - 1))}`);
  isDrawn = true;
}
