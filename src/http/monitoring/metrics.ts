import { collectDefaultMetrics, type Counter, type Histogram } from "prom-client";
import { type ErrorCode, errorCodes } from "../../id/errors.ts";
import type { Lease } from "../../lease/lease.ts";
import { lossReasons } from "../../rule/registry.ts";
import type { InstrumentedCall } from "../../ops/instrumented.ts";
import type { Connections } from "../../serving/connections.ts";
import type { EventStreams } from "./event-streams.ts";
import { Figures } from "./figures.ts";
import type { EventName, Journal, JournalEvent } from "./journal.ts";
import { ownLeaseFigures } from "./own-lease-figures.ts";
import { registryFigures, type RegistryFiguresOptions } from "./registry-figures.ts";

interface MetricsOptions extends Omit<RegistryFiguresOptions, "namespaces"> {
  readonly journal: Journal;
  readonly streams: EventStreams;
  readonly version: string;
}

/** How many namespaces have their own figures. All others share one name, which no namespace can have. */
const mostNamespaces = 200;
const others = "_other";
const buckets = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];
/** Why the registry refuses claims. */
const refusals: readonly ErrorCode[] = [
  "POOL_EXHAUSTED",
  "WORKER_ID_HELD",
  "CLOCK_ROLLBACK",
  "CLOCK_SKEW",
  "LAYOUT_MISMATCH",
  "CONFIG_INVALID",
  "QUARANTINE",
];
/** Operation -> whether its answer proves that the namespace exists. */
const proofs: Readonly<Partial<Record<InstrumentedCall["operation"], (answer: unknown) => boolean>>> = {
  init: () => true,
  pin: () => true,
  describe: (answer) => answer !== undefined,
  claim: (answer) => outcomeOf(answer) === "granted",
  renew: (answer) => outcomeOf(answer) === "renewed",
  release: (answer) => outcomeOf(answer) === "released",
};

/** The figures of a daemon, for Prometheus: events of its journal, calls of its registry, and figures that are looked up when read. */
export class Metrics {
  /** Shows one of the daemon's own leases for as long as it lives. */
  readonly owns: (lease: Lease) => void;
  readonly #figures = new Figures();
  readonly #look: () => Promise<void>;
  readonly #namespaces = new Set<string>();
  /** Namespace -> IDs made. A map is faster than a counter of the client library, and each request counts here. */
  readonly #made = new Map<string, number>();
  readonly #events: Readonly<Partial<Record<EventName, Counter<"namespace">>>>;
  readonly #losses: Counter<"namespace" | "reason">;
  readonly #renewals: Counter<"namespace">;
  readonly #errors: Counter<"code">;
  readonly #refused: Counter<"namespace" | "code">;
  readonly #calls: Histogram<"operation">;
  readonly #callErrors: Counter<"operation" | "code">;

