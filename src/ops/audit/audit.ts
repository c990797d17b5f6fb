import { setImmediate } from "node:timers/promises";
import type { EncodingName } from "../../id/encodings.ts";
import type { Layout } from "../../id/layout.ts";
import { type HolderLabel, type Registry, type WorkerRecord } from "../../rule/registry.ts";
import { defaultLimits } from "../../rule/limits.ts";
import { unheldReason } from "../unheld-reason.ts";
import { type HeldIntervals, readHeldIntervals } from "./interval-set.ts";
import { IdLines, idOf, type IdInput, readable } from "./id-lines.ts";
import { SortedRuns } from "./sorted-runs.ts";

/** A line of a source, from 1. */
interface SourceLine {
  readonly source: string;
  readonly line: number;
}

/** A defect of an ID, or of a line without one. */
export type AuditFinding = (
  | { readonly kind: "invalid"; readonly why: string }
  /** The layout has fewer bits. */
  | { readonly kind: "beyond"; readonly id: bigint }
  | { readonly kind: "duplicate"; readonly id: bigint; readonly times: number }
  /** No recorded holder at that time, and no record of a program that may have used the worker ID. `timestamp`: Unix ms. */
  | { readonly kind: "outside"; readonly id: bigint; readonly workerId: number; readonly timestamp: number }
) & {
  /** The first five. */
  readonly places: readonly SourceLine[];
};

/**
 * IDs of one worker ID outside of every window, whose maker needs no lease. foreign: `by` has it now, and records no windows. pinned:
 * it is out of the pool (`reason`), and the IDs are older than its first claim on record.
 */
export interface UnleasedIds {
  readonly kind: "foreign" | "pinned";
  readonly workerId: number;
  /** How many different IDs. */
  readonly ids: number;
  readonly by?: HolderLabel | undefined;
  readonly reason?: string | undefined;
}

/** The result of an audit. */
export interface Audit {
  /** Lines that hold an ID of the layout. */
  readonly ids: number;
  /** How many different IDs came more than once. */
  readonly duplicates: number;
  /** How many different IDs are in no window on record, less those of `notes`; undefined where no registry was asked. */
  readonly outside: number | undefined;
  /** How many different IDs `notes` has of each kind; undefined where no registry was asked. */
  readonly foreign: number | undefined;
  readonly pinned: number | undefined;
  /** How many lines hold an ID that the layout cannot. */
  readonly beyond: number;
  /** How many lines hold no ID at all. */
  readonly invalid: number;
  /** Of each kind the first so many. */
  readonly findings: readonly AuditFinding[];
  /** IDs that are no findings, by worker ID. */
  readonly notes: readonly UnleasedIds[];
}

/** The options of an audit. */
export interface AuditOptions {
  /** The form of the IDs. */
  readonly format: EncodingName;
  readonly layout: Layout;
  /** The registry whose history has the windows; without it only duplicates are found. */
  readonly windows?: { readonly registry: Registry; readonly namespace: string } | undefined;
  /** A time near the IDs' making, Unix ms: for a layout whose timestamp wraps. */
  readonly at?: number | undefined;
  /** How many findings of each kind to list. */
  readonly limit: number;
  /** Called now and then with how far the present phase has come; `bytes` only while reading. */
  readonly onProgress?: (progress: { phase: "reading" | "comparing"; ids: number; bytes?: number }) => void;
  /** IDs to sort in memory at a time, a power of two from 4096. Default 2^21. */
  readonly runLength?: number | undefined;
}

const mostPlaces = 5;

/**
 * Reads IDs and finds duplicates, and IDs that no recorded holder can have made. In bounded memory at any
 * number of IDs, but for the windows of each worker ID that occurs; beyond 2 million IDs on disk, 12 bytes each.
 * @throws SnowleaseError CONFIG_INVALID for a source that cannot be read, a full disk, or a missing `at`; what `history` throws.
 */
export async function audit(sources: Iterable<IdInput>, options: AuditOptions): Promise<Audit> {
  const { layout, windows, at } = options;
  // Refuse a missing `at` before anything is read.
  if (windows !== undefined) layout.decompose(0n, at);
  const report = new Report(options.limit);
  const runs = new SortedRuns(options.runLength);
  try {
    await read(sources, runs, report, options);
    await compare(runs, report, options);
  } finally {
    runs.close();
  }
  const { ids, counts, findings, notes } = report;
  const { duplicate: duplicates, beyond, invalid } = counts;
  const noted = (wanted: UnleasedIds["kind"]): number | undefined =>
    windows && notes.reduce((sum, { kind, ids }) => (kind === wanted ? sum + ids : sum), 0);
  return {
    ids,
    duplicates,
    outside: windows && counts.outside,
    foreign: noted("foreign"),
    pinned: noted("pinned"),
    beyond,
    invalid,
    findings,
    notes,
  };
}

/** The findings so far. */
class Report {
  readonly findings: AuditFinding[] = [];
  readonly counts: Record<AuditFinding["kind"], number> = { invalid: 0, beyond: 0, duplicate: 0, outside: 0 };
  ids = 0;
  readonly #notes = new Map<string, UnleasedIds & { ids: number }>();
  readonly #limit: number;
  /** Sources, and how many lines came before each. */
  readonly #sources: { readonly name: string; readonly before: number }[] = [];

