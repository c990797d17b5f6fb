import type { Clock } from "../../clock.ts";
import type { PoolBounds } from "../../id/pool-bounds.ts";
import type { Registry } from "../../rule/registry.ts";
import { instrumentedRegistry } from "../../ops/instrumented.ts";
import { EventStreams, type StreamLimits } from "./event-streams.ts";
import { Journal } from "./journal.ts";
import { LastHour } from "./last-hour.ts";
import type { Log } from "../../serving/log.ts";
import { Metrics } from "./metrics.ts";
import { noticeQuarantine, noticeTakeOvers } from "./notices.ts";
import { RefusalCounter } from "./refusal-counter.ts";

interface ObserveOptions<Watched extends Registry> {
  readonly registry: Watched;
  readonly log: Log;
  readonly clock: Clock;
  readonly pool?: PoolBounds | undefined;
  readonly version: string;
  readonly streamLimits?: Partial<StreamLimits> | undefined;
}

/** A watched registry. Log, events and figures are three views of one journal. */
export interface Observed<Watched extends Registry> {
  readonly registry: Watched;
  readonly journal: Journal;
  readonly streams: EventStreams;
  readonly metrics: Metrics;
  readonly refusals: RefusalCounter;
  readonly hour: LastHour;
}

/** Watches a registry. Callers write their actions to the journal instead of the log. */
export function observe<Watched extends Registry>(options: ObserveOptions<Watched>): Observed<Watched> {
  const { log, clock, pool, version, streamLimits } = options;
  const journal = new Journal(log, { clock });
  const streams = new EventStreams(journal, streamLimits);
  const noticed = noticeQuarantine(journal, clock);
  const hour = new LastHour(clock);
  const refusals = new RefusalCounter(journal, clock, (namespace, code) => {
    metrics.refused(namespace, code);
    hour.refused(namespace, code);
  });
  const registry = instrumentedRegistry(options.registry, clock, (call) => {
    metrics.watch(call);
    noticed(call);
    refusals.watch(call);
    hour.watch(call);
  });
  const metrics = new Metrics({ registry, pool, journal, streams, clock, version });
  noticeTakeOvers(journal, registry);
  return { registry, journal, streams, metrics, refusals, hour };
}
