import type { Layout } from "../../id/layout.ts";
import type { Registry, WorkerRecord } from "../../rule/registry.ts";
import { counted, timeText } from "../../id/errors.ts";

/** The growth of a pool's use, and the time at which it fills the pool. Times in Unix ms. */
export interface PoolForecast {
  /** The past time that is compared with now. */
  readonly since: number;
  /** Number of worker IDs whose window held that time, and whose window holds the present time. */
  readonly before: number;
  readonly now: number;
  /** Time at which no worker ID is left at this growth. Undefined without growth. */
  readonly fullAt: number | undefined;
}

const hour = 3_600_000;
const day = 24 * hour;
const year = 365.25 * day;
/** Operators are warned this long before a layout's end, ms. */
const notice = 2 * year;
/** Spans to compare over, ms. The longest span that history covers is used. A week has a weekend, and four weeks hide a deploy. */
const spans = [28 * day, 7 * day, day];
/** Size of the sample of worker IDs whose history is read. The result counts for all of them. */
const sampled = 64;
/** Reads of history at once. */
const lanes = 8;
/** A later end is not forecast, ms from now. */
const horizon = 10 * year;

/**
 * Counts the worker IDs whose window held a past time. A record shows only its present or last claim. So worker IDs that were claimed
 * since that time, or a sample of them, are looked up in history.
 */
class UseAt {
  readonly at: number;
  #certain = 0;
  #claimedSince = 0;
  #sample: number[] = [];
  #stride = 1;

  constructor(at: number) {
    this.at = at;
  }

  add({ workerId, claimedAt, until }: WorkerRecord): void {
    if (claimedAt === undefined) return;
    if (claimedAt <= this.at) {
      if (until > this.at) this.#certain++;
      return;
    }
    // Take every stride-th worker ID, so that the sample is spread over all of them.
    if (this.#claimedSince++ % this.#stride === 0) this.#sample.push(workerId);
    if (this.#sample.length <= 2 * sampled) return;
    this.#sample = this.#sample.filter((_, i) => i % 2 === 0);
    this.#stride *= 2;
  }

  async count(registry: Registry, namespace: string): Promise<number> {
    const sample = this.#sample;
    if (sample.length === 0) return this.#certain;
    const range = { from: this.at, until: this.at + 1, limit: 1 };
    const left = sample.values();
    let hits = 0;
    const ask = async (): Promise<void> => {
      // All lanes take from one iterator.
      for (const workerId of left) {
        const rows = await registry.history(namespace, workerId, range);
        hits += rows.length;
      }
    };
    await Promise.all(Array.from({ length: lanes }, ask));
    return this.#certain + Math.round((this.#claimedSince * hits) / sample.length);
  }
}

/** Computes the growth of a pool's use from its records and the registry's history. It needs no observation over time. */
export class Growth {
  readonly #now: number;
  readonly #past: readonly UseAt[];
  #used = 0;

  /** @param now the registry's clock, Unix ms. */
  constructor(now: number) {
    this.#now = now;
    this.#past = spans.map((span) => new UseAt(now - span));
  }

  /** Adds a record. The caller adds every record of the pool once. */
  add(record: WorkerRecord): void {
    if (record.claimedAt !== undefined && record.until > this.#now) this.#used++;
    for (const past of this.#past) past.add(record);
  }

  /**
   * Undefined if nothing was in use a day ago. Rejects as the registry does.
   * @param left worker IDs that can be claimed now, or were never used.
   */
  async forecast(registry: Registry, namespace: string, left: number): Promise<PoolForecast | undefined> {
    const now = this.#used;
    for (const past of this.#past) {
      const before = await past.count(registry, namespace);
      if (before === 0) continue;
      const since = past.at;
      const rate = (now - before) / (this.#now - since);
      return { since, before, now, fullAt: rate > 0 ? Math.round(this.#now + left / rate) : undefined };
    }
    return undefined;
  }
}

/** A forecast as a sentence. @param now the registry's clock, Unix ms. */
export function forecastText(forecast: PoolForecast | undefined, now: number): string {
  if (forecast === undefined) return "No forecast: nothing was in use here a day ago.";
  const { since, before, now: used, fullAt } = forecast;
  const then = `${before} in use ${roughly(now - since)} ago, ${used} now`;
  if (fullAt === undefined) return `Not growing: ${then}.`;
  if (fullAt - now > horizon) return `Lasts more than 10 years at the present growth: ${then}.`;
  if (fullAt <= now) return `Full: ${then}.`;
  return `Full in about ${roughly(fullAt - now)}, on ${timeText(fullAt).slice(0, 10)}, at the present growth: ${then}.`;
}

/** A forecast in a few words. Undefined without a forecast. */
export function briefForecast(forecast: PoolForecast | undefined, now: number): string | undefined {
  if (forecast === undefined) return undefined;
  const { fullAt } = forecast;
  if (fullAt === undefined) return "not growing";
  if (fullAt - now > horizon) return "enough for over 10 years";
  return `full in about ${roughly(fullAt - now)}`;
}

/** How long a layout lasts. @param now Unix ms. */
export function layoutEnd(
  { fingerprint, endOfLife, wrap }: Layout,
  now: number,
): { readonly status: "ok" | "warn" | "fail"; readonly detail: string } {
  if (wrap !== undefined) {
    const detail = `The timestamp of ${fingerprint} starts again every ${wrap} ms: an ID is unique for that time.`;
    return { status: "ok", detail };
  }
  const left = endOfLife - now;
  const years = `${(Math.abs(left) / year).toFixed(1)} years`;
  const detail =
    left <= 0
      ? `The timestamp bits of ${fingerprint} ran out on ${timeText(endOfLife)}, ${years} ago; move to another layout.`
      : `The timestamp bits of ${fingerprint} last until ${timeText(endOfLife)}, another ${years}.`;
  return { status: left <= 0 ? "fail" : left <= notice ? "warn" : "ok", detail };
}

const units = [
  ["year", year],
  ["month", year / 12],
  ["week", 7 * day],
  ["day", day],
  ["hour", hour],
  ["minute", 60_000],
] as const;

/** A span in the largest unit of which it has at least two. */
function roughly(ms: number): string {
  const [name, unit] = units.find(([, unit]) => ms >= 2 * unit) ?? ["minute", 60_000];
  const count = Math.max(1, Math.round(ms / unit));
  return counted(count, name);
}
