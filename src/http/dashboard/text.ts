import { html } from "hono/html";
import type { HolderLabel } from "../../rule/registry.ts";
import { timeText } from "../../id/errors.ts";
import type { PoolState } from "../../ops/pool/pool-counts.ts";

/** A piece of a page. All values in it are escaped. */
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
  return html`<time datetime="${iso}">${iso.slice(0, 19).replace("T", " ")}Z</time>`;
}

/** The same, without the date if it is today. */
export function recently(ms: number, clock: number): Html {
  const [iso, today] = [timeText(ms), timeText(clock)];
  if (iso.slice(0, 10) !== today.slice(0, 10)) return when(ms);
  return html`<time datetime="${iso}">${iso.slice(11, 19)}Z</time>`;
}

/** The rest of a window, as minutes and seconds. The script of the page counts it down. */
export function left(until: number, clock: number): Html {
  return html`<span class="left" data-until="${until}">${minutes(until - clock)}</span>`;
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

/** A foreign name in a plain text. The name may be written from left to right or from right to left. */
export function isolated(text: string): string {
  return `\u2068${text}\u2069`;
}

/** The host, address and process of a holder. */
export function who({ host, ip, pid, instance }: HolderLabel): Html {
  const rest = [ip, `pid ${pid}`, instance].filter((part) => part !== "" && part !== host);
  return html`<bdi class="host" title="${host}">${host}</bdi>
    <span class="sub">${rest.map((part, i) => html`${i === 0 ? "" : " · "}<bdi>${part}</bdi>`)}</span>`;
}
