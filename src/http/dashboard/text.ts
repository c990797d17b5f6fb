import { html } from "../../vendor/hono.ts";
import type { HolderLabel } from "../../rule/registry.ts";
import { timeText } from "../../id/errors.ts";
import type { PoolState } from "../../ops/pool/pool-counts.ts";

/** A piece of a page, in which everything that was filled in is escaped. */
export type Html = ReturnType<typeof html>;

/** The states in the order of the page, and what they mean. */
export const states: Readonly<Record<PoolState, { readonly name: string; readonly meaning: string }>> = {
  live: { name: "live", meaning: "held, its window is open" },
  resting: { name: "resting", meaning: "crashed or given up; closed until its window has passed" },
  free: { name: "free", meaning: "was used, can be claimed" },
  unused: { name: "never used", meaning: "can be claimed" },
  pinned: { name: "pinned", meaning: "kept out of the pool" },
  foreign: { name: "foreign", meaning: "taken by a program that keeps no window" },
};

export const stateNames: readonly PoolState[] = Object.keys(states) as PoolState[];

/** A time as in the logs, to the second. */
export function when(ms: number): Html {
  const iso = timeText(ms);
  return html`<time datetime="${iso}">${isoOf(ms)}</time>`;
}

/** The same, less the day where that is today. */
export function recently(ms: number, clock: number): Html {
  const [iso, today] = [timeText(ms), timeText(clock)];
  if (iso.slice(0, 10) !== today.slice(0, 10)) return when(ms);
  return html`<time datetime="${iso}" title="${isoOf(ms)}">${iso.slice(11, 19)}Z</time>`;
}

/** A time to the second, for a title. */
export function isoOf(ms: number): string {
  return `${timeText(ms).slice(0, 19).replace("T", " ")}Z`;
}

/** A text in which no time is broken at the end of a line. */
export function withTimes(text: string): readonly Html[] {
  const pieces = text.split(/(\d{4}-\d\d-\d\d[T ][\d:.]+Z)/);
  return pieces.map((piece, i) => (i % 2 === 0 ? html`${piece}` : html`<span class="exact">${piece}</span>`));
}

/** How long ago a time was; the time itself is in the title. */
export function ago(ms: number, clock: number): Html {
  return html`<time datetime="${timeText(ms)}" title="${isoOf(ms)}">${span(clock - ms)} ago</time>`;
}

/** What is left of a window, as minutes and seconds; the script of the page counts it down. */
export function left(until: number, clock: number): Html {
  return html`<span class="left" data-until="${until}" title="${isoOf(until)}">${minutes(until - clock)}</span>`;
}

function minutes(ms: number): string {
  const seconds = Math.max(0, Math.ceil(ms / 1000));
  return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`;
}

export function span(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 24) return `${hours} h ${minutes % 60} min`;
  return `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

/** A name from elsewhere, of whatever direction of writing, as part of a plain text. */
export function isolated(text: string): string {
  return `\u2068${text}\u2069`;
}

/** The host, address and process of a holder. */
export function who(holder: HolderLabel): Html {
  return html`<bdi class="host">${holder.host}</bdi> <span class="sub">${addressPart(holder)}</span>`;
}

/** The address and process of a holder. */
export function addressPart({ host, ip, pid, instance }: HolderLabel): readonly Html[] {
  const rest = [ip, `pid ${pid}`, instance].filter((part) => part !== "" && part !== host);
  return rest.map((part, i) => html`${i === 0 ? "" : " · "}<bdi>${part}</bdi>`);
}
