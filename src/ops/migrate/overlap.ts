import { SnowleaseError, timeText } from "../../id/errors.ts";
import { Layout, type LayoutField } from "../../id/layout.ts";
import { writeNotation } from "../../id/notation.ts";

/** Longest time that a fleet may need to leave its old scheme, ms. Most need much less. */
const longestMove = 5 * 365 * 86_400_000;

/** Whether the same time, worker ID and sequence make the same ID in both layouts. The names of identity fields do not matter. */
export function sameIds(a: Layout, b: Layout): boolean {
  return shapeOf(a) === shapeOf(b);
}

function shapeOf({ fields, epoch, tick, wrap }: Layout): string {
  // One letter for each bit, so that adjacent identity fields look like one field.
  const bits = fields.map((field) => (isIdentity(field) ? "w" : field.name.charAt(0)).repeat(field.bits));
  // The top bit of 64 is 0 in each ID.
  return JSON.stringify([bits.join("").slice(-63), epoch, tick, wrap]);
}

/** Whether a field is part of the worker ID. */
function isIdentity({ name }: LayoutField): boolean {
  return !["timestamp", "rollback", "sequence"].includes(name);
}

/**
 * The time at which the old scheme makes the first ID that equals an ID of the new layout from now on, Unix ms. It may be in the past.
 * Undefined if no IDs can be equal. Worker IDs are ignored, because any worker may have made the ID.
 */
export function firstEqual(old: Layout, fresh: Layout, now: number): number | undefined {
  if (sameIds(old, fresh) || old.wrap !== undefined || fresh.wrap !== undefined) return now;
  const tick = Math.max(0, fresh.tickOf(now));
  if (tick > fresh.maxTick) return undefined;
  const lowest = BigInt(tick) << BigInt(fresh.shiftOf("timestamp"));
  const equal = lowest >> BigInt(old.shiftOf("timestamp"));
  return equal > BigInt(old.maxTick) ? undefined : old.timeOf(Number(equal));
}

/**
 * Refuses a layout whose IDs could equal IDs of the old scheme before its fleet has moved. In the source's own layout, different worker
 * IDs make different IDs.
 * @throws SnowleaseError LAYOUT_MISMATCH with the date of the first equal ID.
 */
export function checkOverlap(old: Layout, fresh: Layout, from: string, now: number): void {
  if (sameIds(old, fresh)) return;
  const at = firstEqual(old, fresh, now);
  if (at === undefined || at > now + longestMove) return;
  throw new SnowleaseError(
    "LAYOUT_MISMATCH",
    `IDs of the layout ${fresh.fingerprint} from now on equal IDs of ${from} (${old.fingerprint}), the first of them ${at <= now ? "made" : "to be made"} at ` +
      `${timeText(at)}; plan for a namespace with the layout of ${from}: leave out \`layout\`, and name a namespace that is new or has that layout.`,
    { stored: old.fingerprint, asked: fresh.fingerprint },
  );
}

/** A layout with up to 3 more bits for worker IDs, taken from the timestamp. It has the fewest such bits with which no IDs are equal. */
export function roomier(old: Layout, now: number): Layout | undefined {
  const identity = old.fields.findLastIndex(isIdentity);
  for (let more = 1; more <= 3 && old.wrap === undefined; more++) {
    const fields = old.fields.map(({ name, bits }, i) => {
      return { name, bits: bits + (i === 0 ? -more : i === identity ? more : 0) };
    });
    if (identity < 0 || old.totalBits - old.shiftOf("timestamp") - more < 21) return undefined;
    const layout = Layout.parse(writeNotation({ fields, epoch: old.epoch, tick: old.tick }));
    const at = firstEqual(old, layout, now);
    const lasts = layout.endOfLife > now + 2 * longestMove;
    if (lasts && (at === undefined || at > now + longestMove)) return layout;
  }
  return undefined;
}
