import { html } from "hono/html";
import { formatPool, grouped } from "../../id/notation.ts";
import { hasWindow } from "../../rule/window.ts";
import type { PoolBounds } from "../../id/pool-bounds.ts";
import type { WorkerRecord } from "../../rule/registry.ts";
import { isOverdue, mainState, type PoolState, takenOf } from "../../ops/pool/pool-counts.ts";
import type { Cell, Picture } from "../../ops/pool/pool-watch.ts";
import { listPart } from "./page.ts";
import { cut, detailRoom, fitting, gridRoom, sizeOf, tight, writtenSize } from "./room.ts";
import { type Html, isolated, left, stateNames, states, when, who } from "./text.ts";

/** Cells of a row. A wide window shows two rows on a line. */
const columns = 32;
/** Limits for the length of cell labels, bytes. The first limit with which all labels fit is used. */
const labelLengths = [160, 80, 44, 24] as const;
/** Number of fill levels of a cell of many worker IDs. */
const steps = 8;

/** Addresses within the dashboard. */
export type PageLink = (query: Readonly<Record<string, number | string>>) => string;

/** The number of worker IDs in each state. It is also the legend of the grid. */
export function countsPart({ counts, pool, read }: Picture): Html {
  const size = pool.last - pool.first + 1;
  const taken = takenOf(counts);
  const share = size === 0 ? 0 : (100 * taken) / size;
  const percent = share > 0 && share < 0.1 ? "below 0.1" : share.toFixed(share < 10 && share > 0 ? 1 : 0);
  return html`<section aria-labelledby="counts-title" id="counts">
    <h2 id="counts-title">
      ${read < 1 && "At least "}<strong>${grouped(taken)}</strong> of ${grouped(size)} worker IDs taken
      <span class="sub">${read < 1 ? `${Math.floor(100 * read)} % of the pool read so far` : `${percent} %`}</span>
    </h2>
    <ul>
      ${stateNames.map(
        (state) =>
          html`<li>
            <i class="cell ${state}" aria-hidden="true"></i> <b>${grouped(counts[state])}</b>
            <span>${states[state].name}</span><small>${states[state].meaning}</small>
          </li>`,
      )}
    </ul>
  </section>`;
}

/** Every worker ID as a cell. In a large pool, a cell stands for several worker IDs, so that there are at most 1024 cells. */
export function gridPart(
  { cells, cellSize: size, pool, clock, overdue }: Picture,
  address: PageLink,
  selected: number | undefined,
): Html {
  // Worker IDs that were not read yet already have their place.
  const count = Math.ceil((pool.last - pool.first + 1) / size);
  const rows = Array.from({ length: Math.ceil(count / columns) }, (_, i) => {
    const at = Array.from({ length: Math.min(columns, count - i * columns) }, (_, j) => cells[i * columns + j]);
    return { first: pool.first + i * columns * size, at };
  });
  // The Tab key leads to this cell, and the arrow keys lead from it to others.
  const entry = cells.find((cell) => holds(cell, selected))?.first ?? pool.first;
  const cellOf = (cell: Cell, label: string): Html => {
    const { first } = cell;
    const href = size === 1 ? `${address({ worker: first })}#detail` : `${address({ from: first })}#workers`;
    const tab = first === entry ? 0 : -1;
    const current = holds(cell, selected) && html`aria-current="true"`;
    const link = html`<a
      href="${href}"
      class="${looks(cell, clock)}"
      tabindex="${tab}"
      aria-label="${label}"
      ${current}
    ></a>`;
    return tight(html`<td>${link}</td>`);
  };
  const labels = new Map(cells.map((cell) => [cell, size === 1 ? labelOf(cell, clock) : labelOfMany(cell)]));
  const last = cells.at(-1);
  const labelRoom = last === undefined ? 0 : gridRoom - cells.length * sizeOf(cellOf(last, ""));
  const sizes = [...labels.values()].map(writtenSize);
  const longest =
    labelLengths.find((most) => sizes.reduce((sum, size) => sum + Math.min(size, most), 0) <= labelRoom) ?? 24;
  return html`<section aria-labelledby="grid-title" id="pool">
    <h2 id="grid-title">Pool ${formatPool(pool)}</h2>
    <p class="hint">
      ${size === 1 ? "One cell a worker ID" : `${grouped(size)} worker IDs a cell`}${size === 1 && overdue.count > 0 && "; a framed one is overdue"}<span
        class="keys"
        >; arrows move, Enter opens</span
      >
    </p>
    <table id="grid" ${size > 1 && html` class="many"`} aria-labelledby="grid-title">
      <tbody>
        ${rows.map(
          ({ first, at }) =>
            html`<tr>
              <th scope="row">${first}</th>
              ${at.map((cell) => (cell === undefined ? html`<td></td>` : cellOf(cell, cut(labels.get(cell) ?? "", longest))))}
            </tr>`,
        )}
      </tbody>
    </table>
  </section>`;
}

