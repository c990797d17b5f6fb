import { html } from "hono/html";
import { lengthText } from "../../id/duration.ts";
import { forecastText, layoutEnd } from "../../ops/pool/forecast.ts";
import { Layout } from "../../id/layout.ts";
import { presetNames } from "../../id/notation.ts";
import type { Picture } from "../../ops/pool/pool-watch.ts";
import type { LossReason } from "../../rule/registry.ts";
import type { JournalEntry, JournalEvent } from "../monitoring/journal.ts";
import type { PageLink } from "./pool.ts";
import { eventsRoom, fitting } from "./room.ts";
import { type Html, recently } from "./text.ts";

export function askPart(
  { namespace, layout, pool }: Picture,
  asked: {
    readonly id?: string | undefined;
    /** The name of another layout. */
    readonly layout?: string | undefined;
    readonly at?: string | undefined;
    readonly worker?: number | undefined;
  },
): Html {
  const others = presetNames.filter((name) => name !== layout.name);
  return html`<section aria-labelledby="ask-title" id="ask">
    <h2 id="ask-title">Ask</h2>
    <form action="/#explained">
      <input type="hidden" name="namespace" value="${namespace}" />
      <label for="id">Who made an ID</label>
      <span class="field"
        ><input
          id="id"
          name="id"
          value="${asked.id ?? ""}"
          required
          maxlength="200"
          autocomplete="off"
          autocapitalize="off"
          spellcheck="false"
          placeholder="1278549019894743040"
        /><button>Explain</button></span
      >
      ${
        asked.id !== undefined &&
        html`<label for="layout">Layout of the ID</label>
          <span class="field"
            ><select id="layout" name="layout">
              <option value="">of this namespace</option>
              ${others.map((name) => html`<option ${asked.layout === name && "selected"}>${name}</option>`)}
            </select></span
          >`
      }
      ${
        (asked.layout === undefined ? layout : Layout.parse(asked.layout)).wrap !== undefined &&
        html`<label for="at">Made about when, Unix ms</label>
          <span class="field"
            ><input id="at" name="at" value="${asked.at ?? ""}" inputmode="numeric" pattern="[0-9]*" autocomplete="off"
          /></span>`
      }
    </form>
    <form action="/#detail">
      <input type="hidden" name="namespace" value="${namespace}" />
      <label for="worker">Who held a worker ID</label>
      <span class="field"
        ><input
          id="worker"
          name="worker"
          value="${asked.worker ?? ""}"
          required
          inputmode="numeric"
          pattern="[0-9]+"
          autocomplete="off"
          placeholder="${pool.first} to ${pool.last}"
        /><button>Show</button></span
      >
    </form>
  </section>`;
}

/** How long pool and layout will last, and how well the clocks agree. */
export function outlookPart({ forecast, clock, layout, info, offset, latency, durability, read }: Picture): Html {
  const end = layoutEnd(layout, clock);
  return html`<section aria-labelledby="outlook-title" id="outlook">
    <details open>
      <summary><h2 id="outlook-title">Outlook</h2></summary>
      <dl class="prose">
        <dt>Pool</dt>
        <dd>${read < 1 ? "No forecast before the whole pool was read." : forecastText(forecast, clock)}</dd>
        <dt>Layout</dt>
        <dd class="${end.status}">${end.detail}</dd>
        <dt>Clocks</dt>
        <dd class="${Math.abs(offset) > info.maxClockSkew ? "fail" : "ok"}">
          This daemon’s clock is ${clockText(offset, latency)} the registry’s; up to ${lengthText(info.maxClockSkew)} is
          tolerated.
        </dd>
        <dt>Durability</dt>
        <dd>${durability}</dd>
      </dl>
    </details>
  </section>`;
}

function clockText(offset: number, latency: number): string {
  const margin = Math.ceil(latency / 2);
  if (Math.abs(offset) <= margin) return `within ${margin} ms of`;
  return `${Math.abs(offset)} ms ${offset > 0 ? "ahead of" : "behind"}`;
}

/** The events that this daemon saw, newest first. */
export function eventsPart(entries: readonly JournalEntry[], clock: number, address: PageLink): Html {
  const { pieces } = fitting(
    entries.toReversed(),
    eventsRoom,
    ({ number, event }) => html`<li id="e${number}">${recently(event.at, clock)} ${eventText(event, address)}</li>`,
  );
  return html`<section aria-labelledby="events-title" id="events">
    <details open>
      <summary>
        <h2 id="events-title">Events <span class="sub">as this daemon sees them</span></h2>
      </summary>
      ${
        entries.length === 0
          ? html`<p class="empty">Nothing happened yet.</p>`
          : html`<ol>
              ${pieces}
            </ol>`
      }
    </details>
  </section>`;
}

function eventText(event: JournalEvent, address: PageLink): Html {
  const { workerId, own, host, ip } = event;
  const worker = workerId !== undefined && html`<a href="${address({ worker: workerId })}#detail">${workerId}</a> `;
  const holder =
    typeof host === "string"
      ? html` <bdi class="host">${host}</bdi> <bdi class="sub">${typeof ip === "string" && ip}</bdi>`
      : own === true && " this daemon";
  const text = event.event === "lost" ? lossText(event) : toldIn.has(event.event) && event.message;
  const told = text !== false && html` <span class="sub">${text}</span>`;
  return html`${worker}<b class="${event.event.replace(/\W/g, "-")}">${event.event}</b>${holder}${told}`;
}

/** The text of a lost lease. For the daemon's own lease, the message is complete. */
function lossText({ own, message, reason = "taken" }: JournalEvent): string {
  return own === true ? message : (lossTexts[reason as LossReason] ?? message);
}

const lossTexts: Readonly<Record<LossReason, string>> = {
  taken: "Another holder has the worker ID.",
  released: "The claim was ended.",
  forgotten: "The registry went back in time.",
  cloned: "A copy of the holder renewed the lease.",
};

/** Events with a message that says more than their name. */
const toldIn: ReadonlySet<string> = new Set([
  "renew-failed",
  "quarantine",
  "refused",
  "overdue",
  "clock.rollback",
  "clock.jump",
]);
