import { once } from "node:events";
import { configInvalid, type SnowleaseError } from "../../id/errors.ts";
import { endWaiting } from "./progress.ts";
import { printable, printableJson, printableLines } from "../../id/printable.ts";

/** The output gathers texts up to this size, so that a million short lines are not a million writes. */
const chunkSize = 65_536;

/** The stdout of a command. If its reader goes away (`| head`), the output ends without an error, and `closed` lets the command stop. */
export class Output {
  readonly #stream: NodeJS.WriteStream;
  readonly #closed = new AbortController();
  #pending = "";
  #failure: SnowleaseError | undefined;

  constructor(stream: NodeJS.WriteStream = process.stdout) {
    this.#stream = stream;
    stream.on("error", (error: NodeJS.ErrnoException) => {
      // A reader that went away (EPIPE) is no error. A full disk is one.
      if (error.code !== "EPIPE") {
        this.#failure ??= configInvalid(`The output cannot be written (${error.message}); write it somewhere else.`);
      }
      this.#closed.abort();
    });
  }

  /** Aborts when the reader has gone. */
  get closed(): AbortSignal {
    return this.#closed.signal;
  }

  /** Prints a line at once. */
  async line(text: string): Promise<void> {
    await this.add(`${text}\n`);
    await this.flush();
  }

  /** Prints a value as one line of JSON, at once. */
  json(value: unknown): Promise<void> {
    return this.line(printableJson(JSON.stringify(value)));
  }

  /** Prints a text, at once or with later text. Resolves when there is room for more. */
  add(text: string): Promise<void> | undefined {
    this.#pending += text;
    return this.#pending.length < chunkSize ? undefined : this.flush();
  }

  /** Writes the gathered text. */
  async flush(): Promise<void> {
    const text = printableLines(this.#pending);
    this.#pending = "";
    if (text !== "") endWaiting();
    if (text === "" || this.closed.aborted || this.#stream.write(text)) return;
    await once(this.#stream, "drain", { signal: this.closed }).catch(() => undefined);
  }

  /** Prints the rest. Throws CONFIG_INVALID, once, if some of the output could not be written. A reader that went away is no error. */
  async end(): Promise<void> {
    await this.flush();
    if (!this.closed.aborted) await new Promise((resolve) => this.#stream.write("", resolve));
    const failure = this.#failure;
    this.#failure = undefined;
    if (failure !== undefined) throw failure;
  }
}

/** Lines as one text, without the lines that are false. */
export function linesOf(...lines: readonly (string | false)[]): string {
  return lines.filter((line) => line !== false).join("\n");
}

/** Prints values as a JSON array, one value a line. */
export async function jsonList(output: Output, values: Iterable<unknown> | AsyncIterable<unknown>): Promise<void> {
  let before = "[";
  for await (const value of values) {
    await output.add(`${before}${printableJson(JSON.stringify(value))}`);
    if (output.closed.aborted) return;
    before = ",\n ";
  }
  await output.line(before === "[" ? "[]" : "]");
}

/** A row of a table. */
type Cells = readonly (string | number)[];

/** How many rows of a long table set the widths of its columns. */
const rowsMeasured = 1000;

/** Rows with aligned columns, under a heading. Numbers are right-aligned if the whole column holds numbers. */
export function table(heading: readonly string[], rows: readonly Cells[]): string {
  const lineOf = aligner(heading, rows);
  return [heading, ...rows].map(lineOf).join("\n");
}

/** Prints a table of any length: its first 1,000 rows set the widths. Returns whether there was a row. */
export async function longTable(
  output: Output,
  heading: readonly string[],
  rows: AsyncIterable<Cells>,
): Promise<boolean> {
  const first: Cells[] = [];
  let lineOf: ((row: Cells) => string) | undefined;
  for await (const row of rows) {
    if (lineOf === undefined) {
      first.push(row);
      if (first.length < rowsMeasured) continue;
      lineOf = aligner(heading, first);
      await output.add(`${[heading, ...first].map(lineOf).join("\n")}\n`);
      continue;
    }
    await output.add(`${lineOf(row)}\n`);
    if (output.closed.aborted) return true;
  }
  if (lineOf === undefined && first.length > 0) await output.add(`${table(heading, first)}\n`);
  await output.flush();
  return first.length > 0;
}

/** Makes lines from rows, with columns that fit these rows. */
function aligner(heading: readonly string[], rows: readonly Cells[]): (row: Cells) => string {
  const textOf = (cell: string | number): string => printable(String(cell));
  const widths = heading.map((name, column) =>
    rows.reduce((width, row) => Math.max(width, textOf(row[column] ?? "").length), name.length),
  );
  const numeric = heading.map((_, column) => rows.every((row) => typeof row[column] === "number"));
  return (row) =>
    row
      .map(textOf)
      .map((cell, column) =>
        numeric[column] === true ? cell.padStart(widths[column] ?? 0) : cell.padEnd(widths[column] ?? 0),
      )
      .join("  ")
      .trimEnd();
}
