import { type Decision, decideClaim, look } from "../../rule/pool.ts";
import type { ClaimRequest, Grant, Refusal } from "../../rule/registry.ts";
import { checkClaim, checkLimits } from "../../rule/window.ts";
import { endOf } from "./history.ts";
import { livesOf, seen } from "./ephemeral.ts";
import { hashOf, isIn, type Nodes, numberOf } from "./nodes.ts";
import { numberBytes, readNumber } from "./records.ts";
import { type Hint, preferredOf, searchAny, Snapshot } from "./search.ts";
import type { Session, Write } from "./session.ts";
import { again, commit, type Moment } from "./commit.ts";
import { forgetToken, newNamespace, put, readKept, replaceLost, type Store } from "./store.ts";

/** Worker IDs that are remembered for a host; further ones that it uses are anybody's. */
const mostOfHost = 512;
/** How far the hint may lag behind the numbers in use: each claim looks past as many. */
const hintLag = 8;

/** One try to claim: reads, decides, and commits on the condition that the record is as it was read. */
export async function claimOnce(
  store: Store,
  asked: ClaimRequest,
  moment: Moment,
): Promise<Grant | Refusal | typeof again> {
  const { connection } = store;
  const { deadline, waited } = moment;
  const beaten = moment.beaten > 0;
  // The claimer's clock went on while this waited; unmoved, it would look like one that was turned back.
  const request = { ...asked, token: hashOf(asked.token), clock: asked.clock + waited };
  const { namespace, layout, token, workerId, pool, holder, limits = {} } = request;
  const nodes = store.nodes(namespace);
  const named = workerId === undefined ? preferredOf(request) : [workerId].filter((id) => isIn(pool, id));
  const { clock, info, read } = await store.begin(deadline, nodes, (session) =>
    Promise.all([
      session.get(nodes.token(token)),
      session.list(nodes.host(holder.host)),
      session.list(nodes.owner(holder.ip)),
      session.get(nodes.next(pool)),
      ...named.map((id) => readKept(session, nodes, id)),
    ]),
  );
  const [owner, hosts, pins, next, ...records] = read;
  const rules = info ?? newNamespace(layout, limits);
  checkLimits(namespace, limits, rules);
  checkClaim(request, clock, rules);
  if (info === undefined) {
    await store.makeNamespace(deadline, nodes, rules);
    return claimOnce(store, asked, moment);
  }

  const snapshot = new Snapshot(request, clock, beaten);
  for (const kept of records) snapshot.add(kept);
  if (owner !== undefined) {
    const held = readNumber(owner, nodes.token(token));
    snapshot.add(await connection.exchange(deadline, (session) => readKept(session, nodes, held)));
    // It was given back in between.
    if (snapshot.byToken(token) === undefined) return again;
  }

  const hint = { value: next ? readNumber(next, nodes.next(pool)) : pool.first, version: next?.version };
  const inPool = (names: readonly string[] = []): readonly number[] =>
    names.flatMap((name) => numberOf(name) ?? []).filter((id) => isIn(pool, id));
  const [pinned, own] = [inPool(pins).slice(0, look), inPool(hosts)] as const;
  const decision: Decision & { readonly hint?: number } =
    workerId === undefined && owner === undefined
      ? await searchAny({ connection, deadline, nodes, request, info, clock, snapshot, pinned, own, hint, beaten })
      : decideClaim(snapshot, request, clock, info);
  const { answer, store: record } = decision;
  if (record === undefined)
    return answer.outcome === "held" ? tellHeld(store, deadline, nodes, answer, snapshot) : answer;

  const kept = snapshot.kept.get(record.workerId);
  const before = kept?.stored;
  const stays = kept?.sticky === true && before?.holder?.host === holder.host;
  const sticky = stays || (hosts?.length ?? 0) < mostOfHost;
  const left = kept?.sticky === true && !stays ? before?.holder?.host : undefined;
  const name = nodes.live(record.workerId, token);
  const writes: Write[] = [
    ...put(nodes, record, kept, sticky),
    { op: "create", path: nodes.token(token), data: numberBytes(record.workerId), contested: true },
    ...forgetToken(nodes, kept),
    ...endOf(nodes, before, before?.until ?? 0, clock, "taken-over"),
    ...(sticky && !stays ? [{ op: "create", path: nodes.ofHost(holder.host, record.workerId) } as const] : []),
    ...(left === undefined ? [] : [{ op: "remove", path: nodes.ofHost(left, record.workerId) } as const]),
    { op: "create", path: name, live: true },
  ];
  const done = await commit(connection, deadline, writes, {
    folders: [
      ...store.foldersFor(nodes, record.workerId),
      ...(sticky && hosts === undefined ? [nodes.host(holder.host)] : []),
    ],
    also: (session) => [
      ...moveHint(session, nodes.next(pool), pool, hint, decision.hint),
      // Empty where it was the host's last, and only then it goes.
      ...(left === undefined ? [] : [session.remove(nodes.host(left))]),
    ],
  });
  if (done.session === undefined) {
    const lost = done.beaten?.path === nodes.rows(record.workerId);
    if (lost) await replaceLost(store, deadline, nodes, record.workerId, info, clock);
    return again;
  }
  store.noteFolders(nodes, record.workerId);
  store.lives.note(done.session, nodes, record, clock);
  return answer;
}

/** Tells of a holder whether its session lives. */
async function tellHeld(
  { connection }: Store,
  deadline: number,
  nodes: Nodes,
  answer: Extract<Refusal, { outcome: "held" }>,
  snapshot: Snapshot,
): Promise<Refusal> {
  const { workerId, live } = answer;
  const record = snapshot.byId(workerId);
  if (!live || record === undefined) return answer;
  const lives = await connection.exchange(deadline, (session) => livesOf(session, nodes, workerId));
  return { ...answer, live: seen(record, lives.values()).token !== undefined };
}

/** Makes the hint of a pool, or raises it where it has fallen behind: nobody waits for that, and nobody minds if it fails. */
function moveHint(
  session: Session,
  path: string,
  { first, last }: { readonly first: number; readonly last: number },
  hint: Hint,
  to: number | undefined,
): Promise<unknown>[] {
  if (to === undefined) return [];
  // Made with what is always right: another value needs a version that shows that nothing was forgotten since.
  if (hint.version === undefined) return [session.create(path, numberBytes(first))];
  const raises = to > hint.value && (to - hint.value >= hintLag || to > last);
  return raises ? [session.set(path, numberBytes(to), hint.version)] : [];
}
