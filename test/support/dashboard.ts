import { createApp } from "../../src/http/app.ts";
import { createDashboard } from "../../src/http/dashboard/dashboard.ts";
import type { Journal } from "../../src/http/monitoring/journal.ts";
import { observe } from "../../src/http/monitoring/observe.ts";
import type { Tokens } from "../../src/serving/tokens.ts";
import { layouts } from "../../src/id/layout.ts";
import type { Registry } from "../../src/rule/registry.ts";
import { type FakeClock, fakeClock, memoryRegistry } from "../../src/testing.ts";

/** The answer with a page. */
interface Page {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
}

/** A dashboard over a registry in memory, with a clock that stands still. */
export interface DashboardBench {
  readonly clock: FakeClock;
  readonly registry: Registry;
  readonly journal: Journal;
  /** What a daemon does once a minute. */
  sample(): Promise<void>;
  send(
    method: string,
    path: string,
    init?: { readonly headers?: Record<string, string>; readonly body?: string },
  ): Promise<Page>;
  /** Claims a worker ID of a namespace; `token` is the lease's. */
  claim(
    namespace: string,
    holder?: { readonly host?: string; readonly ip?: string; readonly instance?: string },
    terms?: { readonly layout?: keyof typeof layouts; readonly workerId?: number; readonly window?: number },
  ): Promise<{ readonly workerId: number; readonly fence: number; readonly token: string; readonly from: number }>;
}

export function makeDashboard({
  tokens,
  change = (registry) => registry,
}: { readonly tokens?: Tokens; readonly change?: (registry: Registry) => Registry } = {}): DashboardBench {
  const clock = fakeClock();
  const memory = memoryRegistry({ clock });
  const silent = { info() {}, warn() {}, error() {} };
  const observed = observe({ registry: change(memory), log: silent, clock, version: "1.2.3" });
  const { registry, journal, streams, metrics, refusals, hour } = observed;
  const namespaces = (): readonly string[] => metrics.namespaces;
  const dashboard = createDashboard({ registry, clock, journal, refusals, hour, namespaces, tokens, version: "1.2.3" });
  const app = createApp({ registry, clock, streams, metrics, tokens, dashboard, log: journal });
  let claims = 0;
  return {
    clock,
    registry,
    journal,
    sample: dashboard.sample,
    async send(method, path, { headers = {}, body } = {}) {
      const init = { method, headers: { host: "localhost", ...headers }, ...(body !== undefined && { body }) };
      const response = await app.fetch(new Request(`http://localhost${path}`, init));
      return { status: response.status, headers: response.headers, text: await response.text() };
    },
    async claim(namespace, { host = "web-1", ip = "192.0.2.1", instance = "" } = {}, terms = {}) {
      const { layout = "westid", workerId, window = 60_000 } = terms;
      const { pool, fingerprint } = layouts[layout];
      const token = (++claims).toString(16).padStart(32, "0");
      const holder = { host, ip, pid: 4000 + claims, instance };
      const request = { namespace, token, workerId, pool, layout: fingerprint, window, clock: clock.now(), holder };
      const grant = await registry.claim(request);
      if (grant.outcome !== "granted") throw new Error(`The claim was refused: ${JSON.stringify(grant)}`);
      return { ...grant, token };
    },
  };
}
