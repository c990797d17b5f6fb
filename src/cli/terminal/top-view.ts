import type { WorkerRecord } from "../../rule/registry.ts";
import { formatPool } from "../../id/notation.ts";
import { timeText } from "../../id/errors.ts";
import { alarmsOf } from "../../ops/pool/alarms.ts";
import type { Change } from "../../ops/pool/changes.ts";
import { forecastText, layoutEnd } from "../../ops/pool/forecast.ts";
import { mainState, type PoolState, sumOf, takenOf } from "../../ops/pool/pool-counts.ts";
import type { Cell, Picture } from "../../ops/pool/pool-watch.ts";
import { printable } from "../../id/printable.ts";
import { fitted, lineOf, type Piece } from "./columns.ts";

/** A change, and when it was seen, Unix ms. */
export interface SeenChange extends Change {
  readonly at: number;
}

/** The content of one screen. */
export interface Scene {
  readonly picture: Picture;
  /** Why the picture is outdated. */
  readonly problem?: string | undefined;
  /** Oldest first. */
  readonly changes: readonly SeenChange[];
  readonly registry: string;
  /** The registry's clock, Unix ms. */
  readonly now: number;
  /** The number of holders above the first one that is shown. */
  readonly scroll: number;
}

/** The terminal under a screen. */
export interface Surface {
  readonly columns: number;
  /** Infinity: as many rows as the text needs. */
  readonly rows: number;
  readonly colored: boolean;
  /** Whether it can show more than ASCII. */
  readonly unicode: boolean;
}

/** The look and the two signs of each state. Colour alone must not carry the meaning. */
const signs: Readonly<
  Record<PoolState, { readonly look: string; readonly sign: string; readonly ascii: string; readonly name: string }>
> = {
  live: { look: "36", sign: "■", ascii: "#", name: "live" },
  resting: { look: "33", sign: "▨", ascii: "~", name: "resting" },
  free: { look: "39", sign: "□", ascii: "o", name: "free" },
  unused: { look: "90", sign: "·", ascii: ".", name: "never used" },
  pinned: { look: "35", sign: "◆", ascii: "P", name: "pinned" },
  foreign: { look: "31", sign: "✕", ascii: "X", name: "foreign" },
};
const order = Object.keys(signs) as PoolState[];
const bold = "1";
const dim = "90";
const alarm = "1;31";
/** Most columns of the grid. */
const widest = 64;

/** The lines to show, not more than there are rows, and how far the holders can be scrolled. */
export function drawTop(
  scene: Scene,
  surface: Surface,
): { readonly lines: readonly string[]; readonly mostScroll: number } {
  const { picture, problem, scroll } = scene;
  const { columns, rows, colored, unicode } = surface;
  const end = layoutEnd(picture.layout, scene.now);
  const outlook =
    picture.read < 1 ? `${Math.floor(100 * picture.read)} % read so far` : forecastText(picture.forecast, scene.now);
  const finite = Number.isFinite(rows);
  const head: Piece[][] = [
    headOf(scene),
    ...(problem === undefined ? [] : [[[printable(problem), alarm] as const]]),
    ...alarmsOf(picture).map(({ title, text }): Piece[] => [[printable(`${title}. ${text}`), alarm]]),
    ...countsOf(picture, columns, unicode),
    [[`Pool ${formatPool(picture.pool)}: ${outlook}`]],
    [[end.detail, end.status === "ok" ? dim : alarm]],
    [],
  ];
  const spare = Math.max(0, rows - head.length - 4);
  const grid = gridOf(picture.cells, { columns, lines: finite ? Math.min(16, Math.floor(spare * 0.45)) : 16, unicode });
  const happened = scene.changes.slice(finite ? -Math.max(1, Math.floor(spare / 6)) : 0);
  const events = happened.toReversed().map(changeLine);
  const tail: Piece[][] = events.length === 0 ? [] : [[], [["EVENTS", dim]], ...events];

  // A blank line and the heading are above the holders, the keys are below.
  const room = Math.max(0, rows - head.length - grid.length - tail.length - 3);
  const holders = picture.holders.toSorted((one, other) => one.until - other.until);
  const mostScroll = Math.max(0, holders.length - room);
  const first = Math.min(scroll, mostScroll);
  const shown = holders.slice(first, first + room);
  const list = room === 0 ? [] : [[], ...holdersOf(shown, scene, columns)];
  if (finite) {
    const { live } = picture.counts;
    const part = shown.length < live ? `; holders ${first + 1} to ${first + shown.length} of ${live}` : "";
    tail.push([[`q quits, arrows scroll${part}`, dim]]);
  }
  const body = [...head, ...grid, ...list];
  // Fill up with blank lines, so that the tail keeps its place at any number of holders.
  while (finite && body.length < rows - tail.length) body.push([]);
  const lines = [...body, ...tail].slice(0, rows).map((pieces) => {
    const line = lineOf(pieces, columns, colored);
    return unicode ? line : line.replaceAll("…", ">").replace(/[^\x00-\x7e]/gu, "?");
  });
  return { lines, mostScroll };
}

