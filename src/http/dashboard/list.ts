import { html } from "../../vendor/hono.ts";
import { grouped } from "../../id/notation.ts";
import { hasWindow } from "../../rule/window.ts";
import { type ListFilter, listFilters, type ListOrder, sorted } from "../../ops/pool/listing.ts";
import { isOverdue, type ReadRecord, renewalDue } from "../../ops/pool/overdue.ts";
import type { Picture } from "../../ops/pool/pool-watch.ts";
import type { FoundWorkers } from "../../ops/pool/search.ts";
import { tableOf } from "./page.ts";
import { stateOf } from "./pool.ts";
import type { PageLink, PageQuery } from "./query.ts";
import { fitting, tight } from "./room.ts";
import { ago, addressPart, type Html, isoOf, left, span } from "./text.ts";

const rowsAPage = 50;

const filterNames: Readonly<Record<ListFilter, string>> = {
  taken: "taken",
  overdue: "renewal overdue",
  live: "live",
  resting: "resting",
  pinned: "pinned",
  foreign: "foreign",
  free: "free",
  used: "ever used",
};

/** The columns, and the order that the heading of each leads to. */
const headings: readonly (readonly [title: string, order?: ListOrder])[] = [
  ["ID", "id"],
  ["State", "state"],
  ["Host", "host"],
  ["Address", "address"],
  ["Held for"],
  ["Renewed"],
  ["Window left", "end"],
  ["Fence"],
];

/** The parameters of the list in an address: other links of the page keep them. */
export function listParameters({ q, state, sort, order, skip, after }: PageQuery): Parameters<PageLink>[0] {
  return { q, state, sort, order, skip, after };
}

/** Worker IDs as a table that is searched, filtered and sorted: a page of it, of at most `room` bytes. */
export function listPart(
  picture: Picture,
  asked: PageQuery,
  found: FoundWorkers,
  address: PageLink,
  room: number,
): Html {
  const { q = "", state: filter = "taken", sort: order = "id", order: direction = "asc", skip = 0 } = asked;
  const rows = sorted(found.records, { order, descending: direction === "desc" });
  const { shown, pieces } = fitting(rows.slice(skip, skip + rowsAPage), room, (row) =>
    tight(rowOf(row, picture.clock, address)),
  );
  const end = skip + shown.length;
  // The counts of a pool that was read in part are those of that part.
  const total = q === "" && picture.read === 1 ? picture.lists.countOf(filter) : rows.length;
  const part = total > rows.length && `, of which the list has the ${grouped(rows.length)} lowest worker IDs`;
  const listed =
    shown.length > 0 &&
    html`${grouped(skip + 1)} to ${grouped(end)} of ${grouped(Math.max(total, rows.length))}${part}`;
  return html`<section aria-labelledby="list-title" id="list">
    <h2 id="list-title" tabindex="-1">Worker IDs <span class="sub">${listed}</span></h2>
    ${formPart(picture, { q, filter, order, direction })}
    ${
      shown.length === 0
        ? html`<p class="empty">${skip > 0 ? "No more worker IDs match." : "No worker ID matches."}</p>`
        : sortablePart(pieces, order, direction, address)
    }
    <p class="pages">
      ${(skip > 0 || asked.after !== undefined) && html`<a href="${address({ skip: undefined, after: undefined })}#list">First page</a> `}
      ${end < rows.length && html`<a href="${address({ skip: end })}#list">Next ${Math.min(rowsAPage, rows.length - end)}</a>`}
      ${end >= rows.length && beyond(found, total - rows.length, address)}
    </p>
  </section>`;
}

/** What is not in the list of a large pool. */
function beyond({ next }: FoundWorkers, unlisted: number, address: PageLink): Html | false {
  if (next !== undefined) {
    return html`<a href="${address({ after: next, skip: undefined })}#list">Search on</a>
      <span class="sub">behind worker ID ${next}: a large pool is searched a part at a time.</span>`;
  }
  return (
    unlisted > 0 && html`<span class="sub">and ${grouped(unlisted)} more; search, or open a cell of the grid.</span>`
  );
}

function formPart(
  picture: Picture,
  asked: { readonly q: string; readonly filter: ListFilter; readonly order: ListOrder; readonly direction: string },
): Html {
  const option = (filter: ListFilter): Html =>
    html`<option value="${filter}" ${filter === asked.filter && "selected"}>
      ${filterNames[filter]}${picture.read === 1 && ` (${grouped(picture.lists.countOf(filter))})`}
    </option>`;
  return html`<form action="/#list" id="find" class="find" role="search" aria-label="Worker IDs">
    <input type="hidden" name="namespace" value="${picture.namespace}" />
    <input type="hidden" name="sort" value="${asked.order}" />
    <input type="hidden" name="order" value="${asked.direction}" />
    <label for="q" class="unseen">Search</label>
    <input
      id="q"
      name="q"
      type="search"
      value="${asked.q}"
      maxlength="64"
      placeholder="Worker ID, host, address, pin"
      autocomplete="off"
      autocapitalize="off"
      spellcheck="false"
    />
    <label for="state" class="unseen">State</label>
    <select id="state" name="state">
      ${listFilters.map(option)}</select
    ><button>Find</button>
  </form>`;
}

function sortablePart(rows: readonly Html[], order: ListOrder, direction: "asc" | "desc", address: PageLink): Html {
  const heading = ([title, by]: (typeof headings)[number]): Html => {
    if (by === undefined) return html`<th scope="col" class="wide">${title}</th>`;
    const isSorted = by === order;
    const next = isSorted && direction === "asc" ? "desc" : "asc";
    const href = `${address({ sort: by, order: next, skip: undefined })}#list`;
    const sort = isSorted && html`aria-sort="${direction}ending"`;
    return html`<th scope="col" ${sort}><a href="${href}" title="Sort by this">${title}</a></th>`;
  };
  return tableOf(headings.map(heading), rows, html`id="workers-list"`);
}

function rowOf(record: ReadRecord, clock: number, address: PageLink): Html {
  const { workerId, state, holder, claimedAt, until, fence, pinned, seenClock } = record;
  const isLive = state === "live";
  const renewed = isLive && ago(Math.min(seenClock, clock), clock);
  const rest = hasWindow(record) && (until > clock ? left(until, clock) : ago(until, clock));
  return html`<tr id="w${workerId}">
    <th scope="row">
      <a href="${address({ worker: workerId })}#detail" aria-label="Worker ${workerId}">${workerId}</a>
    </th>
    <td>${stateOf(state)}${overdueMark(record, clock)}</td>
    <td>
      ${holder && html`<bdi class="host">${holder.host}</bdi>`}
      ${pinned !== undefined && html`<span class="note">pinned: <bdi>${pinned}</bdi></span>`}
    </td>
    <td class="sub">${holder && addressPart(holder)}</td>
    <td class="number wide">${isLive && claimedAt !== undefined && span(clock - claimedAt)}</td>
    <td class="number wide">${renewed}</td>
    <td class="number">${rest}</td>
    <td class="number wide">${fence}</td>
  </tr>`;
}

/** Says of a holder that it is late, and since when. Empty where it is not. */
export function overdueMark(record: ReadRecord, clock: number): Html | string {
  if (!isOverdue(record)) return "";
  const due = renewalDue(record);
  return html`, <span class="late" title="A renewal was expected at ${isoOf(due)}">overdue ${span(clock - due)}</span>`;
}