  constructor(limit: number) {
    this.#limit = limit;
  }

  begin(name: string, before: number): void {
    this.#sources.push({ name, before });
  }

  /** The line that is the `place`-th of all. */
  placeOf(place: number): SourceLine {
    const source = this.#sources.findLast(({ before }) => before < place);
    return { source: source?.name ?? "", line: place - (source?.before ?? 0) };
  }

  /** By worker ID, ascending. */
  get notes(): readonly UnleasedIds[] {
    return [...this.#notes.values()].toSorted((a, b) => a.workerId - b.workerId || (a.kind < b.kind ? -1 : 1));
  }

  /** Counts an ID that is no finding. */
  note(note: Omit<UnleasedIds, "ids">): void {
    const key = `${note.kind} ${note.workerId}`;
    const noted = this.#notes.get(key);
    if (noted === undefined) this.#notes.set(key, { ...note, ids: 1 });
    else noted.ids++;
  }

  /** Counts a finding, and lists it where there is room. */
  add(kind: AuditFinding["kind"], finding: () => AuditFinding): void {
    if (this.counts[kind]++ < this.#limit) this.findings.push(finding());
  }
}

async function read(
  sources: Iterable<IdInput>,
  runs: SortedRuns,
  report: Report,
  { format, layout, onProgress }: AuditOptions,
): Promise<void> {
  let before = 0;
  let bytes = 0;
  for (const source of sources) {
    const start = before;
    const placesOf = (line: number): SourceLine[] => [report.placeOf(start + line)];
    report.begin(source.name, start);
    const lines = new IdLines(format, layout.totalBits, {
      id(upper, lower, line) {
        report.ids++;
        runs.add(upper, lower, start + line);
      },
      beyond: (id, line) => report.add("beyond", () => ({ kind: "beyond", id, places: placesOf(line) })),
      invalid: (why, line) => report.add("invalid", () => ({ kind: "invalid", why, places: placesOf(line) })),
    });
    for await (const chunk of readable(source)) {
      lines.feed(chunk);
      bytes += chunk.length;
      onProgress?.({ phase: "reading", ids: report.ids, bytes });
    }
    lines.end();
    before += lines.lines;
  }
}

async function compare(
  runs: SortedRuns,
  report: Report,
  { layout, windows, at, onProgress }: AuditOptions,
): Promise<void> {
  const heldBy = new Map<number, HeldIntervals>();
  const isElsewheres = windows === undefined ? undefined : await unleased(windows, report);
  // The present ID, by its halves.
  let upper = 0;
  let lower = 0;
  let times = 0;
  const first: number[] = [];
  let outside: { readonly workerId: number; readonly timestamp: number } | undefined;
  let ids = 0;

  const conclude = (): void => {
    if (times < 2 && outside === undefined) return;
    const id = idOf(upper, lower);
    const places = (): SourceLine[] => first.map((place) => report.placeOf(place));
    if (times > 1) report.add("duplicate", () => ({ kind: "duplicate", id, times, places: places() }));
    const made = outside;
    if (made !== undefined) report.add("outside", () => ({ kind: "outside", id, ...made, places: places() }));
  };

  for (const { count, uppers, lowers, places } of runs.merged()) {
    for (let i = 0; i < count; i++) {
      const place = places[i] as number;
      if (times > 0 && lowers[i] === lower && uppers[i] === upper) {
        if (times++ < mostPlaces) first.push(place);
        continue;
      }
      conclude();
      upper = uppers[i] as number;
      lower = lowers[i] as number;
      times = 1;
      first.length = 0;
      first.push(place);
      outside = undefined;
      if (windows === undefined) continue;
      const { workerId, timestamp } = layout.decompose(idOf(upper, lower), at);
      let held = heldBy.get(workerId);
      if (held === undefined) {
        held = await readHeldIntervals(windows.registry, windows.namespace, workerId, layout);
        heldBy.set(workerId, held);
      }
      if (held.has(timestamp) || (await isElsewheres?.(workerId, timestamp, held)) === true) continue;
      outside = { workerId, timestamp };
    }
    ids += count;
    onProgress?.({ phase: "comparing", ids });
    // The registry's connection wants its turn.
    await setImmediate();
  }
  conclude();
}

/** Recognizes and notes an ID outside of every window that a program without a lease may have made. Looks up each worker ID once. */
async function unleased(
  { registry, namespace }: NonNullable<AuditOptions["windows"]>,
  report: Report,
): Promise<(workerId: number, timestamp: number, held: HeldIntervals) => Promise<boolean>> {
  const { maxClockSkew } = (await registry.describe(namespace)) ?? defaultLimits;
  const latest = (await registry.ping()).clock + maxClockSkew;
  const records = new Map<number, WorkerRecord | undefined>();
  return async (workerId, timestamp, held) => {
    if (!records.has(workerId)) records.set(workerId, await registry.worker(namespace, workerId));
    const record = records.get(workerId);
    const kind = unheldReason(record, timestamp > latest, held.first < timestamp);
    if (kind === "foreign") report.note({ kind, workerId, by: record?.holder });
    else if (kind === "pinned") report.note({ kind, workerId, reason: record?.pinned });
    else return false;
    return true;
  };
}