function headOf({ picture, registry, now }: Scene): Piece[] {
  const { namespace, offset, latency } = picture;
  const margin = Math.ceil(latency / 2);
  const clock =
    Math.abs(offset) <= margin ? `within ${margin} ms` : `${Math.abs(offset)} ms ${offset > 0 ? "ahead" : "behind"}`;
  return [
    ["Snowlease ", bold],
    [namespace, bold],
    [`  ${registry}  ${timeText(now).slice(0, 19)}Z  answers in ${latency.toFixed(1)} ms  clock ${clock}`, dim],
  ];
}

function countsOf({ counts, pool }: Picture, columns: number, unicode: boolean): Piece[][] {
  const size = pool.last - pool.first + 1;
  const sum = takenOf(counts);
  const share = size === 0 ? 0 : (100 * sum) / size;
  const lines: Piece[][] = [[[`${sum} of ${size} taken (${share.toFixed(share < 10 ? 1 : 0)} %)`, bold]]];
  let used = Infinity;
  for (const state of order) {
    const { look, sign, ascii, name } = signs[state];
    const text = `${counts[state]} ${name}   `;
    if (used + text.length + 2 > columns) {
      lines.push([]);
      used = 0;
    }
    lines.at(-1)?.push([`${unicode ? sign : ascii} `, look], [text]);
    used += text.length + 2;
  }
  return lines;
}

/** The grid of cells. One sign stands for as many cells as necessary, so that all fit. */
function gridOf(
  cells: readonly Cell[],
  { columns, lines, unicode }: { readonly columns: number; readonly lines: number; readonly unicode: boolean },
): Piece[][] {
  if (lines < 1) return [];
  const margin = String(cells.at(-1)?.first ?? 0).length + 4;
  const width = Math.max(8, Math.min(widest, 2 ** Math.floor(Math.log2(Math.max(8, columns - margin)))));
  const each = Math.max(1, Math.ceil(cells.length / (width * lines)));
  const rows: Piece[][] = [];
  for (let at = 0; at < cells.length; at += each * width) {
    const row: Piece[] = [[`${fitted(String(cells[at]?.first ?? ""), margin - 2, "right")}  `, dim]];
    for (let i = at; i < Math.min(cells.length, at + each * width); i += each) {
      const { look, sign, ascii } = signs[mainState(sumOf(cells.slice(i, i + each).map(({ counts }) => counts)))];
      const text = unicode ? sign : ascii;
      const last = row.at(-1);
      if (last !== undefined && last[1] === look && row.length > 1) row[row.length - 1] = [last[0] + text, look];
      else row.push([text, look]);
    }
    rows.push(row);
  }
  return rows;
}

function holdersOf(holders: readonly WorkerRecord[], { now }: Scene, columns: number): Piece[][] {
  const [id, left, held] = [8, 7, 9];
  const rest = Math.max(10, columns - id - left - held - 6);
  const host = Math.min(40, Math.floor(rest * 0.55));
  const row = (texts: readonly string[], look?: string): Piece[] => [
    [fitted(texts[0] ?? "", id, "right"), look],
    [`  ${fitted(texts[1] ?? "", left, "right")}`, look],
    [`  ${fitted(texts[2] ?? "", held, "right")}`, look],
    [`  ${fitted(texts[3] ?? "", host)}`, look],
    [`  ${texts[4] ?? ""}`, look ?? dim],
  ];
  if (holders.length === 0) return [[["No worker ID is held.", dim]]];
  return [
    row(["ID", "LEFT", "HELD", "HOST", "ADDRESS, PID"], dim),
    ...holders.map(({ workerId, until, claimedAt, holder }) => {
      const { host = "", ip = "", pid = "", instance = "" } = holder ?? {};
      const whence = [ip, `pid ${pid}`, instance].filter(Boolean).map(printable).join(" ");
      return row([
        String(workerId),
        clockText(until - now),
        claimedAt === undefined ? "" : spanText(now - claimedAt),
        printable(host),
        whence,
      ]);
    }),
  ];
}

function changeLine({ at, workerId, what, holder }: SeenChange): Piece[] {
  const whom = holder === undefined ? "" : ` ${printable(holder.host)} (${printable(holder.ip)})`;
  return [[`${timeText(at).slice(11, 19)}Z `, dim], [`${workerId} `], [what, bold], [whom]];
}

/** A time as minutes and seconds. */
function clockText(ms: number): string {
  const seconds = Math.max(0, Math.ceil(ms / 1000));
  return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`;
}

/** A time in its two largest units. */
function spanText(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  return hours < 24 ? `${hours} h ${minutes % 60} m` : `${Math.floor(hours / 24)} d ${hours % 24} h`;
}
