import {
  AggregationTemporality,
  InMemoryMetricExporter,
  MeterProvider,
  PeriodicExportingMetricReader,
} from "@opentelemetry/sdk-metrics";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { AggregatorRegistry, Counter, Registry, type RegistryContentType } from "prom-client";
import { afterEach, expect, test } from "vitest";
import { collectMetrics } from "../../src/generator/metrics.ts";
import type { Snowflake } from "../../src/generator/snowflake.ts";
import { joinLease } from "../../src/sharing/joined-lease.ts";
import { snowlease } from "../../src/snowlease.ts";
import { root } from "../support/markdown.ts";
import { coded, open, settled, thrown } from "../support/generator.ts";

const opened: Snowflake[] = [];
afterEach(async () => {
  for (const ids of opened.splice(0)) await ids.close();
});

async function generator(): Promise<Awaited<ReturnType<typeof open>>> {
  const setting = await open();
  opened.push(setting.ids);
  return setting;
}

/** The samples of a register, without its help. */
async function samples(register: { metrics(): Promise<string> }): Promise<string[]> {
  await settled();
  return (await register.metrics()).split("\n").filter((line) => line !== "" && !line.startsWith("# "));
}

test("a register of prom-client shows a generator until it is closed", async () => {
  const register = new Registry();
  const { ids, clock, wire, registry } = await generator();
  collectMetrics(ids, register);
  const counters = (renewed: number, failed: number, released: number): string[] => [
    `snowlease_lease_renewals_total{namespace="default",result="renewed"} ${renewed}`,
    `snowlease_lease_renewals_total{namespace="default",result="failed"} ${failed}`,
    'snowlease_lease_switches_total{namespace="default"} 0',
    'snowlease_lease_losses_total{namespace="default",reason="taken"} 0',
    `snowlease_lease_losses_total{namespace="default",reason="released"} ${released}`,
    'snowlease_lease_losses_total{namespace="default",reason="forgotten"} 0',
    'snowlease_lease_losses_total{namespace="default",reason="cloned"} 0',
  ];
  const gauges = (ready: number, left: number): string[] => [
    `snowlease_lease_ready{namespace="default",worker_id="7"} ${ready}`,
    `snowlease_lease_window_left_seconds{namespace="default",worker_id="7"} ${left}`,
  ];
  expect(await samples(register)).toEqual([...gauges(1, 60), ...counters(0, 0, 0)]);
  expect(await register.metrics()).toContain(
    "# HELP snowlease_lease_ready Whether IDs are made: 1, or 0.\n# TYPE snowlease_lease_ready gauge",
  );

  await ids.lease.renew();
  wire.cut = true;
  await ids.lease.renew();
  expect(await samples(register)).toEqual([...gauges(1, 60), ...counters(1, 1, 0)]);
  clock.step(60_000);
  expect((await samples(register)).slice(0, 2)).toEqual(gauges(0, 0));
  clock.step(-90_000);
  thrown(() => ids.next());
  expect((await samples(register)).at(-1)).toBe(
    'snowlease_lease_clock_rollbacks_total{namespace="default",action="tell"} 1',
  );

  clock.step(30_000);
  wire.cut = false;
  await registry.forceRelease({ namespace: "default", workerId: 7, force: true });
  await ids.lease.renew();
  // Lost for good, and still to be seen.
  expect((await samples(register)).slice(0, 2)).toEqual(gauges(0, 0));
  expect(await samples(register)).toEqual(expect.arrayContaining([counters(1, 1, 1)[4]]));
  await ids.close();
  expect((await samples(register)).filter((line) => line.includes("worker_id"))).toEqual([]);
  expect(await samples(register)).toEqual(expect.arrayContaining([counters(1, 1, 1)[4]]));
});

test("one register shows generators of several namespaces, and each of one namespace", async () => {
  const register = new Registry();
  const ids = await Promise.all(
    ["orders", "orders", "invoices"].map((namespace) => snowlease({ registry: "memory:", namespace, pool: "0-9" })),
  );
  opened.push(...ids);
  for (const each of [...ids, ...ids]) collectMetrics(each, register);
  const labels = ids.map(
    ({ lease: { namespace, workerId } }) => `{namespace="${namespace}",worker_id="${workerId}"} 1`,
  );
  const ready = (await samples(register)).filter((line) => line.startsWith("snowlease_lease_ready"));
  expect(ready).toEqual([...new Set(labels)].map((each) => `snowlease_lease_ready${each}`));
  expect((await samples(register)).filter((line) => line.includes("switches"))).toHaveLength(2);
});