  constructor({ registry, journal, streams, clock, pool, version }: MetricsOptions) {
    const figures = this.#figures;
    const perNamespace = (name: string, help: string): Counter<"namespace"> =>
      figures.counter(name, help, ["namespace"]);
    const claims = perNamespace("claims_total", "Worker IDs claimed, by clients and by this daemon itself.");
    this.#events = {
      claimed: claims,
      switched: claims,
      "taken-over": perNamespace("take_overs_total", "Claims of a worker ID that its last holder never gave back."),
      released: perNamespace("releases_total", "Worker IDs given back."),
      forced: perNamespace("forced_releases_total", "Claims that an operator ended."),
      quarantine: perNamespace("quarantines_total", "Quarantines: the registry may have forgotten windows."),
    };
    this.#losses = figures.counter(
      "leases_lost_total",
      "Leases that their holders lost, by the reason. taken: another holder has the worker ID. released: the claim was ended. forgotten: the registry went back in time. cloned: a copy of the holder renewed the lease.",
      ["namespace", "reason"],
    );
    this.#refused = figures.counter(
      "refused_claims_total",
      "Claims that the registry refused, by the code of their error.",
      ["namespace", "code"],
    );
    this.#renewals = perNamespace("renewals_total", "Windows extended.");
    this.#errors = figures.counter("errors_total", "Requests answered with an error, by its code.", ["code"]);
    for (const code of errorCodes) this.#errors.inc({ code }, 0);
    this.#calls = figures.histogram(
      "registry_operation_duration_seconds",
      "How long operations of the registry took, failed ones too.",
      ["operation"],
      buckets,
    );
    this.#callErrors = figures.counter(
      "registry_errors_total",
      "Operations of the registry that failed, by the code of their error.",
      ["operation", "code"],
    );
    this.#look = registryFigures(figures, { registry, clock, pool, namespaces: () => this.namespaces });
    this.owns = ownLeaseFigures(figures, clock, (namespace) => this.#labelOf(namespace));
    figures.counter("ids_made_total", "IDs made on this daemon's own leases.", ["namespace"], () =>
      Array.from(this.#made, ([namespace, count]) => [{ namespace }, count] as const),
    );
    figures.gauge("event_streams", "Readers of events.", [], () => [[{}, streams.open]]);
    figures.counter(
      "event_streams_cut_total",
      "Streams of events that were ended because their readers were too slow.",
      [],
      () => [[{}, streams.cut]],
    );
    const build = "Always 1: the version of this daemon, the kind of its registry, and Node's version.";
    figures.gauge("build_info", build, ["version", "registry", "node"], () => [
      [{ version, registry: registry.kind, node: process.version }, 1],
    ]);

    this.#zero(others);
    journal.on(({ event }) => this.#count(event));
  }

  /** Adds figures of the process: memory, CPU, the delay of its event loop. They are measured until the process ends. */
  addProcess(): void {
    collectDefaultMetrics({ register: this.#figures.collection });
  }

  /** Adds figures of the daemon's connections. */
  addConnections(connections: Connections): void {
    const figures = this.#figures;
    figures.gauge("connections", "Connections of clients that are open.", [], () => [[{}, connections.open]]);
    figures.gauge("connections_limit", "Connections that this daemon takes.", [], () => [[{}, connections.most]]);
    figures.counter(
      "connections_ended_total",
      "Connections that this daemon ended. idle: to make room for another one. full: there was no room. ahead: too many requests were sent ahead of the answers.",
      ["reason"],
      () => Array.from(connections.ended, ([reason, count]) => [{ reason }, count] as const),
    );
  }

  /** Adds the number of lease clients of each of the daemon's own leases. */
  addBorrowers(borrowers: () => ReadonlyMap<string, number>): void {
    const help = "Processes that take blocks of this daemon's own lease.";
    this.#figures.gauge("borrowers", help, ["namespace"], () =>
      Array.from(borrowers(), ([namespace, count]) => [{ namespace: this.#labelOf(namespace) }, count] as const),
    );
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

  /** Counts a claim that the registry refused. */
  refused(namespace: string, code: ErrorCode): void {
    if (!refusals.includes(code)) return;
    this.#refused.inc({ namespace: this.#labelOf(namespace), code });
  }

  /** Counts requests that get an error as their answer. */
  failed(code: ErrorCode, count: number = 1): void {
    this.#errors.inc({ code }, count);
  }

  /** Counts IDs made on one of the daemon's own leases. */
  made(namespace: string, count: number): void {
    const label = this.#labelOf(namespace);
    this.#made.set(label, (this.#made.get(label) ?? 0) + count);
  }

  /** Namespaces that are known to exist, the first 200 of them. */
  get namespaces(): readonly string[] {
    return [...this.#namespaces];
  }

  /** The figures in Prometheus' text format. A failure of the registry does not reject it. */
  async text(): Promise<string> {
    await this.#look();
    return this.#figures.collection.metrics();
  }

  get contentType(): string {
    return this.#figures.collection.contentType;
  }

  #count({ event, namespace, reason }: JournalEvent): void {
    const label = { namespace: this.#labelOf(namespace) };
    this.#events[event]?.inc(label);
    if (event === "lost")
      this.#losses.inc({ ...label, reason: lossReasons.find((each) => each === reason) ?? "taken" });
  }

  /** Gives an existing namespace its own figures. They begin at 0, because a figure that begins at 1 has no rate. */
  #note(namespace: string): void {
    if (this.#namespaces.has(namespace) || this.#namespaces.size >= mostNamespaces) return;
    this.#namespaces.add(namespace);
    this.#zero(namespace);
  }

  #zero(namespace: string): void {
    for (const counter of [...Object.values(this.#events), this.#renewals]) counter.inc({ namespace }, 0);
    for (const reason of lossReasons) this.#losses.inc({ namespace, reason }, 0);
    for (const code of refusals) this.#refused.inc({ namespace, code }, 0);
    this.#made.set(namespace, 0);
  }

  #labelOf(namespace = others): string {
    return this.#namespaces.has(namespace) ? namespace : others;
  }
}

function outcomeOf(answer: unknown): string | undefined {
  return (answer as { readonly outcome?: string } | undefined)?.outcome;
}
