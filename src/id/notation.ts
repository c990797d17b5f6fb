import { checkInteger, refuse } from "./check.ts";
import { didYouMean } from "./did-you-mean.ts";
import { configInvalid, shown } from "./errors.ts";
import type { PoolBounds } from "./pool-bounds.ts";

/** Adjacent bits of an ID. */
export interface LayoutField {
  /**
   * `timestamp` (the top field, 21 to 47 bits, of 64 bits 22 to 48: ticks since the epoch), `sequence` (1 to 31 bits), `rollback` (directly above the sequence:
   * how often the clock went back further than the generator remembers), or an identity field, such as `worker`: any other name that
   * matches `[a-z][a-z0-9]{0,15}`, at most 31 bits in all. Without one, there is one worker ID, 0.
   */
  readonly name: string;
  readonly bits: number;
}

/** The description of a layout. */
export interface LayoutSpec {
  /**
   * From the top bit down; 64 bits at most. Of 64 bits, the top one stays 0, so that an ID fits a signed 64-bit column: the layout ends
   * when its timestamp would set that bit. With a timestamp that wraps, 63 bits at most.
   */
  readonly fields: readonly LayoutField[];
  /** Unix ms of tick 0: an integer from 0 to 4102444800000 (2100-01-01T00:00:00Z). */
  readonly epoch: number;
  /** Length of a tick in ms: an integer from 1 to 60000; default 1. */
  readonly tick?: number;
  /** The timestamp starts again at 0 when its bits have run out: IDs are unique only within one such wrap. Default false. */
  readonly wraps?: boolean;
}

/** Names of the layouts that Snowlease includes. */
export type PresetName = keyof typeof presets;

/** Canonical notations by name, as `Layout.parse` reads and `fingerprint` writes them, and their origins. */
export const presets = {
  // westid for Java: `WestId.EPOCH`, 2017-03-24T09:04:43.706Z.
  westid: "timestamp:41,worker:10,sequence:12@1490346283706/1",
  // Twitter's Snowflake: `twepoch`, 2010-11-04T01:42:54.657Z.
  twitter: "timestamp:41,datacenter:5,worker:5,sequence:12@1288834974657/1",
  // A Node.js generator for several processes on each of a few machines, 2020-01-31T16:00:00Z.
  rollback: "timestamp:41,machine:3,process:5,rollback:2,sequence:12@1580486400000/1",
  // uid-generator, 2016-05-20 in Shanghai.
  uid: "timestamp:28,worker:22,sequence:13@1463673600000/1000",
  // uid-generator for several sites.
  "uid-datacenter": "timestamp:28,datacenter:5,worker:17,sequence:13@1463673600000/1000",
  // Sonyflake, 2014-09-01 UTC.
  sonyflake: "timestamp:39,sequence:8,worker:16@1409529600000/10",
  // Discord, 2015-01-01 UTC.
  discord: "timestamp:42,worker:5,process:5,sequence:12@1420070400000/1",
  // Instagram's PL/pgSQL, 2011-08-24T21:07:01.721Z.
  instagram: "timestamp:41,shard:13,sequence:10@1314220021721/1",
  // Mastodon's statuses: Unix ms above 16 bits that one database counts.
  mastodon: "timestamp:48,sequence:16@0/1",
  // Fits the 53 bits of a JavaScript number, 2020-01-01 UTC.
  safe53: "timestamp:41,worker:5,sequence:7@1577836800000/1",
  // westid's scene codes: 31 bits that live for one wrap of 34.95 minutes.
  scene: "timestamp:21,worker:5,sequence:5@1490346283706/1/wraps",
} as const;

export const presetNames: readonly PresetName[] = Object.keys(presets) as PresetName[];

const decimal = "(?:0|[1-9][0-9]{0,15})";
const pair = `[^:,@/]+:${decimal}`;
const notationPattern = new RegExp(`^(${pair}(?:,${pair})*)@(${decimal})(?:/(${decimal}))?(/wraps)?$`);
const isPair = new RegExp(`^${pair}$`);
const isDecimal = new RegExp(`^${decimal}$`);
const namePattern = /^[a-z][a-z0-9]{0,15}$/;
const poolPattern = new RegExp(`^(${decimal})(?:-(${decimal}))?$`);

