import { randomBytes } from "node:crypto";
import { type Clock, systemClock } from "../../clock.ts";
import type { Log } from "../../serving/log.ts";

/** What may become of a lease or a worker ID, as far as a daemon sees it. */
export const eventNames = [
  "claimed",
  "taken-over",
  "released",
  "lost",
  "switched",
  "renew-failed",
  "forced",
  "pinned",
  "unpinned",
  "quarantine",
  "refused",
  "overdue",
  "clock.rollback",
  "clock.jump",
] as const;

export type EventName = (typeof eventNames)[number];

/** One event of a namespace: the facts of its line in the log, less the level. */
export interface JournalEvent {
  readonly event: EventName;
  readonly namespace: string;
  readonly workerId?: number | undefined;
  readonly fence?: number | undefined;
  readonly message: string;
  /** The daemon's clock, Unix ms. */
  readonly at: number;
  readonly [fact: string]: unknown;
}

/** An event and its number, which counts from 1 in each run of a daemon. */
export interface JournalEntry {
  readonly number: number;
  readonly event: JournalEvent;
}

/** Where a reader goes on. `missed`: what came between is no longer known. */
export interface Continuation {
  readonly entries: readonly JournalEntry[];
  readonly missed: boolean;
}

type JournalListener = (entry: JournalEntry) => void;

/** Of as many events it is remembered that they were told. */
const longestMemory = 10_000;
const names: ReadonlySet<unknown> = new Set(eventNames);
/** What happens once to a claim, and may be asked for again and again. */
const onceAClaim: ReadonlySet<EventName> = new Set(["claimed", "released", "lost"]);
const place = /^([0-9a-f]{8})-(\d{1,15})$/;

/**
 * The log of a daemon, and the source of its events: a line that names an event and a namespace is one. So log, streams and figures
 * cannot differ. Keeps the last events for readers who come again.
 */
export class Journal implements Log {
  readonly info: Log["info"] = (fields, message) => this.#write("info", fields, message);
  readonly warn: Log["warn"] = (fields, message) => this.#write("warn", fields, message);
  readonly error: Log["error"] = (fields, message) => this.#write("error", fields, message);
  readonly #log: Log;
  readonly #clock: Clock;
  readonly #kept: number;
  readonly #entries: JournalEntry[] = [];
  readonly #told = new Set<string>();
  readonly #listeners = new Set<JournalListener>();
  /** Tells the places of this run from those of an earlier one. */
  readonly #run: string = randomBytes(4).toString("hex");
  #last = 0;

  /** `kept`: how many events it remembers, of all namespaces together. Default 1000. */
  constructor(log: Log, { clock = systemClock, kept = 1000 }: { readonly clock?: Clock; readonly kept?: number } = {}) {
    this.#log = log;
    this.#clock = clock;
    this.#kept = kept;
  }

  /** Adds a listener for events, and returns the function that takes it away again. */
  on(listener: JournalListener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** The name of a place in the journal: behind the event of this number, or the newest one. */
  placeOf(number: number = this.#last): string {
    return `${this.#run}-${number}`;
  }

  /** What came behind a place, in one namespace. A place of another run, or none at all, is before everything. */
  after(namespace: string, text: string): Continuation {
    const [, run, digits] = place.exec(text) ?? [];
    const isOurs = run === this.#run && Number(digits) <= this.#last;
    const number = isOurs ? Number(digits) : 0;
    const entries = this.#entries.filter((entry) => entry.number > number && entry.event.namespace === namespace);
    return { entries, missed: !isOurs || number < this.#last - this.#entries.length };
  }

  #write(level: keyof Log, fields: object, message: string): void {
    if (!isEvent(fields)) return this.#log[level](fields, message);
    if (this.#repeats(fields)) return;
    this.#log[level](fields, message);
    const event: JournalEvent = { ...fields, message, at: this.#clock.now() };
    const entry = { number: ++this.#last, event };
    if (this.#entries.push(entry) > this.#kept) this.#entries.shift();
    for (const listener of this.#listeners) listener(entry);
  }

  #repeats({ event, namespace, workerId, fence }: EventFields): boolean {
    if (!onceAClaim.has(event) || fence === undefined) return false;
    const key = `${event} ${namespace} ${workerId} ${fence}`;
    if (this.#told.has(key)) return true;
    this.#told.add(key);
    if (this.#told.size > longestMemory) for (const oldest of this.#told) return !this.#told.delete(oldest);
    return false;
  }
}

type EventFields = Pick<JournalEvent, "event" | "namespace" | "workerId" | "fence">;

function isEvent(fields: object): fields is EventFields {
  return "event" in fields && names.has(fields.event) && "namespace" in fields;
}
