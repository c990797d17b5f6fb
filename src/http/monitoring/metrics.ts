import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry as Collection } from "prom-client";
import { type Clock, monotonic } from "../../lease/clock.ts";
import { type ErrorCode, errorCodes } from "../../id/errors.ts";
import type { PoolBounds } from "../../id/pool-bounds.ts";
import type { Lease } from "../../lease/lease.ts";
import type { Pong, Registry } from "../../rule/registry.ts";
import { Survey } from "../../ops/pool/survey.ts";
import { SharedLook } from "../../ops/shared-look.ts";
import type { InstrumentedCall } from "../../ops/instrumented.ts";
import type { Connections } from "../server/connections.ts";
import type { EventStreams } from "./event-streams.ts";
import type { EventName, Journal, JournalEvent } from "./journal.ts";

/** What there is to measure. */
export interface MetricsOptions {
  /** Without the calls that this makes, the figures would lack them: it is to be a watched one. */
  readonly registry: Registry;
  /** Worker IDs to count. Default: all of a namespace's layout. */
  readonly pool?: PoolBounds | undefined;
  readonly journal: Journal;
  readonly streams: EventStreams;
  readonly clock: Clock;
  readonly version: string;
}

/** Namespaces with figures of their own; those of all others are under one name, which no namespace can have. */
const mostNamespaces = 200;
const others = "_other";
/** For the registry to answer while somebody waits for the figures, ms: well below the 10 s that Prometheus waits. */
const lookTimeout = 2000;
/** However many ask for the figures, the registry is asked no more often than this, ms. */
const lookInterval = 1000;
/** A difference between the progress of the two clocks that counts as a step, ms. */
const stepTolerance = 250;
const buckets = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];
/** What proves that a namespace exists. */
const proofs: Readonly<Partial<Record<InstrumentedCall["operation"], (answer: unknown) => boolean>>> = {
  init: () => true,
  pin: () => true,
  describe: (answer) => answer !== undefined,
  claim: (answer) => outcomeOf(answer) === "granted",
  renew: (answer) => outcomeOf(answer) === "renewed",
  release: (answer) => outcomeOf(answer) === "released",
};

/** One of the daemon's own leases. */
interface OwnLease {
  readonly lease: Lease;
  /** What was left of its window when it was last extended, ms. */
  length: number;
}

/** The figures of a daemon, for Prometheus: what its journal tells, what its registry is asked, and what is looked up when they are read. */
export class Metrics {
  readonly #registry: Registry;
  readonly #clock: Clock;
  readonly #collection = new Collection();
  readonly #survey: Survey;
  readonly #namespaces = new Set<string>();
  readonly #own = new Map<string, OwnLease>();
  /** Namespace -> IDs made. Figures that are read now and then are cheaper to count by hand than by the counter at each request. */
  readonly #made = new Map<string, number>();
  readonly #shared: SharedLook;
  #pinging = false;
  /** The wall clock less the monotonic one when they were last compared, ms. */
  #drift: number;

  readonly #events: Readonly<Partial<Record<EventName, Counter<"namespace">>>>;
  readonly #renewals: Counter<"namespace">;
  readonly #rollbacks: Counter<"namespace" | "action">;
  readonly #steps: Counter<"direction">;
  readonly #errors: Counter<"code">;
  readonly #calls: Histogram<"operation">;
  readonly #callErrors: Counter<"operation" | "code">;
  readonly #up: Gauge;
  readonly #offset: Gauge;

