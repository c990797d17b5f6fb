import { html } from "hono/html";
import type { HistoryRow, WorkerRecord } from "../../rule/registry.ts";
import { endText, type Explanation } from "../../ops/explain.ts";
import { type PageLink, stateOf } from "./pool.ts";
import { listPart } from "./page.ts";
import { detailRoom, fitting } from "./room.ts";
import { type Html, left, span, when, who } from "./text.ts";

/** One worker ID and its holders. `history`: oldest first; `commands`: what can be done about it. */
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

function historyOf(history: readonly HistoryRow[], clock: number): Html {
  const { pieces } = fitting(history.toReversed(), detailRoom, (row) => historyRow(row, clock));
  return html`<div>
    <h3>History <span class="sub">newest first</span></h3>
    ${listPart(["Fence", "Holder", "Window", "End"], pieces)}
  </div>`;
}

function historyRow(row: HistoryRow, clock: number): Html {
  return html`<tr>
    <th scope="row">${row.fence}</th>
    <td>${who(row.holder)}</td>
    <td>${when(row.continuedFrom ?? row.from)} to ${when(row.until)}</td>
    <td>${endText(row, clock)}</td>
  </tr>`;
}

export function explanationPart(explanation: Explanation, address: PageLink): Html {
  const { id, holders, unheld, clock } = explanation;
  const { timestamp, workerId, sequence, fields, rollback } = explanation.parts;
  const split = Object.entries(fields).map(([name, value]) => `${name} ${value}`);
  const parts = split.length > 1 && ` (${split.join(", ")})`;
  const age = timestamp <= clock ? `, ${span(clock - timestamp)} ago` : ", in the future";
  return html`<section aria-labelledby="explained-title" id="explained" class="detail">
    <h2 id="explained-title" tabindex="-1">ID <code>${String(id)}</code></h2>
    <dl>
      ${fact("Made", html`${when(timestamp)} <span class="sub">${timestamp} ms${age}</span>`)}
      ${fact("Worker ID", html`<a href="${address({ worker: workerId })}#detail">${workerId}</a>${parts}`)}
      ${fact("Sequence", `${sequence}${rollback === undefined ? "" : `, rollback ${rollback}`}`)}
      <dt>Made by</dt>
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
      }
    </dl>
    <p class="pages"><a href="${address({})}">Close</a></p>
  </section>`;
}
