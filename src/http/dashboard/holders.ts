import { html } from "hono/html";
import { grouped } from "../../id/notation.ts";
import { isOverdue } from "../../ops/pool/pool-counts.ts";
import type { Picture } from "../../ops/pool/pool-watch.ts";
import type { WorkerRecord } from "../../rule/registry.ts";
import { claimCommand } from "./commands.ts";
import { listPart } from "./page.ts";
import { type PageLink, stateOf } from "./pool.ts";
import { fitting } from "./room.ts";
import { type Html, left, span, who } from "./text.ts";

/** Rows of a page. */
const rowsAPage = 20;

/** Choices of the list. If not every record of the pool is known, the list has only worker IDs with a holder. */
const shows = {
  held: "held now",
  overdue: "overdue",
  resting: "resting",
  free: "free",
  pinned: "pinned",
  foreign: "foreign",
  all: "all that were ever used",
} as const;
const sorts = {
  id: "worker ID",
  host: "host",
  address: "address",
  ends: "window that ends first",
  newest: "newest claim",
} as const;

type Show = keyof typeof shows;
type Sort = keyof typeof sorts;

/** The query of the list of holders. */
export interface HoldersQuery {
  /** A part of a host, an address, an instance or a reason of a pin; or a worker ID. */
  readonly find: string | undefined;
  readonly show: Show;
  readonly sort: Sort;
  /** Number of rows before the first one. */
  readonly skip: number;
}

/** Reads the query from an address. An unknown word counts as absent, because the page says what it shows. */
export function readHoldersQuery(query: {
  readonly find?: string | undefined;
  readonly show?: string | undefined;
  readonly sort?: string | undefined;
  readonly skip?: number | undefined;
}): HoldersQuery {
  const { find, show = "", sort = "", skip = 0 } = query;
  return {
    find,
    show: Object.hasOwn(shows, show) ? (show as Show) : "held",
    sort: Object.hasOwn(sorts, sort) ? (sort as Sort) : "id",
    skip,
  };
}

/** The query as parameters of an address, without defaults. */
export function writtenHoldersQuery({
  find,
  show,
  sort,
  skip,
}: HoldersQuery): Readonly<Record<string, string | number>> {
  return {
    ...(find !== undefined && { find }),
    ...(show !== "held" && { show }),
    ...(sort !== "id" && { sort }),
    ...(skip > 0 && { skip }),
  };
}

interface HoldersOptions {
  readonly query: HoldersQuery;
  readonly address: PageLink;
  /** Addresses of pages that show the same list. */
  readonly beside: PageLink;
  /** The URL of this daemon. */
  readonly origin: string;
  /** Room for its rows, bytes. */
  readonly room: number;
}

/** One page of the holders that match the query. Its rows take at most `room` bytes, or it has one row. */
export function holdersPart(picture: Picture, { query, address, beside, origin, room }: HoldersOptions): Html {
  const { namespace, holders, counts, clock, cellSize, cells, read } = picture;
  const isWhole = cellSize === 1;
  const records = isWhole ? cells.flatMap(({ record }) => (record === undefined ? [] : [record])) : holders;
  const asked = records.filter((record) => isShown(record, query, clock)).toSorted(orders[query.sort]);
  const skip = Math.min(query.skip, Math.max(0, asked.length - 1));
  const page = asked.slice(skip, skip + rowsAPage);
  const { pieces } = fitting(page, room, (record) => holderRow(record, clock, beside));
  const end = skip + pieces.length;
  const pageAt = (at: number): string => `${address({ ...writtenHoldersQuery({ ...query, skip: at }) })}#holders`;
  const unlisted = isWhole ? 0 : counts.live - holders.length;
  return html`<section aria-labelledby="holders-title" id="holders">
    <h2 id="holders-title">
      Holders
      <span class="sub"
        >${pieces.length > 0 && `${grouped(skip + 1)} to ${grouped(end)} of ${grouped(asked.length)}`}</span
      >
    </h2>
    <form action="/#holders" class="filter">
      <input type="hidden" name="namespace" value="${namespace}" />
      <label for="find" class="unseen">Host, address or worker ID</label>
      <input
        id="find"
        name="find"
        type="search"
        value="${query.find ?? ""}"
        maxlength="200"
        placeholder="host, address or ID"
        autocomplete="off"
        autocapitalize="off"
        spellcheck="false"
      />
      ${choice("show", "Show", isWhole ? shows : { held: shows.held, overdue: shows.overdue }, query.show)}
      ${choice("sort", "Sort by", sorts, query.sort)}
      <button>List</button>
    </form>
    ${
      pieces.length === 0
        ? query.find === undefined && query.show === "held"
          ? html`<p class="empty">No worker ID is held.</p>
              ${claimCommand(origin, namespace)}`
          : html`<p class="empty">Nothing here matches.</p>`
        : listPart(["ID", "Holder", "Held for", "Window left"], pieces, "Renewed")
    }
    <p class="pages">
      ${skip > 0 && html`<a href="${pageAt(Math.max(0, skip - rowsAPage))}">Previous</a> `}
      ${end < asked.length && html`<a href="${pageAt(end)}">Next ${Math.min(rowsAPage, asked.length - end)}</a>`}
      ${unlisted > 0 && html`<span class="sub">${read === 1 ? `Of ${grouped(counts.live)} holders, the` : "The"} first ${grouped(holders.length)} holders are searched and listed here. Open a cell of the grid to see those in it.</span>`}
    </p>
  </section>`;
}

