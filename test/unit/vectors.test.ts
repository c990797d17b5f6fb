import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import {
  type ClockRunner,
  type ClockScript,
  type ClockStep,
  simpleGenerator,
  type StepResult,
} from "../support/clock-vectors.ts";
import { Layout } from "../../src/id/layout.ts";
import { makeVectors } from "../support/vectors.ts";

// The behaviour of a simple client as clients/vectors/README.md describes it; of src/ it uses only the layout.
const simpleClient: ClockRunner = ({ layout: text, grant: { clock, workerId, from, until }, steps }) => {
  const layout = Layout.parse(text);
  const { epoch, tick: length, endOfLife, maxSequence } = layout;
  let state: "held" | "lost" | "closed" = "held";
  let [last, sequence] = [-1, 0];
  let newest = clock;

  const next = (now: number): StepResult => {
    const refuse = (code: string, retryAfterMs?: number): StepResult => {
      return { refused: { code, ...(retryAfterMs !== undefined && { retryAfterMs }) } };
    };
    if (state !== "held") return refuse("LEASE_LOST");
    if (now < epoch) return refuse("WINDOW_NOT_OPEN", epoch - now);
    if (now >= endOfLife) return refuse("LAYOUT_EXPIRED");
    const tick = Math.floor((now - epoch) / length);
    const floor = Math.max(0, last, Math.ceil((from - epoch) / length));
    if (tick < floor) {
      return refuse(now < newest ? "CLOCK_ROLLBACK" : "WINDOW_NOT_OPEN", epoch + floor * length - now);
    }
    const end = epoch + (tick + 1) * length;
    if (end > until) return refuse("LEASE_EXPIRED");
    newest = Math.max(newest, now);
    const first = tick === 0 && workerId === 0 ? 1 : 0;
    const own = tick === last ? sequence + 1 : first;
    if (own > maxSequence) return refuse("SEQUENCE_EXHAUSTED", end - now);
    [last, sequence] = [tick, own];
    return { id: layout.compose({ timestamp: now, workerId, sequence: own }).toString() };
  };

  const told = (): object => (last < 0 ? {} : { lastTimestamp: epoch + last * length, lastSequence: sequence });

  const take = (step: ClockStep): StepResult => {
    switch (step.do) {
      case "next":
        return next(step.clock);
      case "renewed":
        [from, until] = [Math.max(from, step.from), Math.max(until, step.until)];
        return { sends: told() };
      case "quarantine":
        from = Math.max(from, Math.min(step.clock, until));
        return { sends: told() };
      case "lost":
        state = "lost";
        return { sends: told() };
      case "close": {
        if (state !== "held") return { gives: null };
        state = "closed";
        return { gives: { until: Math.max(from, last < 0 ? from : epoch + (last + 1) * length), ...told() } };
      }
    }
  };
  return Promise.resolve(steps.map(take));
};

const folder = join(import.meta.dirname, "../../clients/vectors");
const read = (file: string): unknown => JSON.parse(readFileSync(join(folder, file), "utf8"));

test("clients/vectors match the output of the code; otherwise run: npm run vectors", async () => {
  const made = await makeVectors();
  for (const [file, vectors] of Object.entries(made)) expect(read(file)).toEqual(JSON.parse(JSON.stringify(vectors)));
});

describe("clocks.json", () => {
  interface Script extends ClockScript {
    readonly steps: readonly (ClockStep & StepResult)[];
  }
  const { scripts } = read("clocks.json") as { readonly scripts: readonly Script[] };
  const expected = ({ steps }: Script): object[] =>
    steps.map(({ id, refused, sends, gives }) => ({ id, refused, sends, gives }));

  test.each(scripts.map((script) => [script.why, script] as const))("%s", async (_, script) => {
    expect(await simpleGenerator(script)).toEqual(expected(script));
    expect(await simpleClient(script)).toEqual(expected(script));
  });

  test("no script makes an ID twice, outside of its windows or before its last one", () => {
    for (const { layout: text, grant, steps } of scripts) {
      const layout = Layout.parse(text);
      let { from, until } = grant;
      let last = -1n;
      for (const step of steps) {
        if (step.do === "renewed") [from, until] = [Math.max(from, step.from), Math.max(until, step.until)];
        if (step.id === undefined) continue;
        const { timestamp, workerId } = layout.decompose(BigInt(step.id));
        expect(workerId).toBe(grant.workerId);
        expect(timestamp).toBeGreaterThanOrEqual(from);
        expect(timestamp + layout.tick).toBeLessThanOrEqual(until);
        expect(timestamp).toBeLessThanOrEqual(step.clock);
        expect(BigInt(step.id)).toBeGreaterThan(last);
        last = BigInt(step.id);
      }
    }
  });
});

test("docs/clients.md names existing scripts", () => {
  const page = readFileSync(join(import.meta.dirname, "../../docs/clients.md"), "utf8");
  const named = [...page.matchAll(/^\| \d+\. .*"([^"…]+?) ?…?" \|$/gm)].map(([, name = ""]) => name);
  expect(named).toHaveLength(10);
  const { scripts } = read("clocks.json") as { readonly scripts: readonly ClockScript[] };
  for (const name of named)
    expect(
      scripts.some(({ why }) => why.startsWith(name)),
      name,
    ).toBe(true);
});

interface Window {
  readonly why: string;
  readonly layout: string;
  readonly from: number;
  readonly until: number;
  readonly firstTick: number | null;
  readonly lastTick: number | null;
}
const { windows } = read("windows.json") as { readonly windows: readonly Window[] };

describe("windows.json", () => {
  test.each(windows.map((window) => [window.why, window] as const))("%s", async (_, window) => {
    const { layout: text, from, until, firstTick, lastTick } = window;
    const layout = Layout.parse(text);
    // Ticks at both ends, and one beyond each.
    const near = [firstTick, lastTick, layout.tickOf(from), layout.tickOf(until)].flatMap((tick) =>
      tick === null ? [] : [tick - 1, tick, tick + 1],
    );
    const ticks = [...new Set(near)].filter((tick) => tick >= 0 && tick <= layout.maxTick).toSorted((a, b) => a - b);
    const usable = ticks.filter((tick) => firstTick !== null && tick >= firstTick && tick <= Number(lastTick));
    const grant = { workerId: 7, from, until, clock: Math.max(layout.epoch, Math.min(from, layout.endOfLife - 1)) };
    const steps = ticks.map((tick) => ({ clock: layout.timeOf(tick) + layout.tick - 1, do: "next" as const }));
    const results = await simpleGenerator({ why: "", layout: text, grant, steps });
    expect(ticks.filter((_, i) => results[i]?.id !== undefined)).toEqual(usable);
  });
});
