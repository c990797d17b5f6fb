import { randomBytes } from "node:crypto";
import { type Clock, systemClock } from "../../clock.ts";
import type { Log } from "../../serving/log.ts";

/** What can happen to a lease or a worker ID, as far as a daemon sees it. */
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

/** One event of a namespace: the facts of its line in the log, without the level. */
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

/** An event and its number. Numbers begin at 1 in each run of a daemon. */
export interface JournalEntry {
  readonly number: number;
  readonly event: JournalEvent;
}

/** The entries with which a reader continues. `missed`: some entries before them are no longer known. */
export interface Continuation {
  readonly entries: readonly JournalEntry[];
  readonly missed: boolean;
}

type JournalListener = (entry: JournalEntry) => void;

/** How many events of `onceAClaim` are remembered, so that none is written twice. */
const longestMemory = 10_000;
const names: ReadonlySet<unknown> = new Set(eventNames);
/** Events that happen once to a claim, although a client may repeat the request. */
const onceAClaim: ReadonlySet<EventName> = new Set(["claimed", "released", "lost"]);
const place = /^([0-9a-f]{8})-(\d{1,15})$/;

/**
 * The log of a daemon, and the source of its events. A line that names an event and a namespace is an event. So log, streams and
 * figures cannot differ. Keeps the last events for readers that reconnect.
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
  /** Distinguishes the places of this run from those of an earlier run. */
  readonly #run: string = randomBytes(4).toString("hex");
  #last = 0;

  /** `kept`: how many events the journal remembers, of all namespaces together. Default 1000. */
  constructor(log: Log, { clock = systemClock, kept = 1000 }: { readonly clock?: Clock; readonly kept?: number } = {}) {
    this.#log = log;
    this.#clock = clock;
    this.#kept = kept;
  }

  /** Adds a listener for events. Returns the function that removes it. */
  on(listener: JournalListener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** The name of a place in the journal: after the event with this number. Default: after the newest event. */
  placeOf(number: number = this.#last): string {
    return `${this.#run}-${number}`;
  }

  /** The events of one namespace after a place. A place of another run, or an invalid one, counts as the beginning. */
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
