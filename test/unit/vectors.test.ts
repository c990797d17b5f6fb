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
import {
  borrower,
  type BlockResult,
  type BlockRunner,
  type BlockScript,
  type BlockStep,
  type WantedBlocks,
} from "../support/block-vectors.ts";
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

// The same for a client that borrows blocks.
const simpleBorrower: BlockRunner = ({ layout: text, grant, steps }) => {
  const layout = Layout.parse(text);
  const { epoch, tick: length, maxSequence } = layout;
  const ticks = Math.max(1, Math.ceil(64 / length));
  const blocks = Math.min(32, maxSequence + 1);
  const size = (maxSequence + 1) / blocks;
  const ahead = Math.max(1, Math.ceil(5000 / (ticks * length)));
  const spanAt = (now: number): number => Math.floor((now - epoch) / length / ticks);

  const begin = ({ workerId, fence, from, until }: BlockScript["grant"]) => {
    // The usage in the newest tick counts the sequences of the blocks in their order.
    const held = new Map<number, number[]>();
    return { workerId, fence, from, until, held, last: -1, used: 0, newest: grant.clock, behind: 0 };
  };
  let claim = begin(grant);
  let state: "held" | "closed" = "held";
  const open: { readonly of: typeof claim; readonly isMore: boolean }[] = [];

  const ask = (wants: WantedBlocks, isMore: boolean): { readonly wants: WantedBlocks } => {
    open.push({ of: claim, isMore });
    return { wants };
  };

  const next = (now: number): BlockResult => {
    const refuse = (code: string, retryAfterMs?: number): BlockResult => {
      return { refused: { code, ...(retryAfterMs !== undefined && { retryAfterMs }) } };
    };
    if (state === "closed") return refuse("LEASE_LOST");
    const tick = Math.floor((now - epoch) / length);
    const floor = Math.max(claim.last, Math.ceil((claim.from - epoch) / length));
    if (tick < floor) {
      return refuse(now < claim.newest ? "CLOCK_ROLLBACK" : "WINDOW_NOT_OPEN", epoch + floor * length - now);
    }
    const end = epoch + (tick + 1) * length;
    if (end > claim.until) return refuse("LEASE_EXPIRED");
    claim.newest = Math.max(claim.newest, now);
    const span = spanAt(now);
    const own = claim.held.get(span) ?? [];
    for (let used = tick === claim.last ? claim.used : 0; used < own.length * size; used++) {
      const sequence = (own[Math.floor(used / size)] ?? 0) * size + (used % size);
      const id = layout.compose({ timestamp: now, workerId: claim.workerId, sequence });
      if (id === 0n) continue;
      [claim.last, claim.used] = [tick, used + 1];
      return { id: id.toString() };
    }
    const refused = refuse("SEQUENCE_EXHAUSTED", end - now);
    if (open.some(({ isMore }) => isMore)) return refused;
    const held = own.length;
    return { ...refused, ...ask({ first: span, spans: 4, blocks: Math.max(1, held), held }, true) };
  };

  const prefetch = (now: number): BlockResult => {
    const present = spanAt(now);
    const first = claim.behind > present + ahead + 1 ? present : Math.max(present, claim.behind);
    const spans = present + ahead + 1 - first;
    return spans > 0 ? ask({ first, spans, blocks: 1, held: 0 }, false) : { wants: null };
  };

  const put = ({ first, blocks: given }: Extract<BlockStep, { do: "given" }>): void => {
    const { of, isMore } = open.shift() ?? { of: undefined, isMore: true };
    if (of !== claim) return;
    for (const [i, bits] of given.entries()) {
      const own = claim.held.get(first + i) ?? [];
      for (let block = 0; block < blocks; block++) if (((bits >>> block) & 1) === 1) own.push(block);
      claim.held.set(first + i, own);
    }
    if (!isMore) claim.behind = first + given.findLastIndex((bits) => bits !== 0) + 1;
  };

  const take = (step: BlockStep): BlockResult => {
    switch (step.do) {
      case "next":
        return next(step.clock);
      case "prefetch":
        return prefetch(step.clock);
      case "given":
        put(step);
        return {};
      case "silent":
        open.shift();
        return {};
      case "renewed":
        [claim.from, claim.until] = [Math.max(claim.from, step.from), Math.max(claim.until, step.until)];
        return {};
      case "lost":
        return {};
      case "granted":
        claim = begin(step);
        return {};
      case "close":
        state = "closed";
        return {};
    }
  };
  if (steps[0]?.do === "given") prefetch(grant.clock);
  return Promise.resolve(steps.map(take));
};

