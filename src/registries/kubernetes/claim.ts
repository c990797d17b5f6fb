import type { Decision } from "../../rule/pool.ts";
import type { ClaimRequest } from "../../rule/registry.ts";
import type { Stored } from "../../rule/window.ts";
import { endedRow } from "../engine/history.ts";
import { decideByBatches } from "../compare-and-set/decide.ts";
import { Beaten } from "../engine/operate.ts";
import type { ClaimAttempt } from "../compare-and-set/store.ts";
import type { KubernetesAttempt } from "./attempt.ts";
import { KubernetesCandidates, type PoolSource } from "./candidates.ts";
import type { LeaseObject } from "./objects.ts";
import { type LeaseRecord, recordObject } from "./records.ts";
import { type FactsRead, readAt } from "./store.ts";

/**
 * Among how many equally good worker IDs a claim chooses by lot: 16 times more after each race that it lost. Where 200 pods start at once,
 * their third attempts hardly meet.
 */
const [spreads, mostSpread] = [16, 256];
/** Races that a claim loses by hints before it lists the pool: a storm of claims would list it all at once. */
const mostGuesses = 2;
const listed: readonly PoolSource[] = ["recent", "exact"];
const guessed: readonly PoolSource[] = ["hints", ...listed];

/** Reads the namespace for a claim, which then decides and commits. */
export async function beginClaim(attempt: KubernetesAttempt, request: ClaimRequest): Promise<ClaimAttempt & FactsRead> {
  const { store, names, leases, tried } = attempt;
  const read = await attempt.begin();
  const { state } = read;
  let before: LeaseRecord | undefined;

  async function decide(): Promise<Decision> {
    if (state === undefined) throw new Error("a claim in a namespace that does not exist");
    const spread = Math.min(mostSpread, Math.max(spreads ** tried.races, spreads * (store.claiming - 1)));
    let stale: number | undefined;
    for (const source of tried.races > mostGuesses ? listed : guessed) {
      const candidates = new KubernetesCandidates({ store, names, leases }, state, { request, spread, source, stale });
      const decision = await decideByBatches(candidates, request, state);
      // Neither hints nor a cache are believed: only the pool itself is exhausted.
      const isLast = source === "exact" || request.workerId !== undefined;
      if (decision.answer.outcome === "exhausted" && !isLast) {
        stale = candidates.hintsAt;
        continue;
      }
      for (const row of candidates.rows.values()) await attempt.checkEra(row);
      before = decision.before && candidates.rows.get(decision.before);
      // A grant that is answered again: its record may have been written when the era had already ended.
      if (decision.answer.outcome === "granted" && decision.store === undefined) await attempt.sameEra();
      return decision;
    }
    throw new Error("a claim without a decision");
  }

  async function commit(record: Stored): Promise<void> {
    if (state === undefined) throw new Error("a claim that was not decided");
    const ended = endedRow(before?.record, before?.record.until ?? 0, state.clock, "taken-over");
    const wasSent = store.sent.get(request.token) === true;
    store.sent.set(request.token, true);
    let written: LeaseObject;
    try {
      written = await leases.put(before?.object, recordObject(names, record, before, ended));
    } catch (error) {
      if (error instanceof Beaten) {
        if (!wasSent) store.sent.delete(request.token);
        // A cache has to show the next attempt at least this.
        const other = await readAt(leases, names, record.workerId);
        store.noteTaken(state.info, record.workerId, other?.record.until ?? state.clock);
      }
      throw error;
    }
    store.noteTaken(state.info, record.workerId, record.until);
    await attempt.sameEra(before === undefined ? written : undefined);
  }

  return { ...read, decide, commit };
}