function holds({ first, last }: Cell, workerId: number | undefined): boolean {
  return workerId !== undefined && workerId >= first && workerId <= last;
}

function looks({ first, last, counts, record }: Cell, clock: number): string {
  const size = last - first + 1;
  const taken = takenOf(counts);
  const state = mainState(counts);
  if (record !== undefined && isOverdue(record, clock)) return `${state} overdue`;
  return size === 1 || taken === 0 ? state : `${state} fill-${Math.max(1, Math.round((taken / size) * steps))}`;
}

function labelOf({ first, record }: Cell, clock: number): string {
  if (record === undefined) return `${first}, never used`;
  const { state, holder, pinned } = record;
  const late = isOverdue(record, clock) ? ", overdue" : "";
  const name =
    holder === undefined ? "" : `, ${state === "live" ? "" : "last "}${isolated(holder.host)} (${isolated(holder.ip)})`;
  return `${first}, ${state}${late}${name}${pinned === undefined ? "" : `, pinned: ${isolated(pinned)}`}`;
}

function labelOfMany({ first, last, counts }: Cell): string {
  const there = stateNames.filter((state) => counts[state] > 0);
  return `${first} to ${last}: ${there.map((state) => `${grouped(counts[state])} ${states[state].name}`).join(", ")}`;
}

/** The worker IDs of a cell that stands for many. `more`: the cell has more worker IDs after these. */
export function workersPart(
  { workers, more }: { readonly workers: readonly WorkerRecord[]; readonly more: boolean },
  { first, last }: PoolBounds,
  clock: number,
  address: PageLink,
): Html {
  const { shown, pieces } = fitting(workers, detailRoom, (worker) => workerRow(worker, clock, address));
  const end = shown.at(-1)?.workerId ?? last;
  const hasMore = more || shown.length < workers.length;
  const next = hasMore && html`<a href="${address({ from: end + 1 })}#workers">Next</a>`;
  return html`<section aria-labelledby="workers-title" id="workers" class="detail">
    <h2 id="workers-title" tabindex="-1">Worker IDs ${first} to ${last}</h2>
    ${
      workers.length === 0
        ? html`<p class="empty">None of them was ever used.</p>`
        : listPart(["ID", "State", "Present or last holder", "Window left"], pieces)
    }
    <p class="pages">${next} <a href="${address({})}">Close</a></p>
  </section>`;
}

function workerRow(worker: WorkerRecord, clock: number, address: PageLink): Html {
  const { workerId, state, holder, until } = worker;
  const window = !hasWindow(worker) ? "-" : until > clock ? left(until, clock) : when(until);
  return html`<tr>
    <th scope="row">
      <a href="${address({ worker: workerId })}#detail" aria-label="Worker ${workerId}">${workerId}</a>
    </th>
    <td>${stateOf(state)}</td>
    <td>${holder && who(holder)}</td>
    <td class="number">${window}</td>
  </tr>`;
}

export function stateOf(state: PoolState): Html {
  return html`<span class="state"><i class="cell ${state}" aria-hidden="true"></i> ${states[state].name}</span>`;
}
