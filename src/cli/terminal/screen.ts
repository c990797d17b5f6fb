import { endWaiting } from "./progress.ts";

const enter = "\u001b[?1049h\u001b[?25l\u001b[?7l";
const leave = "\u001b[?7h\u001b[?25h\u001b[?1049l";

/** What a terminal sends for each key, by the meaning of the key. */
const keys = {
  quit: ["q", "Q", "\u001b"],
  interrupt: ["\u0003"],
  suspend: ["\u001a"],
  up: ["\u001b[A", "\u001bOA", "k"],
  down: ["\u001b[B", "\u001bOB", "j"],
  "page-up": ["\u001b[5~", "\u001b[D"],
  "page-down": ["\u001b[6~", "\u001b[C", " "],
  first: ["\u001b[H", "g"],
  last: ["\u001b[F", "G"],
} as const;
const keyTexts = Object.entries(keys) as [keyof typeof keys, readonly string[]][];
const pressed = /\u001b(?:[[O][0-9;]*[A-Za-z~])?|[^\u001b]/g;

export type KeyPress = Exclude<keyof typeof keys, "suspend">;

/** A full-screen terminal. */
export interface Screen {
  size(): { readonly columns: number; readonly rows: number };
  /** Replaces the content of the screen by these lines, in one write. */
  show(lines: readonly string[]): void;
  /** Gives the terminal back. Repeatable. */
  close(): void;
}

/**
 * Opens the terminal of this process as a screen. Every end of the process but kill -9 restores the terminal.
 * @param redraw called when the size of the terminal has changed, or when the process is in the foreground again.
 */
export function openScreen(press: (key: KeyPress) => void, redraw: () => void): Screen {
  const { stdin, stdout } = process;
  let isOpen = false;

  function open(): void {
    isOpen = true;
    endWaiting();
    if (stdin.isTTY) stdin.setRawMode(true).resume();
    stdout.write(enter);
  }

  function close(): void {
    if (!isOpen) return;
    isOpen = false;
    if (stdin.isTTY) stdin.setRawMode(false).pause();
    stdout.write(leave);
  }

  /** Handles Ctrl-Z, which a terminal in raw mode passes on as a plain character. */
  function suspend(): void {
    close();
    process.once("SIGCONT", () => {
      open();
      redraw();
    });
    process.kill(process.pid, "SIGSTOP");
  }

  process.on("exit", close);
  // Restore before Node prints the error; otherwise it vanishes with the screen.
  process.on("uncaughtExceptionMonitor", close);
  stdout.on("resize", redraw);
  const read = (data: Buffer): void => {
    for (const [text] of data.toString().matchAll(pressed)) {
      const [key] = keyTexts.find(([, texts]) => texts.includes(text)) ?? [];
      if (key === "suspend") return suspend();
      if (key !== undefined) press(key);
    }
  };
  if (stdin.isTTY) stdin.on("data", read);
  open();
  return {
    size: () => ({ columns: stdout.columns || 80, rows: stdout.rows || 24 }),
    show(lines) {
      const text = lines.map((line) => `${line}\u001b[K`).join("\r\n");
      if (isOpen) stdout.write(`\u001b[?2026h\u001b[H${text}\u001b[J\u001b[?2026l`);
    },
    close,
  };
}
