import { configInvalid, type SnowleaseError } from "../../id/errors.ts";
import type { Layout } from "../../id/layout.ts";
import type { PoolBounds } from "../../id/pool-bounds.ts";
import { formatPool } from "../../id/notation.ts";
import { roomier, sameIds } from "./overlap.ts";
import type { Reach, RetiredRange, SourceKind } from "./source.ts";

/*
 * Worker IDs that a source can still hand out stay out of the pool until its fleet has moved. Otherwise a program that starts in the
 * meantime gets a leased worker ID.
 */

/** Why the worker IDs of a source do not count here, so that it never hands out a leased one. */
export type Apart = "another layout" | "the same store";

export interface ReserveRequest {
  readonly from: SourceKind;
  readonly reach: Reach;
  readonly layout: Layout;
  readonly apart: Apart | undefined;
  /** Worker IDs above the highest that are kept for the source's next starts. Default: 20 % of the used ones, at least 16. */
  readonly headroom?: number | undefined;
  /** Limits the worker IDs to lease. Default: all. */
  readonly pool?: PoolBounds | undefined;
  /** The present time, Unix ms. */
  readonly now: number;
}

const [share, least] = [0.2, 16];
/** Most worker IDs that a pool may leave out. Each of them is pinned. */
const mostLeftOut = 65_536;

/**
 * Divides the worker IDs of a layout while a fleet moves.
 * @throws SnowleaseError CONFIG_INVALID if nothing is left to lease, with advice.
 */
export function reserveOf(request: ReserveRequest): { leased: PoolBounds; ranges: readonly RetiredRange[] } {
  const { from, reach, layout, apart } = request;
  const pool = request.pool === undefined ? layout.pool : layout.narrow({}, request.pool);
  const { next, highest } = apart === undefined ? reach : ({ next: "none", highest: -1 } as const);
  const headroom = next === "above" ? (request.headroom ?? Math.max(least, Math.ceil(share * (highest + 1)))) : 0;
  const reached = next === "none" ? -1 : highest + headroom;
  const leased = { first: Math.max(pool.first, reached + 1), last: pool.last };
  if (leased.first > leased.last) throw nothingLeft(request, reached);
  const leftOut = leased.first - reached - 1 + layout.pool.last - leased.last;
  if (request.pool !== undefined && leftOut > mostLeftOut) {
    throw configInvalid(
      `Expected \`--pool\` to leave out at most ${mostLeftOut} worker IDs, each of which is pinned, got ${formatPool(pool)}, which leaves out ${leftOut}; use \`--headroom\` instead.`,
    );
  }
  const given = next === "any" ? `${from} can hand it out again` : `handed out by ${from}, or before its highest`;
  const ranges: RetiredRange[] = [
    { first: 0, last: Math.min(highest, reached), why: given },
    { first: highest + 1, last: reached, why: `kept for the next programs that start with ${from}` },
    { first: reached + 1, last: leased.first - 1, why: "not in the pool of the plan" },
    { first: leased.last + 1, last: layout.pool.last, why: "not in the pool of the plan" },
  ];
  return { leased, ranges: ranges.filter(({ first, last }) => first <= last) };
}

function nothingLeft({ from, reach, layout, pool, now }: ReserveRequest, reached: number): SnowleaseError {
  const more = roomier(layout, now);
  const all = formatPool(layout.pool);
  const beyond = reached < layout.pool.last ? `; or a \`--pool\` within ${reached + 1}-${layout.pool.last}` : "";
  const why =
    reach.next === "any"
      ? `${from} can hand out each of the worker IDs ${formatPool({ first: 0, last: reach.highest })} again`
      : `${from} hands out the worker IDs above ${reach.highest} next, and ${reached - reach.highest} of them are kept for it`;
  const advice = [
    ...(from.startsWith("westid") ? ["lease from the very store of westid, in the namespace `default`"] : []),
    ...(reach.next === "above" && reached - reach.highest > 1 ? ["keep fewer with `--headroom`"] : []),
    ...(more === undefined ? [] : [`plan with more bits for worker IDs: \`--layout ${more.fingerprint}\``]),
    ...(from.startsWith("cosid")
      ? [
          `give all its programs one bit less (\`cosid.machine.machine-bit\`), then plan with \`--worker-bits ${layout.workerBits - 1}\``,
        ]
      : []),
  ];
  return configInvalid(
    `${why}, and none is left to lease of ${pool === undefined ? all : `${formatPool(pool)} (\`--pool\`)`}; ${advice.join("; or ")}${beyond}.`,
  );
}

/** Why the worker IDs of a source do not count in a layout. Undefined if they count. */
export function apartFrom(source: Layout, layout: Layout, sharesStore: boolean): Apart | undefined {
  if (!sameIds(source, layout)) return "another layout";
  return sharesStore ? "the same store" : undefined;
}
