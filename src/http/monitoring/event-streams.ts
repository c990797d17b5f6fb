import { SnowleaseError } from "../../id/errors.ts";
import type { Journal, JournalEntry } from "./journal.ts";

/** What streams may take. */
export interface StreamLimits {
  /** How often a stream in which nothing happens shows that it lives, ms: well below what proxies cut after. Default 15 s. */
  readonly heartbeat: number;
  /** How many there may be at once. Default 64; one token may have a quarter of them. */
  readonly streams: number;
  /** What may wait for a reader before its stream ends, bytes. Default 256 KiB. */
  readonly backlog: number;
}

/** Of the streams, those that one token may have. */
const share = 1 / 4;
/** Heartbeats after which a reader that has taken nothing in between is gone. */
const mostMissed = 4;

const usualLimits: StreamLimits = { heartbeat: 15_000, streams: 64, backlog: 256 * 1024 };
/** When a browser comes again after its stream has ended, ms. */
const retry = 2000;

const encoder = new TextEncoder();

interface EventStream {
  readonly namespace: string;
  readonly client: string | undefined;
  readonly admit: () => void;
  readonly controller: ReadableStreamDefaultController<Uint8Array>;
  /** What may wait for the reader, bytes. */
  readonly room: number;
  /** What the reader had taken by the last heartbeat, and what it was sent so far, bytes. */
  taken: number;
  sent: number;
  /** Heartbeats in a row between which the reader took nothing of what waited. */
  missed: number;
}

/** The readers of a journal's events, as server-sent events. */
export class EventStreams {
  readonly #journal: Journal;
  readonly #limits: StreamLimits;
  readonly #streams = new Set<EventStream>();
  readonly #silence: () => void;
  #heart: NodeJS.Timeout | undefined;
  #cut = 0;
  #closed = false;

  constructor(journal: Journal, limits: Partial<StreamLimits> = {}) {
    this.#journal = journal;
    this.#limits = { ...usualLimits, ...limits };
    this.#silence = journal.on((entry) => this.#tell(entry));
  }

  get open(): number {
    return this.#streams.size;
  }

  /** How many were ended because their readers were too slow. */
  get cut(): number {
    return this.#cut;
  }

  /**
   * The events of a namespace from now on, or from behind a `Last-Event-ID`. Ends when the reader does not keep up.
   * @param client tells its reader from others. @param admit throws when its reader may no longer read it: `review` calls it.
   * @throws SnowleaseError RATE_LIMITED when there are too many; REGISTRY_UNAVAILABLE once closed.
   */
  start(
    namespace: string,
    lastEventId: string | null,
    client: string | undefined,
    admit: () => void,
  ): ReadableStream<Uint8Array> {
    if (this.#closed) {
      throw new SnowleaseError("REGISTRY_UNAVAILABLE", "This daemon is shutting down; read another one's events.");
    }
    const { streams, backlog, heartbeat } = this.#limits;
    const own = [...this.#streams].filter((stream) => client !== undefined && stream.client === client).length;
    const isFull = this.#streams.size >= streams;
    if (isFull || own >= streams * share) {
      const which = isFull ? `${streams} event streams of this daemon` : `${own} event streams that one token may have`;
      const what = `All ${which} are in use; end one, or try again later.`;
      throw new SnowleaseError("RATE_LIMITED", what, { retryAfterMs: heartbeat });
    }
    const { entries = [], missed = false } = lastEventId === null ? {} : this.#journal.after(namespace, lastEventId);
    const texts = [
      `retry: ${retry}\n`,
      ...(missed ? ["event: missed\ndata: {}\n\n"] : []),
      ...entries.map((entry) => this.#textOf(entry)),
      this.#mark(),
    ];
    const first = encoder.encode(texts.join(""));
    // What is sent at once may be as long as it is: a reader that comes again must not fail for what it missed.
    const room = backlog + first.byteLength;
    let stream: EventStream;
    return new ReadableStream<Uint8Array>(
      {
        start: (controller) => {
          controller.enqueue(first);
          stream = { namespace, client, admit, controller, room, taken: 0, sent: first.byteLength, missed: 0 };
          this.#streams.add(stream);
          this.#heart ??= setInterval(() => this.#beat(), heartbeat).unref();
        },
        cancel: () => this.#forget(stream),
      },
      new ByteLengthQueuingStrategy({ highWaterMark: room }),
    );
  }

  /** Ends the streams whose readers lost the right to read them. */
  review(): void {
    for (const stream of this.#streams) {
      try {
        stream.admit();
      } catch {
        this.#end(stream);
      }
    }
  }

  /** Ends all streams; there are none from then on. */
  close(): void {
    this.#closed = true;
    this.#silence();
    for (const stream of this.#streams) this.#end(stream);
  }

  #tell(entry: JournalEntry): void {
    if (this.#streams.size === 0) return;
    const chunk = encoder.encode(this.#textOf(entry));
    for (const stream of this.#streams) if (stream.namespace === entry.event.namespace) this.#send(stream, chunk);
  }

  #beat(): void {
    const chunk = encoder.encode(this.#mark());
    for (const stream of this.#streams) {
      const waiting = stream.room - (stream.controller.desiredSize ?? 0);
      const taken = stream.sent - waiting;
      stream.missed = waiting > 0 && taken === stream.taken ? stream.missed + 1 : 0;
      stream.taken = taken;
      if (stream.missed < mostMissed) this.#send(stream, chunk);
      else this.#cutOff(stream);
    }
  }

  #textOf({ number, event }: JournalEntry): string {
    return `id: ${this.#journal.placeOf(number)}\nevent: ${event.event}\ndata: ${JSON.stringify(event)}\n\n`;
  }

  /** A block without data is no event; its ID counts all the same, so that events of other namespaces are not missed ones. */
  #mark(): string {
    return `id: ${this.#journal.placeOf()}\n\n`;
  }

  #send(stream: EventStream, chunk: Uint8Array): void {
    stream.controller.enqueue(chunk);
    stream.sent += chunk.byteLength;
    if ((stream.controller.desiredSize ?? 0) <= 0) this.#cutOff(stream);
  }

  #cutOff(stream: EventStream): void {
    this.#cut++;
    this.#end(stream);
  }

  /** What waits for the reader is still delivered. The server ends the connection of a reader that takes nothing at all. */
  #end(stream: EventStream): void {
    stream.controller.close();
    this.#forget(stream);
  }

  #forget(stream: EventStream): void {
    this.#streams.delete(stream);
    if (this.#streams.size > 0) return;
    clearInterval(this.#heart);
    this.#heart = undefined;
  }
}
