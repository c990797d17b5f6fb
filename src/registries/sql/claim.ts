import { claimIn, recordIn } from "../../rule/era.ts";
import { type Decision, decideClaim } from "../../rule/pool.ts";
import type { ClaimRequest, Grant, Refusal } from "../../rule/registry.ts";
import { grantOf, type Stored } from "../../rule/window.ts";
import { type AssignRow, foreignHolder, rowOf } from "./assign.ts";
import { ensurePool, fileSome, nameAt } from "./bands.ts";
import { Candidates, Foreigners } from "./candidates.ts";
import { noteClaim } from "./history.ts";
import type { Kept } from "./records.ts";
import { giveBack, restingNumbers } from "./returns.ts";
import type { Space } from "./namespace-state.ts";
import { Changed, together, type Unit } from "./transaction.ts";
import { add, noteForeigners, put } from "./write.ts";

/**
 * Among how many equally good worker IDs a claim chooses by lot: after each race that it lost, among so many times more. Where 200
 * processes start at once, the third time they hardly meet.
 */
const [spreads, mostSpread] = [16, 256];

/**
 * Decides a claim over what is read, then writes it in one transaction whose first statement takes effect only if that is still so.
 * `repeated`: the record that bears the claim's token already.
 * @throws Raced where it is not, Changed where it only prepared for another try.
 */
export async function claimOnce(
  unit: Unit,
  space: Space,
  request: ClaimRequest,
  repeated: Kept | undefined,
  races: number,
): Promise<Grant | Refusal> {
  if (repeated?.record.token === request.token) return repeatClaim(unit, space, repeated);

  await ensurePool(unit, space, request.pool, request.workerId);
  // A claim of one number looks at no other.
  const isFiled = request.workerId !== undefined || (await fileSome(unit, space, request.pool));
  const candidates = new Candidates(unit, space, request, Math.min(mostSpread, spreads ** races));
  const [{ answer, store, before }, resting] = await together([
    candidates.decide((view): Decision => decideClaim(view, request, space.clock, space.info)),
    // In a crowd, others give back enough.
    races === 0 ? restingNumbers(unit, space, request.pool) : [],
  ]).catch(async (error: unknown) => {
    if (!(error instanceof Foreigners)) throw error;
    await noteForeigners(unit, space, error.span);
    throw new Changed("foreigners were noted");
  });

  if (answer.outcome === "pinned") {
    const { workerId, clock } = answer;
    const row = candidates.foreignAt(workerId);
    if (row === undefined) return answer;
    await noteForeigners(unit, space, { first: workerId, last: workerId });
    return { outcome: "foreign", workerId, holder: foreignHolder(row), clock };
  }
  if (answer.outcome === "exhausted" && !isFiled && request.reuse !== "never") throw new Changed("more can be filed");
  if (answer.outcome !== "granted" || store === undefined) return answer;

  const kept = before && candidates.keptOf(before);
  const record = opened(store, space, request, kept);
  // A record stays where it is filed: to cut bands is all that moves it.
  const pool = kept?.pool ?? nameAt(space, record.workerId);
  await unit.write(() => [
    kept === undefined ? add(unit, space, record, pool) : put(unit, space, kept, record, { pool }),
    take(unit, record, kept?.row),
    noteClaim(unit, record, kept?.record),
  ]);
  await giveBack(
    unit,
    space,
    resting.filter(({ record: { workerId } }) => workerId !== record.workerId),
  );
  return grantOf(record, space.clock, answer.rollback);
}

/**
 * Answers a claim that was granted before. It is written once more: what is read here may not have reached the standby that
 * acknowledged writes have to reach.
 */
async function repeatClaim(unit: Unit, space: Space, kept: Kept): Promise<Grant> {
  const { record, era } = kept;
  const goesOn = era === space.era;
  const after = goesOn ? record : { ...recordIn(space, record, era), token: undefined };
  await unit.write(() => [put(unit, space, kept, after)]);
  // What another server granted may be forgotten here: the token is free for another worker ID.
  if (!goesOn) throw new Changed("its token is free");
  return grantOf(record, space.clock);
}

/** A claim's record with what this era, and foreigners who keep no windows, add to the rule: they open a window later. */
function opened(store: Stored, space: Space, request: ClaimRequest, kept: Kept | undefined): Stored {
  const record = claimIn(space, store, kept?.record);
  if (!space.beside || kept?.row !== undefined) return record;
  // It was in nobody's hands, or never in ours: a foreigner's clock may be ahead by as much as any other's.
  const from = Math.max(record.from, space.clock + space.info.maxClockSkew);
  const until = Math.max(record.until, from + request.window);
  return { ...record, from, until, recents: undefined, knownFrom: from };
}

/** Shows Java processes that the number is taken. */
async function take(unit: Unit, { workerId, holder }: Stored, before: AssignRow | undefined): Promise<void> {
  if (holder === undefined) return;
  const row = { worker_id: workerId, ...rowOf(holder) };
  if (before === undefined) {
    await unit.change("assign.add", row);
    return;
  }
  const old = { old_pid: before.pid, old_ip: before.ip, old_hostname: before.hostname };
  await unit.swap("assign.replace", { ...row, ...old });
}
