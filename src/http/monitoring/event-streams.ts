import { SnowleaseError } from "../../id/errors.ts";
import type { Journal, JournalEntry } from "./journal.ts";

/** Limits of event streams. */
export interface StreamLimits {
  /** How often a quiet stream shows that it is alive, ms. Proxies cut quiet connections after a much longer time. Default 15 s. */
  readonly heartbeat: number;
  /** Most streams at once. Default 64. One token may have a quarter of them. */
  readonly streams: number;
  /** How many bytes may wait for a reader before its stream ends. Default 256 KiB. */
  readonly backlog: number;
}

/** The part of the streams that one token may have. */
const share = 1 / 4;
/** A stream ends if its reader takes nothing during this many heartbeats. */
const mostMissed = 4;

const usualLimits: StreamLimits = { heartbeat: 15_000, streams: 64, backlog: 256 * 1024 };
/** How long a browser waits before it connects again after its stream has ended, ms. */
const retry = 2000;

const encoder = new TextEncoder();

interface EventStream {
  readonly namespace: string;
  readonly client: string | undefined;
  readonly admit: () => void;
  readonly controller: ReadableStreamDefaultController<Uint8Array>;
  /** How many bytes may wait for the reader. */
  readonly room: number;
  /** Bytes that the reader had taken by the last heartbeat, and bytes sent to it so far. */
  taken: number;
  sent: number;
  /** Heartbeats in a row at which bytes waited and the reader had taken none. */
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

  /** How many streams were ended because their readers were too slow. */
  get cut(): number {
    return this.#cut;
  }

  /**
   * The events of a namespace from now on, or after a `Last-Event-ID`. The stream ends when the reader does not keep up.
   * @param client identifies the reader. @param admit throws when the reader may no longer read the stream. `review` calls it.
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
    // The first chunk does not count against the backlog, so that a reader that missed many events can reconnect.
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

  /** Ends all streams. `start` throws from then on. */
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

  /** A block without data is not an event, but the reader keeps its ID. So events of other namespaces do not count as missed. */
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

  /** Bytes that wait for the reader are still delivered. The server ends the connection of a reader that takes nothing at all. */
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
