import { expect, test } from "vitest";
import { Journal, type JournalEntry } from "../../src/http/monitoring/journal.ts";
import { fakeClock } from "../../src/testing.ts";

function make(kept?: number): { journal: Journal; lines: unknown[][]; entries: JournalEntry[] } {
  const lines: unknown[][] = [];
  const entries: JournalEntry[] = [];
  const write =
    (level: string) =>
    (...line: unknown[]): void =>
      void lines.push([level, ...line]);
  const log = { info: write("info"), warn: write("warn"), error: write("error") };
  const journal = new Journal(log, { clock: fakeClock(), ...(kept !== undefined && { kept }) });
  journal.on((entry) => entries.push(entry));
  return { journal, lines, entries };
}

const claimed = (workerId: number, namespace = "orders"): object => ({
  event: "claimed",
  namespace,
  workerId,
  fence: 1,
});

test("each log line of a namespace is an event with the same facts; a line without a namespace is no event", () => {
  const { journal, lines, entries } = make();
  journal.info({ event: "listening", url: "http://127.0.0.1:7070" }, "listening");
  journal.warn({ event: "strange", namespace: "orders" }, "strange");
  journal.error({ ...claimed(7), host: "here" }, "claimed");
  expect(lines.map(([level]) => level)).toEqual(["info", "warn", "error"]);
  expect(entries).toEqual([
    { number: 1, event: { ...claimed(7), host: "here", message: "claimed", at: fakeClock().now() } },
  ]);
});

test("a claim, a give-back and a loss are reported once, however often a caller repeats them", () => {
  const { journal, lines, entries } = make();
  for (const event of ["claimed", "released", "lost", "claimed", "released", "lost"]) {
    journal.info({ ...claimed(7), event }, event);
  }
  journal.info({ ...claimed(7), fence: 2 }, "claimed");
  journal.info(claimed(7, "other"), "claimed");
  for (const reason of ["a", "a"])
    journal.info({ event: "pinned", namespace: "orders", workerId: 7, reason }, "pinned");
  expect(entries.map(({ event }) => `${event.event} ${event.namespace} ${event.fence}`)).toEqual([
    "claimed orders 1",
    "released orders 1",
    "lost orders 1",
    "claimed orders 2",
    "claimed other 1",
    "pinned orders undefined",
    "pinned orders undefined",
  ]);
  expect(lines.length).toBe(entries.length);
});

test("its memory of reported events is bounded, and so is its store of events", () => {
  const { journal, entries } = make(10);
  for (let workerId = 0; workerId <= 10_000; workerId++) journal.info(claimed(workerId), "claimed");
  journal.info(claimed(0), "claimed");
  journal.info(claimed(10_000), "claimed");
  expect(entries.map(({ event }) => event.workerId).slice(-2)).toEqual([10_000, 0]);
  expect(journal.after("orders", "").entries.length).toBe(10);
});

test("a reader goes on after its place, in its namespace alone", () => {
  const { journal, entries } = make();
  journal.info(claimed(0), "claimed");
  const place = journal.placeOf();
  journal.info(claimed(1, "other"), "claimed");
  journal.info(claimed(2), "claimed");
  expect(journal.after("orders", place)).toEqual({ entries: entries.slice(2), missed: false });
  expect(journal.after("orders", journal.placeOf())).toEqual({ entries: [], missed: false });
});

test.each([
  ["nothing", ""],
  ["something else", "12"],
  ["a place of another run", "00000000-1"],
  ["a number too long", "x".repeat(100_000)],
])("%s is a place before everything: something may have been missed", (_, place) => {
  const { journal, entries } = make();
  journal.info(claimed(0), "claimed");
  expect(journal.after("orders", place)).toEqual({ entries, missed: true });
});

test("a future place is not a place of this journal", () => {
  const { journal, entries } = make();
  journal.info(claimed(0), "claimed");
  expect(journal.after("orders", journal.placeOf(2))).toEqual({ entries, missed: true });
});

test("a reader learns whether the events in between are still known", () => {
  const { journal, entries } = make(3);
  const places = [0, 1, 2, 3, 4].map((workerId) => {
    journal.info(claimed(workerId), "claimed");
    return journal.placeOf();
  });
  // The last three events are kept: after the second one nothing is missing, after the first one an event is.
  expect(journal.after("orders", places[1] ?? "")).toEqual({ entries: entries.slice(2), missed: false });
  expect(journal.after("orders", places[0] ?? "")).toEqual({ entries: entries.slice(2), missed: true });
});
