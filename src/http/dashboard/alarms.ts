import { html } from "hono/html";
import type { Alarm } from "../../ops/pool/alarms.ts";
import { notice } from "./page.ts";
import { cut } from "./room.ts";
import type { Html } from "./text.ts";

/** Longest text of an alarm in the page, bytes: messages name hosts. */
const longest = 1000;

/** What operators have to act on, above everything else. Empty where all is well. */
export function alarmsPart(alarms: readonly Alarm[]): Html | string {
  if (alarms.length === 0) return "";
  return html`<div id="alarms" role="group" aria-label="What needs attention">
    ${alarms.map(({ kind, title, text }) => notice(kind, title, cut(text, longest)))}
  </div>`;
}
