import { createApp } from "../../src/http/app.ts";
import type { StreamLimits } from "../../src/http/monitoring/event-streams.ts";
import { observe, type Observed } from "../../src/http/monitoring/observe.ts";
import type { Registry } from "../../src/rule/registry.ts";
import { type FakeClock, fakeClock, memoryRegistry } from "../../src/testing.ts";

/** The HTTP API over a watched registry, with a clock that stands still. */
export interface ObservedApi extends Observed<Registry> {
  readonly clock: FakeClock;
  /** The registry behind the watched one. */
  readonly memory: Registry;
  /** Fields and message of each line of the log. */
  readonly lines: readonly Readonly<Record<string, unknown>>[];
  send(method: string, path: string, body?: object, headers?: Record<string, string>): Promise<Response>;
  /** The figures after the second in which the registry is not asked again. */
  figures(): Promise<string>;
}

interface ObservedOptions {
  /** Changes the registry below the code that watches it. */
  readonly change?: (registry: Registry, clock: FakeClock) => Registry;
  /** Default: the usual limits, and no heartbeat during a test. */
  readonly streamLimits?: Partial<StreamLimits>;
}

/** Longer than any test, ms. A heartbeat is an event that depends on the machine's clock. */
export const noHeartbeat = 3_600_000;

export function makeObserved({
  change = (registry) => registry,
  streamLimits = { heartbeat: noHeartbeat },
}: ObservedOptions = {}): ObservedApi {
  const clock = fakeClock();
  const memory = memoryRegistry({ clock });
  const lines: Record<string, unknown>[] = [];
  const write = (fields: object, message: string): void => void lines.push({ ...fields, message });
  const log = { info: write, warn: write, error: write };
  const observed = observe({ registry: change(memory, clock), log, clock, version: "1.2.3", streamLimits });
  const { registry, journal, streams, metrics } = observed;
  const app = createApp({ registry, clock, streams, metrics, log: journal });
  return {
    ...observed,
    clock,
    memory,
    lines,
    async send(method, path, body, headers = {}) {
      const init = { method, headers, ...(body !== undefined && { body: JSON.stringify(body) }) };
      const request = new Request(`http://localhost${path}`, init);
      if (body !== undefined) request.headers.set("content-type", "application/json");
      return app.fetch(request);
    },
    async figures() {
      await clock.advance(1000);
      return metrics.text();
    },
  };
}