  constructor({ registry, journal, streams, clock, pool, version }: MetricsOptions) {
    this.#clock = clock;
    this.#registry = registry;
    this.#survey = new Survey(registry, pool);
    this.#shared = new SharedLook({ clock, interval: lookInterval, patience: lookTimeout }, () => this.#ask());
    this.#drift = this.#compared();
    const registers = [this.#collection];
    const perNamespace = (name: string, help: string): Counter<"namespace"> =>
      new Counter({ name: `snowlease_${name}`, help, labelNames: ["namespace"], registers });

    const claims = perNamespace("claims_total", "Worker IDs claimed, by clients and by this daemon itself.");
    this.#events = {
      claimed: claims,
      switched: claims,
      "taken-over": perNamespace("take_overs_total", "Claims of a worker ID that its last holder never gave back."),
      released: perNamespace("releases_total", "Worker IDs given back."),
      lost: perNamespace("leases_lost_total", "Leases whose holder learnt that they are no longer its own."),
      forced: perNamespace("forced_releases_total", "Claims that an operator ended."),
      quarantine: perNamespace("quarantines_total", "Quarantines: the registry may have forgotten windows."),
    };
    this.#renewals = perNamespace("renewals_total", "Windows extended.");
    this.#rollbacks = new Counter({
      name: "snowlease_clock_rollbacks_total",
      help: "Times that the clock showed less than IDs of this daemon already carried, by what was done.",
      labelNames: ["namespace", "action"],
      registers,
    });
    this.#steps = new Counter({
      name: "snowlease_clock_steps_total",
      help: "Steps of this machine's wall clock against its monotonic one, as seen from one reading of the figures to the next.",
      labelNames: ["direction"],
      registers,
    });
    for (const direction of ["forward", "back"]) this.#steps.inc({ direction }, 0);
    this.#errors = new Counter({
      name: "snowlease_errors_total",
      help: "Requests answered with an error, by its code.",
      labelNames: ["code"],
      registers,
    });
    for (const code of errorCodes) this.#errors.inc({ code }, 0);
    this.#calls = new Histogram({
      name: "snowlease_registry_operation_duration_seconds",
      help: "How long operations of the registry took, failed ones too.",
      labelNames: ["operation"],
      buckets,
      registers,
    });
    this.#callErrors = new Counter({
      name: "snowlease_registry_errors_total",
      help: "Operations of the registry that failed, by the code of their error.",
      labelNames: ["operation", "code"],
      registers,
    });
    this.#up = new Gauge({
      name: "snowlease_registry_up",
      help: `1: the registry answered within ${lookTimeout / 1000} s when these figures were read. 0: it did not.`,
      registers,
    });
    this.#offset = new Gauge({
      name: "snowlease_clock_offset_seconds",
      help: "This machine's clock less the registry's; NaN while the registry does not answer.",
      registers,
    });
    this.#describeNamespaces(registers);
    this.#describeOwnLeases(registers);
    this.#describeMade(registers);
    describeStreams(streams, registers);
    const build = new Gauge({
      name: "snowlease_build_info",
      help: "Always 1: the version of this daemon, the kind of its registry, and Node's version.",
      labelNames: ["version", "registry", "node"],
      registers,
    });
    build.set({ version, registry: registry.kind, node: process.version }, 1);

    this.#zero(others);
    journal.on(({ event }) => this.#count(event));
  }

  /** Adds figures of the process itself: memory, CPU, the delay of its event loop. They watch it until it ends. */
  addProcess(): void {
    collectDefaultMetrics({ register: this.#collection });
  }

  /** Adds figures of the daemon's connections. */
  addConnections(connections: Connections): void {
    describeConnections(connections, [this.#collection]);
  }

  /** Counts and times a call of the registry. */
  watch({ operation, namespace, seconds, answer, error }: InstrumentedCall): void {
    this.#calls.observe({ operation }, seconds);
    if (error !== undefined) this.#callErrors.inc({ operation, code: error.code });
    else if (namespace !== undefined && proofs[operation]?.(answer) === true) this.#note(namespace);
    if (operation === "renew" && outcomeOf(answer) === "renewed") {
      this.#renewals.inc({ namespace: this.#labelOf(namespace) });
    }
  }

  /** Counts a request that is answered with an error. */
  failed(code: ErrorCode): void {
    this.#errors.inc({ code });
  }

  /** Counts IDs made on one of the daemon's own leases. */
  made(namespace: string, count: number): void {
    const label = this.#labelOf(namespace);
    this.#made.set(label, (this.#made.get(label) ?? 0) + count);
  }

  /** Shows one of the daemon's own leases for as long as it lives. */
  owns(lease: Lease): void {
    const lengthNow = (): number => lease.until - this.#clock.now();
    const own: OwnLease = { lease, length: lengthNow() };
    this.#own.set(lease.namespace, own);
    const measure = (): void => void (own.length = lengthNow());
    lease.on("renewed", measure);
    lease.on("switched", measure);
    lease.on("clock.rollback", ({ action }) =>
      this.#rollbacks.inc({ namespace: this.#labelOf(lease.namespace), action }),
    );
    lease.onChange(() => {
      const ended = lease.state !== "held" && lease.state !== "switching";
      if (ended && this.#own.get(lease.namespace) === own) this.#own.delete(lease.namespace);
    });
  }

  /** Namespaces that are known to exist, the first 200 of them. */
  get namespaces(): readonly string[] {
    return [...this.#namespaces];
  }

  /** The figures in Prometheus' text format. Never rejects for what the registry does. */
  async text(): Promise<string> {
    // The answer may still come, and is for the next reader.
    if (!(await this.#shared.wait()) && this.#pinging) this.#sees(undefined);
    return this.#collection.metrics();
  }

  get contentType(): string {
    return this.#collection.contentType;
  }

  #count({ event, namespace }: JournalEvent): void {
    this.#events[event]?.inc({ namespace: this.#labelOf(namespace) });
  }

  /** Gives a namespace that exists figures of its own, which begin at 0: what begins at 1 has no rate. */
  #note(namespace: string): void {
    if (this.#namespaces.has(namespace) || this.#namespaces.size >= mostNamespaces) return;
    this.#namespaces.add(namespace);
    this.#zero(namespace);
  }

  #zero(namespace: string): void {
    for (const counter of [...Object.values(this.#events), this.#renewals]) counter.inc({ namespace }, 0);
    this.#made.set(namespace, 0);
  }

  #labelOf(namespace = others): string {
    return this.#namespaces.has(namespace) ? namespace : others;
  }

  async #ask(): Promise<void> {
    this.#compareClocks();
    // Neither needs the other, and what the one has found is worth showing without the other.
    await Promise.allSettled([this.#ping(), this.#survey.step([...this.#namespaces])]);
    void this.#survey.goOn(this.#clock);
  }

  async #ping(): Promise<void> {
    const sent = this.#clock.now();
    this.#pinging = true;
    const pong = await this.#registry.ping().catch(() => undefined);
    this.#pinging = false;
    this.#sees(pong, (sent + this.#clock.now()) / 2);
  }

  #sees(pong: Pong | undefined, at = 0): void {
    this.#up.set(pong === undefined ? 0 : 1);
    this.#offset.set(pong === undefined ? NaN : (at - pong.clock) / 1000);
  }

  #compared(): number {
    return this.#clock.now() - monotonic(this.#clock);
  }

  #compareClocks(): void {
    const drift = this.#compared();
    const by = drift - this.#drift;
    this.#drift = drift;
    if (Math.abs(by) >= stepTolerance) this.#steps.inc({ direction: by > 0 ? "forward" : "back" });
  }

  #describeNamespaces(registers: Collection[]): void {
    const { found } = this.#survey;
    void new Gauge({
      name: "snowlease_worker_ids",
      help: "Worker IDs of the pool by state, as last counted; `unused`: never claimed.",
      labelNames: ["namespace", "state"],
      registers,
      collect() {
        this.reset();
        for (const [namespace, { counts }] of found) {
          for (const [state, count] of Object.entries(counts)) this.set({ namespace, state }, count);
        }
      },
    });
    void new Gauge({
      name: "snowlease_layout_end_timestamp_seconds",
      help: "Unix time of the first timestamp that no longer fits the namespace's layout; nothing for one that wraps.",
      labelNames: ["namespace"],
      registers,
      collect() {
        this.reset();
        for (const [namespace, { layout }] of found) {
          if (layout.wrap === undefined) this.set({ namespace }, layout.endOfLife / 1000);
        }
      },
    });
  }

  #describeMade(registers: Collection[]): void {
    const made = this.#made;
    void new Counter({
      name: "snowlease_ids_made_total",
      help: "IDs made on this daemon's own leases.",
      labelNames: ["namespace"],
      registers,
      collect() {
        this.reset();
        for (const [namespace, count] of made) this.inc({ namespace }, count);
      },
    });
  }

  #describeOwnLeases(registers: Collection[]): void {
    const own = this.#own;
    const clock = this.#clock;
    const labelOf = (namespace: string): string => this.#labelOf(namespace);
    void new Gauge({
      name: "snowlease_own_window_left_seconds",
      help: "How long this daemon may still make IDs on its own lease without a renewal; 0 or less: it makes none.",
      labelNames: ["namespace"],
      registers,
      collect() {
        this.reset();
        for (const [namespace, { lease }] of own) {
          const left = lease.state === "held" ? lease.until - clock.now() : 0;
          this.set({ namespace: labelOf(namespace) }, left / 1000);
        }
      },
    });
    void new Gauge({
      name: "snowlease_own_window_seconds",
      help: "How much of the window of this daemon's own lease was left when it was last extended.",
      labelNames: ["namespace"],
      registers,
      collect() {
        this.reset();
        for (const [namespace, { length }] of own) this.set({ namespace: labelOf(namespace) }, length / 1000);
      },
    });
  }
}

function describeStreams(streams: EventStreams, registers: Collection[]): void {
  void new Gauge({
    name: "snowlease_event_streams",
    help: "Readers of events.",
    registers,
    collect() {
      this.set(streams.open);
    },
  });
  void new Counter({
    name: "snowlease_event_streams_cut_total",
    help: "Streams of events that were ended because their readers were too slow.",
    registers,
    collect() {
      this.reset();
      this.inc(streams.cut);
    },
  });
}

function describeConnections(connections: Connections, registers: Collection[]): void {
  void new Gauge({
    name: "snowlease_connections",
    help: "Connections of clients that are open.",
    registers,
    collect() {
      this.set(connections.open);
    },
  });
  const most = new Gauge({
    name: "snowlease_connections_limit",
    help: "Connections that this daemon takes.",
    registers,
  });
  most.set(connections.most);
  void new Counter({
    name: "snowlease_connections_ended_total",
    help: "Connections that this daemon ended. idle: to make room for another one. full: there was no room. ahead: too many requests were sent ahead of the answers.",
    labelNames: ["reason"],
    registers,
    collect() {
      this.reset();
      for (const [reason, count] of connections.ended) this.inc({ reason }, count);
    },
  });
}

function outcomeOf(answer: unknown): string | undefined {
  return (answer as { readonly outcome?: string } | undefined)?.outcome;
}
