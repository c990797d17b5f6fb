import type { PoolBounds } from "../../id/pool-bounds.ts";
import type { Decision } from "../../rule/pool.ts";
import type { ClaimRequest } from "../../rule/registry.ts";
import type { Stored } from "../../rule/window.ts";
import { endedRow } from "../engine/history.ts";
import { decideByBatches, together } from "../compare-and-set/decide.ts";
import { Changed, type ClaimAttempt } from "../compare-and-set/store.ts";
import { EtcdBands } from "./bands.ts";
import { EtcdCandidates } from "./candidates.ts";
import type { Keys } from "./keys.ts";
import { type EtcdRecord, readNumber } from "./records.ts";
import type { EtcdStore, EtcdTry, NamespaceRead } from "./store.ts";
import type { Entry, EtcdTransaction } from "./transaction.ts";
import { changeOf, commit, rowWrites } from "./writes.ts";

/**
 * Among how many equally good worker IDs a claim chooses by lot: 16 times more after each race that it lost. Where 200 processes start
 * at once, their third attempts hardly meet.
 */
const [spreads, mostSpread] = [16, 256];

/** Reads the namespace for a claim, which then decides and commits. */
export async function beginClaim(
  store: EtcdStore,
  keys: Keys,
  { tx, races }: EtcdTry,
  request: ClaimRequest,
): Promise<ClaimAttempt & NamespaceRead> {
  const { pool, workerId: wanted } = request;
  const [read, entry] = await together([store.read(tx, keys), tx.get(keys.bands)]);
  const { state } = read;
  let before: EtcdRecord | undefined;
  let bands: EtcdBands | undefined;

  async function decide(): Promise<Decision> {
    if (state === undefined) throw new Error("a claim in a namespace that does not exist");
    bands = new EtcdBands(tx, keys, state, entry);
    await bands.ensure(pool, wanted);
    // A claim of one number reads no other.
    const isFiled = wanted !== undefined || (await bands.fileSome(pool));
    const candidates = new EtcdCandidates(tx, keys, state, {
      bands,
      request,
      // Those that are under way here would reach for the same ones.
      spread: Math.min(mostSpread, Math.max(spreads ** races, spreads * (store.claiming - 1))),
    });
    const decision = await decideByBatches(candidates, request, state);
    const { answer } = decision;
    if (answer.outcome === "exhausted" && !isFiled && request.reuse !== "never") throw new Changed("more can be filed");
    if (answer.outcome === "exhausted") {
      await checkHint(tx, keys, pool, candidates.hint);
      await candidates.sweep();
    }
    before = decision.before && candidates.rows.get(decision.before);
    return decision;
  }

  async function write(record: Stored): Promise<void> {
    if (state === undefined || bands === undefined) throw new Error("a claim that was not decided");
    // A record stays where it is filed: only a cut of the bands moves it.
    const band = before?.band ?? bands.nameAt(record.workerId);
    const ended = endedRow(before?.record, before?.record.until ?? 0, state.clock, "taken-over");
    // The same claim may have been sent twice, and take two numbers.
    const first = { key: keys.token(request.token), before: undefined };
    const changes = [changeOf(keys, { before, after: record, band }), rowWrites(keys, ended)];
    await commit(tx, keys, state, [{ expected: [bands.expected, first], writes: [] }, ...changes]);
  }

  return { ...read, decide, commit: write };
}

/**
 * Before a pool is called exhausted: an operator who deletes records by hand leaves the hint that all numbers below it have one. Throws
 * `Changed` where it is wrong, and takes it away.
 */
async function checkHint(tx: EtcdTransaction, keys: Keys, pool: PoolBounds, hint: Entry | undefined): Promise<void> {
  if (hint === undefined) return;
  const end = Math.min(pool.last + 1, readNumber(hint));
  const count = await tx.count({ from: keys.worker(pool.first), end: keys.worker(end) });
  if (count >= end - pool.first) return;
  await tx.commit([{ key: hint.key, before: hint }], [{ key: hint.key, value: undefined }]);
  throw new Changed("a hint was wrong");
}
