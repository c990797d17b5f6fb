import { html } from "../../vendor/hono.ts";
import type { HistoryRow } from "../../rule/registry.ts";
import { endText } from "../../ops/explain.ts";
import { tight } from "./room.ts";
import { type Html, when } from "./text.ts";

const [width, height] = [600, 32];
/** The least width of a window: of a long history, a short one would be lost. */
const leastWidth = 3;
/** How high a window is drawn by how it ended: colour alone must not carry the meaning. */
const heights: Readonly<Record<string, number>> = { live: 28, released: 20, ended: 13, lost: 7 };

/** The windows of a worker ID along the time. `history`: oldest first. The table beside it says the same in words. */
export function timelinePart(history: readonly HistoryRow[], clock: number): Html | string {
  const [oldest] = history;
  if (oldest === undefined) return "";
  const first = startOf(oldest);
  const last = Math.max(clock, ...history.map(({ until }) => until));
  const xOf = (time: number): number => Math.round(((time - first) / Math.max(1, last - first)) * width * 10) / 10;
  const windows = history.map((row) => {
    const look = lookOf(row, clock);
    const high = heights[look] ?? height;
    const [from, until] = [xOf(startOf(row)), xOf(row.until)];
    const x = Math.min(from, width - leastWidth);
    const wide = Math.max(leastWidth, Math.round((until - from) * 10) / 10);
    return html`<rect class="window-${look}" x="${x}" y="${height - high}" width="${wide}" height="${high}">
      <title>Fence ${row.fence}: ${endText(row, clock)}</title>
    </rect>`;
  });
  const looks = new Map(history.map((row) => [lookOf(row, clock), endText(row, clock)]));
  const label = `${history.length} ${history.length === 1 ? "window" : "windows"} along the time, as in the table`;
  return tight(
    html`<div class="timeline">
      <svg viewBox="0 0 ${width} ${height}" preserveAspectRatio="none" role="img" aria-label="${label}">
        ${windows}
        <path class="now" d="M${xOf(clock)} 0V${height}" />
      </svg>
      <p class="sub"><span>${when(first)}</span> <span>${last === clock ? "now" : when(last)}</span></p>
      <ul>
        ${Array.from(looks, ([look, text]) => html`<li><i class="swatch window-${look}" aria-hidden="true"></i> <span>${text}</span></li>`)}
        ${last > clock && html`<li><i class="swatch now" aria-hidden="true"></i> <span>now</span></li>`}
      </ul>
    </div>`,
  );
}

function startOf({ continuedFrom, from }: HistoryRow): number {
  return continuedFrom ?? from;
}

function lookOf({ end, until }: HistoryRow, clock: number): string {
  if (end === undefined) return until > clock ? "live" : "lost";
  if (end === "released") return "released";
  return end === "taken-over" ? "lost" : "ended";
}