function choice(name: string, label: string, options: Readonly<Record<string, string>>, chosen: string): Html {
  return html`<label for="${name}" class="unseen">${label}</label>
    <select id="${name}" name="${name}">
      ${Object.entries(options).map(([value, text]) => html`<option value="${value}" ${value === chosen && "selected"}>${name === "sort" ? `by ${text}` : text}</option>`)}
    </select>`;
}

function isShown(record: WorkerRecord, { find, show }: HoldersQuery, clock: number): boolean {
  const { state, holder, pinned, workerId } = record;
  const isOfState =
    show === "all" ||
    (show === "held" && state === "live") ||
    (show === "overdue" && isOverdue(record, clock)) ||
    state === show;
  if (!isOfState || find === undefined) return isOfState;
  const wanted = find.toLowerCase();
  const texts = [holder?.host, holder?.ip, holder?.instance, pinned];
  return String(workerId) === find || texts.some((text) => text?.toLowerCase().includes(wanted) === true);
}

/** `web-2` comes before `web-10`. */
const { compare } = new Intl.Collator("en", { numeric: true });
const orders: Readonly<Record<Sort, (one: WorkerRecord, other: WorkerRecord) => number>> = {
  id: (one, other) => one.workerId - other.workerId,
  host: (one, other) => compare(one.holder?.host ?? "", other.holder?.host ?? "") || one.workerId - other.workerId,
  address: (one, other) => compare(one.holder?.ip ?? "", other.holder?.ip ?? "") || one.workerId - other.workerId,
  ends: (one, other) => one.until - other.until,
  newest: (one, other) => (other.claimedAt ?? 0) - (one.claimedAt ?? 0),
};

function holderRow(record: WorkerRecord, clock: number, beside: PageLink): Html {
  const { workerId, state, holder, claimedAt, until, seenClock, pinned } = record;
  const isLive = state === "live";
  const isLate = isOverdue(record, clock);
  return html`<tr id="w${workerId}" ${isLate && html` class="overdue"`}>
    <th scope="row">
      <a href="${beside({ worker: workerId })}#detail" aria-label="Worker ${workerId}">${workerId}</a>
    </th>
    <td>
      ${holder && who(holder)}${pinned !== undefined && html` <span class="note">pinned: <bdi>${pinned}</bdi></span>`}
    </td>
    <td class="number age">${isLive && claimedAt !== undefined && span(clock - claimedAt)}</td>
    <td class="number">
      ${until > clock && left(until, clock)}${isLate && html` <b class="overdue">overdue</b>`}${!isLive && html` ${stateOf(state)}`}
    </td>
    <td class="number wide">${isLive && `${span(clock - seenClock)} ago`}</td>
  </tr>`;
}