/** Reads a preset's name or the notation of a layout, whose rules it does not check. @throws SnowleaseError CONFIG_INVALID */
export function readNotation(text: string): LayoutSpec {
  const name = presetNames.find((name) => name === text);
  const notation = name === undefined ? text : presets[name];
  // The longest notation, 31 identity fields of one bit with names of 16 letters, is shorter than 1024 characters.
  const match = typeof notation === "string" && notation.length < 1024 ? notationPattern.exec(notation) : null;
  if (match === null) {
    const rule = `to be a preset (${presetNames.join(", ")}) or a notation like \`${presets.westid}\``;
    const flaw = flawOf(text);
    const got = flaw === undefined ? shown(text) : `${shown(text)}, ${flaw}`;
    throw configInvalid(`Expected \`layout\` ${rule}, got ${got}`);
  }
  const [, list = "", epoch, tick = 1, wraps] = match;
  const pairs = list.matchAll(/([^:,]+):([0-9]+)/g);
  const fields = Array.from(pairs, ([, name = "", bits]) => ({ name, bits: Number(bits) }));
  return { fields, epoch: Number(epoch), tick: Number(tick), wraps: wraps !== undefined };
}

/** Why a text is not a notation. */
function flawOf(text: unknown): string | undefined {
  // Parts of a URL may be a password.
  if (typeof text !== "string" || /\/\/|[?&]/.test(text)) return undefined;
  const meant = didYouMean(text, presetNames);
  if (meant !== undefined) return `which resembles \`${meant}\``;
  const [list = "", rest] = text.split(/@(.*)/s, 2);
  const wrong = list.split(",").find((part) => !isPair.test(part));
  if (wrong !== undefined)
    return list.includes(":") || list.includes(",")
      ? flawAt(wrong, "a field and its bits, such as `worker:10`")
      : undefined;
  if (rest === undefined) return "which lacks `@` and the epoch in Unix ms";
  const [epoch = "", tick, ...others] = rest.split("/");
  if (!isDecimal.test(epoch)) return flawAt(epoch, "an epoch in Unix ms, such as `1490346283706`");
  if (tick !== undefined && tick !== "wraps" && !isDecimal.test(tick)) return flawAt(tick, "a tick in ms, such as `1`");
  if (others.length === 0) return undefined;
  return `where ${quoted(others.join("/"))} follows the tick, and only \`wraps\` may`;
}

function flawAt(part: string, expected: string): string {
  return `where ${quoted(part)} is not ${expected}`;
}

function quoted(part: string): string {
  return shown(part).replace(/ \(string\)$/, "");
}

/** Checks that the name and the width of a field can be written. @throws SnowleaseError CONFIG_INVALID */
export function checkField(field: LayoutField): LayoutField {
  const { name, bits } = field ?? {};
  if (typeof name !== "string" || !namePattern.test(name)) refuse("field name", `to match ${namePattern.source}`, name);
  return Object.freeze({ name, bits: checkInteger(`${name} bits`, bits, 1, 63) });
}

/** The canonical notation: equal layouts have the same one. */
export function writeNotation({ fields, epoch, tick = 1, wraps = false }: LayoutSpec): string {
  const pairs = fields.map(({ name, bits }) => `${name}:${bits}`);
  return `${pairs.join(",")}@${epoch}/${tick}${wraps ? "/wraps" : ""}`;
}

/**
 * Reads a pool of worker IDs: `512-1023`, or `7` for one. Plain decimal, up to 2^31-1; `Layout.narrow` checks that a layout has them.
 * @throws SnowleaseError CONFIG_INVALID
 */
export function parsePool(text: string): PoolBounds {
  const match = typeof text === "string" ? poolPattern.exec(text) : null;
  const first = Number(match?.[1]);
  const last = Number(match?.[2] ?? match?.[1]);
  if (first <= last && last < 2 ** 31) return { first, last };
  return refuse("pool", "to be a range of worker IDs such as `512-1023`, or one such as `7`", text);
}

/** Writes a pool as `parsePool` reads it. */
export function formatPool(pool: PoolBounds): string {
  return pool.first === pool.last ? `${pool.first}` : `${pool.first}-${pool.last}`;
}

/** Formats a number with thousands separators: 4,194,304. */
export function grouped(count: number): string {
  return count.toLocaleString("en-US");
}
