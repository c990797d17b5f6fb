import { refuse } from "../id/check.ts";
import type { LeaseEvents } from "../lease/events.ts";
import { Lease } from "../lease/lease.ts";
import { lossReasons } from "../rule/registry.ts";
import { Snowflake } from "./snowflake.ts";

/** The receiver of the figures: a `Registry` of prom-client, or a `Meter` of OpenTelemetry. */
export type MetricsTarget = PrometheusRegister | OpenTelemetryMeter;

interface PrometheusRegister {
  registerMetric(metric: never): void;
}

interface OpenTelemetryMeter {
  createObservableGauge(name: string, options: InstrumentOptions): Instrument;
  createObservableCounter(name: string, options: InstrumentOptions): Instrument;
}

interface InstrumentOptions {
  readonly description: string;
  readonly unit: string;
}

interface Instrument {
  addCallback(read: (result: { observe(value: number, labels: Labels): void }) => void): void;
}

type Labels = Readonly<Record<string, string>>;

interface Value {
  readonly labels: Labels;
  readonly value: number;
}

interface Figure {
  readonly name: string;
  readonly kind: "gauge" | "counter";
  readonly help: string;
  /** Only for a gauge. */
  readonly unit?: "seconds";
  readonly read: () => Value[];
  /** Only for a counter. */
  readonly reset?: () => void;
}

/** Everything that one target shows: gauges of each generator, counters of each namespace. */
class LeaseFigures {
  readonly #generators = new Set<Snowflake>();
  /** Name of a counter -> labels as JSON -> count. */
  readonly #counts = new Map<string, Map<string, number>>();

  readonly all: readonly Figure[] = [
    this.#gauge("ready", "Whether IDs are made: 1, or 0.", (ids) => Number(ids.health().ok)),
    {
      ...this.#gauge("window_left", "How long IDs go on without a renewal.", ({ lease: { snapshot, clock } }) =>
        snapshot === undefined ? 0 : Math.max(0, snapshot.until - clock.now()) / 1000,
      ),
      unit: "seconds",
    },
    this.#counter("renewals", "Renewals, by their result: renewed or failed."),
    this.#counter("switches", "Worker IDs that another one replaced."),
    this.#counter("losses", "Worker IDs that were lost, by the reason: taken, released, forgotten, cloned."),
    this.#counter("clock_rollbacks", "Times that the clock went back, by the reaction of the generator."),
  ];

  add(ids: Snowflake): void {
    const { lease } = ids;
    if (this.#generators.has(ids) || lease.hasEnded) return;
    this.#generators.add(ids);
    lease.onChange(() => {
      if (lease.hasEnded) this.#generators.delete(ids);
    });
    const { namespace } = lease;
    // A counter that begins at 1 has no rate.
    for (const result of ["renewed", "failed"]) this.#count("renewals", { namespace, result }, 0);
    for (const reason of lossReasons) this.#count("losses", { namespace, reason }, 0);
    this.#count("switches", { namespace }, 0);

    const count = <Name extends keyof LeaseEvents>(
      event: Name,
      counter: string,
      labels: (payload: LeaseEvents[Name]) => Labels,
    ): unknown => lease.on(event, (payload) => this.#count(counter, { namespace, ...labels(payload) }, 1));
    count("renewed", "renewals", () => ({ result: "renewed" }));
    count("renew-failed", "renewals", () => ({ result: "failed" }));
    count("switched", "switches", () => ({}));
    count("lost", "losses", ({ reason }) => ({ reason }));
    count("clock.rollback", "clock_rollbacks", ({ action }) => ({ action }));
  }

  #gauge(name: string, help: string, read: (ids: Snowflake) => number): Figure {
    const values = (): Value[] => {
      const byLabels = new Map<string, { lease: Lease; value: number }>();
      for (const ids of this.#generators) {
        const { lease } = ids;
        const [key, value] = [`${lease.namespace} ${lease.workerId}`, read(ids)];
        const other = byLabels.get(key);
        // A generator whose lease was lost may have a successor with the same worker ID. If two registries have the worker ID, the worse
        // value counts.
        const isHidden =
          other !== undefined &&
          (other.lease.state === "lost" ? false : lease.state === "lost" || other.value <= value);
        if (!isHidden) byLabels.set(key, { lease, value });
      }
      return Array.from(byLabels.values(), ({ lease: { namespace, workerId }, value }) => ({
        labels: { namespace, worker_id: String(workerId) },
        value,
      }));
    };
    return { name, kind: "gauge", help, read: values };
  }

  #counter(name: string, help: string): Figure {
    const read = (): Value[] =>
      Array.from(this.#counts.get(name) ?? [], ([labels, value]) => ({ labels: JSON.parse(labels) as Labels, value }));
    const reset = (): void => this.#counts.get(name)?.forEach((_, labels, counts) => counts.set(labels, 0));
    return { name, kind: "counter", help, read, reset };
  }

  #count(counter: string, labels: Labels, by: number): void {
    const counts = this.#counts.get(counter) ?? new Map<string, number>();
    const key = JSON.stringify(labels);
    this.#counts.set(counter, counts.set(key, (counts.get(key) ?? 0) + by));
  }
}

