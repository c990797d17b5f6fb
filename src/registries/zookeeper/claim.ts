import { isIn } from "../../id/pool-bounds.ts";
import { type Decision, decideClaim, look } from "../../rule/pool.ts";
import type { ClaimRequest, Refusal } from "../../rule/registry.ts";
import type { Stored } from "../../rule/window.ts";
import { Beaten } from "../engine/operate.ts";
import type { ClaimAttempt } from "../compare-and-set/store.ts";
import type { ZooKeeperAttempt } from "./attempt.ts";
import { asShown, ephemeralsOf } from "./ephemeral.ts";
import { endOf } from "./history.ts";
import { numberOf } from "./nodes.ts";
import { jsonBytes, readNumber } from "./records.ts";
import { ClaimView } from "./claim-view.ts";
import { searchAny } from "./search.ts";
import type { Write, ZooKeeperSession } from "./session.ts";
import { readNode } from "./store.ts";
import { forgetToken, put, refile } from "./writes.ts";

/** How many worker IDs are remembered for a host. It does not get further ones back first. */
const mostOfHost = 512;
/** How far a hint may lag behind the numbers in use: each claim reads that many in vain. */
const hintLag = 8;

/** Reads what a claim begins with. */
export async function beginClaim(attempt: ZooKeeperAttempt, request: ClaimRequest): Promise<ClaimAttempt> {
  const { store, nodes } = attempt;
  const { exchange, races } = attempt.tried;
  const { token, workerId: wanted, preferred = [], pool, holder } = request;
  const wishes = wanted === undefined ? preferred.slice(0, look) : [wanted];
  const named = wishes.filter((id) => isIn(pool, id));
  const { clock, state, unknown, read } = await attempt.begin((session) =>
    Promise.all([
      session.get(nodes.token(token)),
      session.list(nodes.host(holder.host)),
      session.list(nodes.owner(holder.ip)),
      session.get(nodes.hint(pool)),
      ...named.map((id) => readNode(session, nodes, id)),
    ]),
  );
  const [owner, hosts, pins, next, ...records] = read;
  const view = new ClaimView(request, clock, races > 0);
  const hint = { value: next ? readNumber(next, nodes.hint(pool)) : pool.first, version: next?.version };
  /** The value that the hint of the pool should have. */
  let newHint: number | undefined;

  async function decide(): Promise<Decision> {
    if (state === undefined) throw new Error("a claim in a namespace that does not exist");
    for (const record of records) view.add(record);
    if (owner !== undefined) {
      const held = readNumber(owner, nodes.token(token));
      view.add(await exchange((session) => readNode(session, nodes, held)));
      // The worker ID was given back in between.
      if (view.byToken(token) === undefined) throw new Beaten("its token is gone");
    }
    if (wanted !== undefined || owner !== undefined) {
      const decision = decideClaim(view, request, state);
      const { answer } = decision;
      return answer.outcome === "held" ? { answer: await withSession(attempt, answer, view) } : decision;
    }
    const inPool = (names: readonly string[] = []): readonly number[] =>
      names.flatMap((name) => numberOf(name) ?? []).filter((id) => isIn(pool, id));
    const [pinned, own] = [inPool(pins).slice(0, look), inPool(hosts)] as const;
    const { hint: found, ...decision } = await searchAny({ attempt, request, state, view, pinned, own, hint });
    newHint = found;
    return decision;
  }

  async function commit(record: Stored): Promise<void> {
    const { workerId } = record;
    const before = view.nodes.get(workerId);
    const last = before?.sticky === true ? before.record.holder?.host : undefined;
    const sticky = last === holder.host || (hosts?.length ?? 0) < mostOfHost;
    const writes: Write[] = [
      ...put(nodes, record, before, sticky),
      { op: "create", path: nodes.token(token), data: jsonBytes(workerId), contested: true },
      ...forgetToken(nodes, before),
      ...endOf(nodes, before?.record, before?.record.until ?? 0, clock, "taken-over"),
      ...refile((host) => nodes.ofHost(host, workerId), last, sticky ? holder.host : undefined),
      { op: "create", path: nodes.ephemeral(workerId, token), ephemeral: true },
    ];
    const session = await attempt.commitRecord(workerId, writes, {
      folders: [
        ...store.foldersFor(nodes, workerId),
        ...(sticky && hosts === undefined ? [nodes.host(holder.host)] : []),
      ],
      also: (calls) => [
        ...moveHint(calls),
        // Removed only where this was the last worker ID of that host.
        ...(last === undefined || last === holder.host ? [] : [calls.remove(nodes.host(last))]),
      ],
    });
    store.noteFolders(nodes, workerId);
    store.ephemerals.note(session, nodes, record, clock);
  }

  /** Creates the hint of the pool, or raises it where it lags too far behind. It may fail. */
  function moveHint(session: ZooKeeperSession): Promise<unknown>[] {
    const [path, to] = [nodes.hint(pool), newHint];
    if (to === undefined) return [];
    // Created with the value that is always right: a higher one needs a version that proves that no number became unused since.
    if (hint.version === undefined) return [session.create(path, jsonBytes(pool.first))];
    const raises = to > hint.value && (to - hint.value >= hintLag || to > pool.last);
    return raises ? [session.set(path, jsonBytes(to), hint.version)] : [];
  }

  return { clock, state, unknown, decide, commit };
}

/** A refusal that says whether the session of the holder lives. */
async function withSession(
  { nodes, tried }: ZooKeeperAttempt,
  answer: Extract<Refusal, { outcome: "held" }>,
  view: ClaimView,
): Promise<Refusal> {
  const { workerId, live } = answer;
  const record = view.byId(workerId);
  if (!live || record === undefined) return answer;
  const ephemerals = await tried.exchange((session) => ephemeralsOf(session, nodes, workerId));
  return { ...answer, live: asShown(record, ephemerals).token !== undefined };
}
