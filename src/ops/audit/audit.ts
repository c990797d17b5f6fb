import { setImmediate } from "node:timers/promises";
import type { EncodingName } from "../../id/encodings.ts";
import type { Layout } from "../../id/layout.ts";
import { type HolderLabel, type Registry, type WorkerRecord } from "../../rule/registry.ts";
import { defaultLimits } from "../../rule/limits.ts";
import { unheldReason } from "../unheld-reason.ts";
import { type HeldIntervals, readHeldIntervals } from "./interval-set.ts";
import { IdLines, idOf, type IdInput, readable } from "./id-lines.ts";
import { SortedRuns } from "./sorted-runs.ts";

/** A line of a source. Lines count from 1. */
interface SourceLine {
  readonly source: string;
  readonly line: number;
}

/** A defect of an ID, or of a line without one. */
export type AuditFinding = (
  | { readonly kind: "invalid"; readonly why: string }
  /** The ID has more bits than the layout. */
  | { readonly kind: "beyond"; readonly id: bigint }
  | { readonly kind: "duplicate"; readonly id: bigint; readonly times: number }
  /** The registry has neither a holder at that time nor a record of a program that may have used the worker ID. `timestamp`: Unix ms. */
  | { readonly kind: "outside"; readonly id: bigint; readonly workerId: number; readonly timestamp: number }
) & {
  /** The first five places. */
  readonly places: readonly SourceLine[];
};

/**
 * IDs of one worker ID outside of every window, from a program that needs no lease. foreign: `by` has the worker ID now, and records no
 * windows. pinned: it is out of the pool (`reason`), and the IDs are older than its first claim on record.
 */
export interface UnleasedIds {
  readonly kind: "foreign" | "pinned";
  readonly workerId: number;
  /** Number of different IDs. */
  readonly ids: number;
  readonly by?: HolderLabel | undefined;
  readonly reason?: string | undefined;
}

/** The result of an audit. */
export interface Audit {
  /** Number of lines with an ID of the layout. */
  readonly ids: number;
  /** Number of different IDs that occur more than once. */
  readonly duplicates: number;
  /** Number of different IDs outside of every recorded window, without the IDs of `notes`. Undefined without a registry. */
  readonly outside: number | undefined;
  /** Number of different IDs that `notes` has of each kind. Undefined without a registry. */
  readonly foreign: number | undefined;
  readonly pinned: number | undefined;
  /** Number of lines with an ID that the layout cannot hold. */
  readonly beyond: number;
  /** Number of lines without an ID. */
  readonly invalid: number;
  /** The first findings of each kind, up to `limit`. */
  readonly findings: readonly AuditFinding[];
  /** IDs outside of every window that are not findings, by worker ID. */
  readonly notes: readonly UnleasedIds[];
}

/** The options of an audit. */
export interface AuditOptions {
  /** The form of the IDs. */
  readonly format: EncodingName;
  readonly layout: Layout;
  /** The registry with the recorded windows. Without it, the audit does not check windows. */
  readonly windows?: { readonly registry: Registry; readonly namespace: string } | undefined;
  /** A time near the creation of the IDs, Unix ms. A layout whose timestamp wraps needs it. */
  readonly at?: number | undefined;
  /** How many findings of each kind to list. */
  readonly limit: number;
  /** Called regularly with the progress of the present phase. `bytes` is given only while reading. */
  readonly onProgress?: (progress: { phase: "reading" | "comparing"; ids: number; bytes?: number }) => void;
  /** IDs to sort in memory at a time, a power of two from 4096. Default 2^21. */
  readonly runLength?: number | undefined;
}

const mostPlaces = 5;

/**
 * Reads IDs, and finds duplicates and IDs that no recorded holder can have made. Memory is bounded for any number of IDs, except for the
 * windows of each worker ID that occurs. Above 2 million IDs, it needs 12 bytes of disk for each ID.
 * @throws SnowleaseError CONFIG_INVALID for a source that cannot be read, a full disk, or a missing `at`; the errors of `history`.
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
  /** Sources, each with the number of lines before it. */
  readonly #sources: { readonly name: string; readonly before: number }[] = [];

  constructor(limit: number) {
    this.#limit = limit;
  }

  begin(name: string, before: number): void {
    this.#sources.push({ name, before });
  }

  /** The line at a place in all sources together. Places count from 1. */
  placeOf(place: number): SourceLine {
    const source = this.#sources.findLast(({ before }) => before < place);
    return { source: source?.name ?? "", line: place - (source?.before ?? 0) };
  }

  /** The notes, by ascending worker ID. */
  get notes(): readonly UnleasedIds[] {
    return [...this.#notes.values()].toSorted((a, b) => a.workerId - b.workerId || (a.kind < b.kind ? -1 : 1));
  }

  /** Counts an ID that is not a finding. */
  note(note: Omit<UnleasedIds, "ids">): void {
    const key = `${note.kind} ${note.workerId}`;
    const noted = this.#notes.get(key);
    if (noted === undefined) this.#notes.set(key, { ...note, ids: 1 });
    else noted.ids++;
  }

  /** Counts a finding, and lists it if the limit allows it. */
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
  // The halves of the present ID.
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
    // Let the registry's connection work.
    await setImmediate();
  }
  conclude();
}

/** Returns a function that notes an ID outside of every window if a program without a lease may have made it. Reads each worker ID once. */
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
