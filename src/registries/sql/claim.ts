import { type Decision, repeatedAnswer } from "../../rule/pool.ts";
import type { ClaimRequest } from "../../rule/registry.ts";
import type { Stored } from "../../rule/window.ts";
import { together } from "../together.ts";
import { decideByBatches } from "../compare-and-set/decide.ts";
import { Changed } from "../engine/operate.ts";
import type { ClaimAttempt } from "../compare-and-set/store.ts";
import { foreignHolder, take } from "./assign.ts";
import type { SqlMemory } from "./attempt.ts";
import { ensurePool, fileSome, nameAt } from "./bands.ts";
import { Candidates, Foreigners } from "./candidates.ts";
import { noteClaim } from "./history.ts";
import type { SqlNamespace } from "./namespace-state.ts";
import type { SqlSettings } from "./settings.ts";
import { type StoredRow, storedRowOf } from "./records.ts";
import { giveBack, restingNumbers } from "./returns.ts";
import type { Transaction } from "./transaction.ts";
import { add, hold, noteBeside, noteForeigners, put } from "./write.ts";

/**
 * Among how many equally good worker IDs a claim chooses by lot: 16 times more after each race that it lost. Where 200 processes start
 * at once, their third attempts hardly meet.
 */
const [spreads, mostSpread] = [16, 256];

/** How long after a lost race a claim still expects a crowd, ms. */
const rushLasts = 1000;

/** Reads the namespace, and whether the claim was granted before. `reading`: the read of the namespace, under way. */
export async function beginClaim(
  tx: Transaction,
  reading: Promise<SqlNamespace>,
  request: ClaimRequest,
  { races, settings, memory }: { readonly races: number; readonly settings: SqlSettings; readonly memory: SqlMemory },
): Promise<ClaimAttempt> {
  const { token, pool, workerId: wanted } = request;
  const [state, found] = await together([reading, tx.get("claim.by-token", { token })]);
  let before: StoredRow | undefined;
  let resting: readonly StoredRow[] = [];

  async function decide(): Promise<Decision> {
    if (settings.beside === "westid") await noteBeside(state);
    if (races > 0) memory.rush = { races, at: state.clock };
    const crowd = state.clock - memory.rush.at < rushLasts ? memory.rush.races : 0;
    const repeated = found && storedRowOf(found);
    if (repeated?.record.token === token) return repeatClaim(state, repeated);

    await ensurePool(state, pool, wanted);
    // A claim of one number reads no other.
    const isFiled = wanted !== undefined || (await fileSome(state, pool));
    const candidates = new Candidates(state, request, Math.min(mostSpread, spreads ** crowd));
    const [decision, rested] = await together([
      decideByBatches(candidates, request, state),
      // In a crowd, other claims give back enough.
      crowd === 0 ? restingNumbers(state, pool) : [],
    ]).catch(async (error: unknown) => {
      if (!(error instanceof Foreigners)) throw error;
      await noteForeigners(state, error.span);
      throw new Changed("foreigners were noted");
    });
    const { answer, store } = decision;
    if (answer.outcome === "pinned") {
      const { workerId, clock } = answer;
      const row = candidates.foreign.get(workerId);
      if (row === undefined) return decision;
      await noteForeigners(state, { first: workerId, last: workerId });
      return { answer: { outcome: "foreign", workerId, holder: foreignHolder(row), clock } };
    }
    if (answer.outcome === "exhausted" && !isFiled && request.reuse !== "never") throw new Changed("more can be filed");
    if (store === undefined) return decision;
    before = decision.before && candidates.rows.get(decision.before);
    resting = rested.filter(({ record }) => record.workerId !== store.workerId);
    return { ...decision, store: behindForeigners(store, state, request, before) };
  }

  async function commit(record: Stored): Promise<void> {
    // A record stays where it is filed: only a cut of the bands moves it.
    const band = before?.band ?? nameAt(state, record.workerId);
    await tx.write(() => [
      before === undefined ? add(state, record, band) : put(state, before, record, { band }),
      take(tx, record, before?.assignRow),
      noteClaim(tx, record, before?.record),
    ]);
    await giveBack(state, resting);
  }

  return { clock: state.clock, state, decide, commit };
}

/**
 * Answers a claim that was granted before. The write that changes nothing makes sure that the grant has reached the standby which
 * acknowledged writes have to reach.
 */
async function repeatClaim(state: SqlNamespace, before: StoredRow): Promise<Decision> {
  await state.tx.write(() => [hold(state, before, before.record.workerId)]);
  return { answer: repeatedAnswer(before.record, state) };
}

/** The record of a claim beside programs without windows: its window begins later. */
function behindForeigners(
  record: Stored,
  state: SqlNamespace,
  request: ClaimRequest,
  before: StoredRow | undefined,
): Stored {
  if (!state.beside || before?.assignRow !== undefined) return record;
  // Another program may have had the number until a moment ago, and its clock may be ahead by as much as any other.
  const from = Math.max(record.from, state.clock + state.info.maxClockSkew);
  const until = Math.max(record.until, from + request.window);
  return { ...record, from, until, recents: undefined, knownFrom: from };
}
