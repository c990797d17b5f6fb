import { type Decision, decideClaim, look } from "../../rule/pool.ts";
import type { ClaimRequest, Refusal } from "../../rule/registry.ts";
import type { Stored } from "../../rule/window.ts";
import { Beaten, type ClaimAttempt } from "../compare-and-set/store.ts";
import type { ZooKeeperAttempt } from "./attempt.ts";
import { asShown, ephemeralsOf } from "./ephemeral.ts";
import { endOf } from "./history.ts";
import { isIn } from "../../id/pool-bounds.ts";
import { numberOf } from "./nodes.ts";
import { numberBytes, readNumber } from "./records.ts";
import { type Hint, searchAny, ClaimView } from "./search.ts";
import type { Write, ZooKeeperSession } from "./session.ts";
import { forgetToken, put, readNode } from "./store.ts";

/** How many worker IDs are remembered for a host. It does not get further ones back first. */
const mostOfHost = 512;
/** How far a hint may lag behind the numbers in use: each claim reads that many in vain. */
const hintLag = 8;

/** Reads what a claim begins with. */
export async function beginClaim(attempt: ZooKeeperAttempt, request: ClaimRequest): Promise<ClaimAttempt> {
  const { store, nodes, deadline } = attempt;
  const { connection } = store;
  const { token, workerId: wanted, preferred = [], pool, holder } = request;
  const beaten = attempt.races > 0;
  const wishes = wanted === undefined ? preferred.slice(0, look) : [wanted];
  const named = wishes.filter((id) => isIn(pool, id));
  const { clock, state, read } = await attempt.begin((session) =>
    Promise.all([
      session.get(nodes.token(token)),
      session.list(nodes.host(holder.host)),
      session.list(nodes.owner(holder.ip)),
      session.get(nodes.next(pool)),
      ...named.map((id) => readNode(session, nodes, id)),
    ]),
  );
  const [owner, hosts, pins, next, ...records] = read;
  const snapshot = new ClaimView(request, clock, beaten);
  const hint = { value: next ? readNumber(next, nodes.next(pool)) : pool.first, version: next?.version };
  /** The value that the hint of the pool should have. */
  let newHint: number | undefined;

  async function decide(): Promise<Decision> {
    if (state === undefined) throw new Error("a claim in a namespace that does not exist");
    const { info } = state;
    for (const record of records) snapshot.add(record);
    if (owner !== undefined) {
      const held = readNumber(owner, nodes.token(token));
      snapshot.add(await connection.exchange(deadline, (session) => readNode(session, nodes, held)));
      // The worker ID was given back in between.
      if (snapshot.byToken(token) === undefined) throw new Beaten("its token is gone");
    }
    if (wanted !== undefined || owner !== undefined) {
      const decision = decideClaim(snapshot, request, clock, info);
      const { answer } = decision;
      return answer.outcome === "held" ? { answer: await withSession(attempt, answer, snapshot) } : decision;
    }
    const inPool = (names: readonly string[] = []): readonly number[] =>
      names.flatMap((name) => numberOf(name) ?? []).filter((id) => isIn(pool, id));
    const [pinned, own] = [inPool(pins).slice(0, look), inPool(hosts)] as const;
    const task = { connection, deadline, nodes, request, info, clock, snapshot, pinned, own, hint, beaten };
    const { hint: found, ...decision } = await searchAny(task);
    newHint = found;
    return decision;
  }

  async function commit(record: Stored): Promise<void> {
    const { workerId } = record;
    const before = snapshot.nodes.get(workerId);
    const last = before?.sticky === true ? before.record.holder?.host : undefined;
    const stays = last === holder.host;
    const sticky = stays || (hosts?.length ?? 0) < mostOfHost;
    const left = stays ? undefined : last;
    const writes: Write[] = [
      ...put(nodes, record, before, sticky),
      { op: "create", path: nodes.token(token), data: numberBytes(workerId), contested: true },
      ...forgetToken(nodes, before),
      ...endOf(nodes, before?.record, before?.record.until ?? 0, clock, "taken-over"),
      ...(sticky && !stays ? [{ op: "create", path: nodes.ofHost(holder.host, workerId) } as const] : []),
      ...(left === undefined ? [] : [{ op: "remove", path: nodes.ofHost(left, workerId) } as const]),
      { op: "create", path: nodes.ephemeral(workerId, token), ephemeral: true },
    ];
    const session = await attempt.commitRecord(workerId, writes, {
      folders: [
        ...store.foldersFor(nodes, workerId),
        ...(sticky && hosts === undefined ? [nodes.host(holder.host)] : []),
      ],
      also: (calls) => [
        ...moveHint(calls, nodes.next(pool), pool, hint, newHint),
        // Removed only where this was the last worker ID of that host.
        ...(left === undefined ? [] : [calls.remove(nodes.host(left))]),
      ],
    });
    store.noteFolders(nodes, workerId);
    store.ephemerals.note(session, nodes, record, clock);
  }

  return { clock, state, decide, commit };
}

/** A refusal that says whether the session of the holder lives. */
async function withSession(
  { store, nodes, deadline }: ZooKeeperAttempt,
  answer: Extract<Refusal, { outcome: "held" }>,
  snapshot: ClaimView,
): Promise<Refusal> {
  const { workerId, live } = answer;
  const record = snapshot.byId(workerId);
  if (!live || record === undefined) return answer;
  const ephemerals = await store.connection.exchange(deadline, (session) => ephemeralsOf(session, nodes, workerId));
  return { ...answer, live: asShown(record, ephemerals.values()).token !== undefined };
}

/** Creates the hint of a pool, or raises it where it lags too far behind. It may fail. */
function moveHint(
  session: ZooKeeperSession,
  path: string,
  { first, last }: { readonly first: number; readonly last: number },
  hint: Hint,
  to: number | undefined,
): Promise<unknown>[] {
  if (to === undefined) return [];
  // Created with the value that is always right: a higher one needs a version that proves that no number became unused since.
  if (hint.version === undefined) return [session.create(path, numberBytes(first))];
  const raises = to > hint.value && (to - hint.value >= hintLag || to > last);
  return raises ? [session.set(path, numberBytes(to), hint.version)] : [];
}
