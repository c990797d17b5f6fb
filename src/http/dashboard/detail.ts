import { html } from "hono/html";
import type { HistoryRow, WorkerRecord } from "../../rule/registry.ts";
import { endText, type Explanation } from "../../ops/explain.ts";
import { type PageLink, stateOf } from "./pool.ts";
import { listPart } from "./page.ts";
import { detailRoom, fitting } from "./room.ts";
import { type Html, left, span, when, who } from "./text.ts";

/** One worker ID and its holders. `history`: oldest first. */
export function workerPart(
  workerId: number,
  record: WorkerRecord | undefined,
  history: readonly HistoryRow[],
  clock: number,
  address: PageLink,
): Html {
  return html`<section aria-labelledby="detail-title" id="detail" class="detail">
    <h2 id="detail-title" tabindex="-1">Worker ${workerId}</h2>
    ${
      record === undefined
        ? html`<p class="empty">It was never used.</p>`
        : html`<div class="pair">
            ${factsOf(record, clock)}${history.length === 0 ? "" : historyOf(history, clock)}
          </div>`
    }
    <p class="pages"><a href="${address({})}">Close</a></p>
  </section>`;
}

function factsOf(record: WorkerRecord, clock: number): Html {
  const { state, holder, claimedAt, releasedAt, from, until, fence, checkpoint, seenClock, pinned } = record;
  const isLive = state === "live";
  const ahead = seenClock - clock;
  return html`<dl>
    <dt>State</dt>
    <dd>${stateOf(state)}</dd>
    ${
      pinned === undefined
        ? ""
        : html`<dt>Pinned</dt>
            <dd><bdi>${pinned}</bdi></dd>`
    }
    ${
      holder === undefined
        ? ""
        : html`<dt>${isLive ? "Holder" : "Last holder"}</dt>
            <dd>${who(holder)}</dd>`
    }
    ${
      claimedAt === undefined
        ? ""
        : html`<dt>Since</dt>
            <dd>${when(claimedAt)} <span class="sub">${span(clock - claimedAt)} ago</span></dd>`
    }
    ${
      releasedAt === undefined
        ? ""
        : html`<dt>Given back</dt>
            <dd>${when(releasedAt)}</dd>`
    }
    ${
      fence === 0
        ? ""
        : html`<dt>Window</dt>
            <dd>
              ${when(from)} to
              ${when(until)}${until > clock ? html` <span class="sub">${left(until, clock)} left</span>` : ""}
            </dd>
            <dt>Fence</dt>
            <dd>${fence}</dd>
            ${
              checkpoint === undefined
                ? ""
                : html`<dt>Last known use</dt>
                    <dd>${when(checkpoint.timestamp)}, sequence ${checkpoint.sequence}</dd>`
            }
            <dt>Holder’s clock</dt>
            <dd>
              ${when(seenClock)} at its last write${ahead > 0 ? `, ahead of the registry’s by ${ahead} ms or more` : ""}
            </dd>`
    }
  </dl>`;
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

/** The parts of an ID, and its maker. */
export function explanationPart({ id, parts, holders, nobody, clock }: Explanation, address: PageLink): Html {
  const { timestamp, workerId, sequence, fields, rollback } = parts;
  const split = Object.entries(fields).map(([name, value]) => `${name} ${value}`);
  return html`<section aria-labelledby="explained-title" id="explained" class="detail">
    <h2 id="explained-title" tabindex="-1">ID <code>${String(id)}</code></h2>
    <dl>
      <dt>Made</dt>
      <dd>
        ${when(timestamp)}
        <span class="sub"
          >${timestamp} ms${timestamp <= clock ? `, ${span(clock - timestamp)} ago` : ", in the future"}</span
        >
      </dd>
      <dt>Worker ID</dt>
      <dd>
        <a href="${address({ worker: workerId })}#detail">${workerId}</a
        >${split.length > 1 ? ` (${split.join(", ")})` : ""}
      </dd>
      <dt>Sequence</dt>
      <dd>${sequence}${rollback === undefined ? "" : `, rollback ${rollback}`}</dd>
      <dt>Made by</dt>
      ${
        nobody === undefined
          ? holders.map(
              (row) =>
                html`<dd>
                  ${who(row.holder)}
                  <span class="sub">fence ${row.fence}, claimed ${when(row.claimedAt)}, ${endText(row, clock)}</span>
                </dd>`,
            )
          : html`<dd>No recorded holder: <bdi>${nobody.detail}</bdi>.</dd>`
      }
    </dl>
    <p class="pages"><a href="${address({})}">Close</a></p>
  </section>`;
}