describe("blocks.json", () => {
  interface Script extends BlockScript {
    readonly steps: readonly (BlockStep & BlockResult)[];
  }
  interface Division {
    readonly text: string;
    readonly ticks: number;
    readonly blocks: number;
    readonly sequences: number;
    readonly ahead: number;
    readonly spans: readonly { readonly at: number; readonly span: number }[];
  }
  const { layouts, scripts } = read("blocks.json") as {
    readonly layouts: readonly Division[];
    readonly scripts: readonly Script[];
  };

  test.each(layouts.map((division) => [division.text, division] as const))("%s", (text, division) => {
    const { epoch, tick, maxSequence } = Layout.parse(text);
    const ticks = [...Array(65).keys()].find((ticks) => ticks * tick >= 64);
    expect(division).toMatchObject({ ticks, blocks: Math.min(32, maxSequence + 1) });
    expect(division.blocks * division.sequences).toBe(maxSequence + 1);
    for (const { at, span } of division.spans) {
      const first = epoch + span * division.ticks * tick;
      expect(at).toBeGreaterThanOrEqual(first);
      expect(at).toBeLessThan(first + division.ticks * tick);
    }
    const reach = division.ahead * division.ticks * tick;
    expect(reach).toBeGreaterThanOrEqual(5000);
    expect(division.ahead === 1 || reach - division.ticks * tick < 5000).toBe(true);
  });

  const expected = ({ steps }: Script): object[] => steps.map(({ id, refused, wants }) => ({ id, refused, wants }));

  test.each(scripts.map((script) => [script.why, script] as const))("%s", async (_, script) => {
    expect(await borrower(script)).toEqual(expected(script));
    expect(await simpleBorrower(script)).toEqual(expected(script));
  });

  test("no script makes an ID twice, or of a block that was not given", () => {
    for (const { layout: text, grant, steps } of scripts) {
      const layout = Layout.parse(text);
      const ticks = Math.ceil(64 / layout.tick);
      const sequences = Math.ceil((layout.maxSequence + 1) / 32);
      const made = new Set<string>();
      const free = new Set<string>();
      let { workerId, fence, until } = grant;
      for (const step of steps) {
        if (step.do === "granted") ({ workerId, fence, until } = step);
        if (step.do === "renewed") ({ until } = step);
        if (step.do === "given") {
          for (const [i, bits] of step.blocks.entries()) {
            for (let block = 0; block < 32; block++) {
              if (((bits >>> block) & 1) === 1) free.add(`${step.fence}/${step.first + i}/${block}`);
            }
          }
        }
        if (step.id === undefined) continue;
        const { timestamp, sequence, ...rest } = layout.decompose(BigInt(step.id));
        expect(rest.workerId).toBe(workerId);
        expect(timestamp + layout.tick).toBeLessThanOrEqual(until);
        const block = `${fence}/${Math.floor(layout.tickOf(timestamp) / ticks)}/${Math.floor(sequence / sequences)}`;
        expect(free).toContain(block);
        expect(made).not.toContain(step.id);
        made.add(step.id);
      }
    }
  });
});

test("docs/clients.md names existing scripts", () => {
  const page = readFileSync(join(import.meta.dirname, "../../docs/clients.md"), "utf8");
  const named = [...page.matchAll(/^\| \d+\. .*"([^"…]+?) ?…?" \|$/gm)].map(([, name = ""]) => name);
  expect(named).toHaveLength(11);
  const scripts = ["clocks.json", "blocks.json"].flatMap((file) => {
    return (read(file) as { readonly scripts: readonly { readonly why: string }[] }).scripts;
  });
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
