import { html } from "hono/html";
import type { Layout } from "../../id/layout.ts";
import type { HistoryRow, WorkerRecord } from "../../rule/registry.ts";
import { endText, type Explanation } from "../../ops/explain.ts";
import { type PageLink, stateOf } from "./pool.ts";
import { listPart } from "./page.ts";
import { detailRoom, fitting } from "./room.ts";
import { type Html, left, span, when, who } from "./text.ts";

/** One worker ID and its holders. `history`: oldest first. `commands`: the commands that an operator can use. */
export function workerPart(
  workerId: number,
  {
    record,
    history,
    commands,
  }: {
    readonly record: WorkerRecord | undefined;
    readonly history: readonly HistoryRow[];
    readonly commands: Html;
  },
  clock: number,
  address: PageLink,
): Html {
  return html`<section aria-labelledby="detail-title" id="detail" class="detail">
    <h2 id="detail-title" tabindex="-1">Worker ${workerId}</h2>
    ${
      record === undefined
        ? html`<p class="empty">It was never used.</p>`
        : html`<div class="pair">${factsOf(record, clock)}${history.length > 0 && historyOf(history, clock)}</div>`
    }
    ${commands}
    <p class="pages"><a href="${address({})}">Close</a></p>
  </section>`;
}

function fact(name: string, value: Html | string): Html {
  return html`<dt>${name}</dt>
    <dd>${value}</dd>`;
}

function factsOf(record: WorkerRecord, clock: number): Html {
  const { state, holder, claimedAt, releasedAt, fence, pinned } = record;
  return html`<dl>
    ${fact("State", stateOf(state))} ${pinned !== undefined && fact("Pinned", html`<bdi>${pinned}</bdi>`)}
    ${holder && fact(state === "live" ? "Holder" : "Last holder", who(holder))}
    ${claimedAt !== undefined && fact("Since", html`${when(claimedAt)} <span class="sub">${span(clock - claimedAt)} ago</span>`)}
    ${releasedAt !== undefined && fact("Given back", when(releasedAt))} ${fence > 0 && windowFacts(record, clock)}
  </dl>`;
}

function windowFacts({ from, until, fence, checkpoint, seenClock }: WorkerRecord, clock: number): Html {
  const open = until > clock && html` <span class="sub">${left(until, clock)} left</span>`;
  const ahead = seenClock > clock && `, ahead of the registry’s by ${seenClock - clock} ms or more`;
  return html`${fact("Window", html`${when(from)} to ${when(until)}${open}`)} ${fact("Fence", String(fence))}
  ${checkpoint && fact("Last known use", html`${when(checkpoint.timestamp)}, sequence ${checkpoint.sequence}`)}
  ${fact("Holder’s clock", html`${when(seenClock)} at its last write${ahead}`)}`;
}

/** The bits of an ID, field by field, from the highest on. */
function bitsOf(id: bigint, layout: Layout): Html {
  return html`<ol class="bits" aria-label="Bits of the ID">
    ${layout.fields.map(({ name, bits }) => {
      const value = BigInt.asUintN(bits, id >> BigInt(layout.shiftOf(name)));
      return html`<li>
        <b>${name}</b> <span class="sub">${bits} bits, ${String(value)}</span>
        <code>${value.toString(2).padStart(bits, "0")}</code>
      </li>`;
    })}
  </ol>`;
}

function historyOf(history: readonly HistoryRow[], clock: number): Html {
  const rows = history.map((row, i) => ({ row, previous: history[i - 1] }));
  const { pieces } = fitting(rows.toReversed(), detailRoom, ({ row, previous }) => historyRow(row, previous, clock));
  return html`<div>
    <h3>History <span class="sub">newest first</span></h3>
    ${timelineOf(history, clock)} ${listPart(["Fence", "Holder", "Window", "End"], pieces)}
  </div>`;
}