test("registers of their own do not mix; one that was cleared or reset goes on", async () => {
  const [first, second] = [new Registry(), new Registry()];
  const [{ ids }, { ids: others }] = [await generator(), await generator()];
  collectMetrics(ids, first);
  collectMetrics(others, second);
  await ids.lease.renew();
  const renewals = 'snowlease_lease_renewals_total{namespace="default",result="renewed"}';
  expect(await samples(first)).toContain(`${renewals} 1`);
  expect(await samples(second)).toContain(`${renewals} 0`);
  first.resetMetrics();
  expect(await samples(first)).toContain(`${renewals} 0`);
  first.clear();
  expect(await samples(first)).toEqual([]);
  collectMetrics(ids, first);
  expect(await samples(first)).toContain(`${renewals} 0`);
});

test("OpenMetrics has its own names of counters, however often it is read", async () => {
  const register: Registry<RegistryContentType> = new Registry();
  register.setContentType(Registry.OPENMETRICS_CONTENT_TYPE);
  const { ids } = await generator();
  for (let reading = 0; reading < 3; reading++) {
    collectMetrics(ids, register);
    expect(await register.metrics()).toContain(
      "# TYPE snowlease_lease_switches counter\nsnowlease_lease_switches_total{",
    );
  }
  expect((await register.metrics()).match(/# TYPE \w+/g)).toHaveLength(6);
});

test("the primary process of a cluster puts the figures of its workers together", async () => {
  const { ids } = await generator();
  const register = new Registry();
  collectMetrics(ids, register);
  await ids.lease.renew();
  await settled();
  const json = await register.getMetricsAsJSON();
  const all = await AggregatorRegistry.aggregate([json, json] as never).metrics();
  expect(all).toContain('snowlease_lease_ready{namespace="default",worker_id="7"} 1');
  expect(all).toContain('snowlease_lease_renewals_total{namespace="default",result="renewed"} 2');
});

test("a meter of OpenTelemetry shows the same", async () => {
  const exporter = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE);
  const reader = new PeriodicExportingMetricReader({ exporter });
  const provider = new MeterProvider({ readers: [reader] });
  const meter = provider.getMeter("orders");
  const { ids } = await generator();
  collectMetrics(ids, meter);
  collectMetrics(ids, meter);
  await ids.lease.renew();
  await settled();
  await provider.forceFlush();
  const metrics = exporter.getMetrics().flatMap(({ scopeMetrics }) => scopeMetrics.flatMap((scope) => scope.metrics));
  const shown = metrics.flatMap(({ descriptor: { name, unit }, dataPoints }) =>
    dataPoints.map(({ attributes, value }) => [name, unit, attributes, value]),
  );
  const lease = { namespace: "default", worker_id: "7" };
  expect(shown.slice(0, 4)).toEqual([
    ["snowlease.lease.ready", "1", lease, 1],
    ["snowlease.lease.window_left", "s", lease, 60],
    ["snowlease.lease.renewals", "1", { namespace: "default", result: "renewed" }, 1],
    ["snowlease.lease.renewals", "1", { namespace: "default", result: "failed" }, 0],
  ]);
  await provider.shutdown();
});

test("what is neither is refused, and a name that is taken is left to its owner", async () => {
  const { ids } = await generator();
  for (const target of [undefined, null, 1, "x", {}, []]) {
    expect(thrown(() => collectMetrics(ids, target as never))).toEqual(coded("CONFIG_INVALID"));
  }
  const shared = await snowlease({ registry: "memory:", shared: true });
  const joined = joinLease(shared.share());
  for (const other of [undefined, ids.lease, joined]) {
    expect(thrown(() => collectMetrics(other as never, new Registry())).message).toMatch(
      /^Expected `ids` to be a generator whose lease this thread holds, got /,
    );
  }
  await joined.close();
  await shared.close();
  const register = new Registry();
  register.registerMetric(new Counter({ name: "snowlease_lease_switches_total", help: "Mine.", registers: [] }));
  expect(() => collectMetrics(ids, register)).toThrow(/already been registered/);
});

test("docs/library.md names each figure, its labels and what it shows", async () => {
  const register = new Registry();
  const { ids, clock } = await generator();
  collectMetrics(ids, register);
  clock.step(-90_000);
  thrown(() => ids.next());
  await settled();
  const page = readFileSync(join(root, "docs/library.md"), "utf8");
  const rows = Array.from(page.matchAll(/^\| `(snowlease_lease_\w+)` \| `(snowlease\.lease\.\w+)` \| (.*?) \| /gm));
  const figures = await register.getMetricsAsJSON();
  expect(rows.map(([, name, other, labels]) => [name, other, labels])).toEqual(
    figures.map(({ name, values: [value] }) => [
      name,
      `snowlease.lease.${name.replace(/^snowlease_lease_|_(?:total|seconds)$/g, "")}`,
      Object.keys(value?.labels ?? {})
        .map((label) => `\`${label}\``)
        .join(" "),
    ]),
  );
});