/** What a target shows, and the function that puts it there. */
interface Shown {
  readonly figures: LeaseFigures;
  put(): void;
}

const shownBy = new WeakMap<MetricsTarget, Shown>();

/**
 * Shows a generator in the metrics of its program: whether it makes IDs, what is left of its window, renewals, losses, switches and
 * setbacks of the clock, each with its namespace. Shows it until it is closed. A generator whose lease is lost for good stays, as not
 * ready.
 *
 * @param target a `Registry` of prom-client (names `snowlease_lease_…`), or a `Meter` of OpenTelemetry (`snowlease.lease.…`); each may show
 * several generators.
 * @throws SnowleaseError CONFIG_INVALID for another target. Also the errors of the target, such as for a metric whose name it has already.
 */
export function collectMetrics(ids: Snowflake, target: MetricsTarget): void {
  if (!(ids instanceof Snowflake && ids.lease instanceof Lease)) {
    refuse("ids", "to be a generator whose lease this thread holds", ids);
  }
  const shown = shownBy.get(target) ?? showIn(target);
  // First: after a refusal of the target, the next call goes on with the same metrics.
  shownBy.set(target, shown);
  shown.put();
  shown.figures.add(ids);
}

function showIn(target: MetricsTarget): Shown {
  const figures = new LeaseFigures();
  if (typeof target === "object" && target !== null) {
    if ("registerMetric" in target) return inRegister(figures, target);
    if ("createObservableGauge" in target) return inMeter(figures, target);
  }
  return refuse("target", "to be a Registry of prom-client or a Meter of OpenTelemetry", target);
}

function inRegister(figures: LeaseFigures, target: PrometheusRegister): Shown {
  const metrics = figures.all.map((figure) => {
    const { name, kind, unit, help } = figure;
    const fullName = `snowlease_lease_${name}${kind === "counter" ? "_total" : unit === undefined ? "" : `_${unit}`}`;
    // How a primary process of node:cluster combines the values of its workers.
    const facts = { help, type: kind, aggregator: kind === "counter" ? "sum" : "min" };
    const metric = {
      ...facts,
      name: fullName,
      get: async () => ({ ...facts, name: metric.name, values: figure.read() }),
      reset: () => figure.reset?.(),
    };
    return { metric, fullName };
  });
  // A register of OpenMetrics changes the name, by which it knows the metric. The register may have been cleared since the last time.
  const put = (): void => {
    for (const { metric, fullName } of metrics)
      target.registerMetric(Object.assign(metric, { name: fullName }) as never);
  };
  return { figures, put };
}

function inMeter(figures: LeaseFigures, target: OpenTelemetryMeter): Shown {
  for (const { name, kind, help, unit, read } of figures.all) {
    const options: InstrumentOptions = { description: help, unit: unit === "seconds" ? "s" : "1" };
    const create = kind === "gauge" ? "createObservableGauge" : "createObservableCounter";
    target[create](`snowlease.lease.${name}`, options).addCallback((result) => {
      for (const { labels, value } of read()) result.observe(value, labels);
    });
  }
  return { figures, put: () => undefined };
}