/** Windows on one time line, with the gaps between them. The list below says the same in words. */
function timelineOf(history: readonly HistoryRow[], clock: number): Html {
  const width = 1000;
  const begin = Math.min(...history.map(beginOf));
  const end = Math.max(clock, ...history.map(({ until }) => until));
  const at = (ms: number): number => Math.round(((ms - begin) / Math.max(1, end - begin)) * width);
  return html`<svg class="timeline" viewBox="0 0 ${width} 20" preserveAspectRatio="none" aria-hidden="true">
      ${history.map((row) => {
        const [from, until] = [at(beginOf(row)), at(row.until)];
        const look = row.end === undefined && row.until > clock ? "live" : "passed";
        return html`<rect class="${look}" x="${from}" width="${Math.max(2, until - from - 1)}" height="20"></rect>`;
      })}
      <path class="present" d="M${at(clock)} 0v20"></path>
    </svg>
    <p class="ends"><span>${when(begin)}</span> <span>${when(end)}</span></p>`;
}

function beginOf({ continuedFrom, from }: HistoryRow): number {
  return continuedFrom ?? from;
}

function historyRow(row: HistoryRow, previous: HistoryRow | undefined, clock: number): Html {
  const gap = previous === undefined ? 0 : beginOf(row) - previous.until;
  return html`<tr>
    <th scope="row">${row.fence}</th>
    <td>${who(row.holder)}</td>
    <td>
      ${when(beginOf(row))} to
      ${when(row.until)}${gap > 0 && html` <span class="sub">${span(gap)} after the one before</span>`}
    </td>
    <td>${endText(row, clock)}</td>
  </tr>`;
}

/** The parts of an ID by its layout. */
type SplitId = Pick<Explanation, "id" | "layout" | "parts" | "clock">;

/** The parts of an ID whose layout is not the namespace's. No holder is shown. */
export function splitPart(split: SplitId, address: PageLink): Html {
  const maker = fact("Made by", "not looked up, since this namespace has another layout");
  return idPart(split, { worker: String(split.parts.workerId), maker }, address);
}

export function explanationPart(explanation: Explanation, address: PageLink): Html {
  const { holders, unheld, clock } = explanation;
  const { workerId } = explanation.parts;
  const worker = html`<a href="${address({ worker: workerId })}#detail">${workerId}</a>`;
  const maker = html`<dt>Made by</dt>
    ${
      unheld === undefined
        ? holders.map(
            (row) =>
              html`<dd>
                ${who(row.holder)}
                <span class="sub">fence ${row.fence}, claimed ${when(row.claimedAt)}, ${endText(row, clock)}</span>
              </dd>`,
          )
        : html`<dd>No recorded holder: <bdi>${unheld.detail}</bdi>.</dd>`
    }`;
  return idPart(explanation, { worker, maker }, address);
}

function idPart(
  { id, layout, clock, parts }: SplitId,
  { worker, maker }: { readonly worker: Html | string; readonly maker: Html },
  address: PageLink,
): Html {
  const { timestamp, sequence, fields, rollback } = parts;
  const split = Object.entries(fields).map(([name, value]) => `${name} ${value}`);
  const age = timestamp <= clock ? `, ${span(clock - timestamp)} ago` : ", in the future";
  return html`<section aria-labelledby="explained-title" id="explained" class="detail">
    <h2 id="explained-title" tabindex="-1">ID <code>${String(id)}</code></h2>
    <dl>
      ${fact("Made", html`${when(timestamp)} <span class="sub">${timestamp} ms${age}</span>`)}
      ${fact("Worker ID", html`${worker}${split.length > 1 && ` (${split.join(", ")})`}`)}
      ${fact("Layout", layout.name ?? layout.fingerprint)}
      ${fact("Sequence", `${sequence}${rollback === undefined ? "" : `, rollback ${rollback}`}`)} ${maker}
    </dl>
    ${bitsOf(id, layout)}
    <p class="pages"><a href="${address({})}">Close</a></p>
  </section>`;
}
