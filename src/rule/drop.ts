import { configInvalid, SnowleaseError, timeText } from "../id/errors.ts";
import { type EraMark, type NamespaceState, nextEra } from "./era.ts";
import { checkQuarantine } from "./quarantine.ts";
import type { DropRequest, Dropped, WorkerRecord } from "./registry.ts";
import type { Note } from "./unknown-namespace.ts";

/*
 * The end of a namespace. Its name can be used again, and then no ID may come twice. So a note stays under the name (`Note`): its era is
 * later than the namespace's, and opens once every window has passed that a claim or a renewal could still get at the moment of the drop,
 * by any clock. A receipt of the dropped namespace is covered by that quarantine; a holder that comes back late is lost. And another layout
 * is refused under the name, because its IDs could equal earlier ones.
 */

/** Namespaces for trials of a store, such as `snowlease prove` makes, have names that begin so. */
export const trialPrefix = "snowlease_proof_";

const trialName = new RegExp(`^${trialPrefix}[0-9a-z]{8}(?:_b)?$`);

/** Whether a namespace of this name is for a trial. No program has a reason to make another one of the same name. */
export function isTrialName(namespace: string): boolean {
  return trialName.test(namespace);
}

/** Refuses `final` for a namespace that could be made again. @throws SnowleaseError CONFIG_INVALID */
export function checkFinal({ namespace, final = false }: DropRequest): void {
  if (!final || isTrialName(namespace)) return;
  throw configInvalid(
    `Expected \`final\` only with the namespace of a trial (${trialPrefix} and 8 letters or digits), got \`${namespace}\`: programs could make a namespace of that name again; drop it without \`final\`.`,
  );
}

/**
 * Refuses to drop another namespace of the same name, and one in quarantine.
 * @throws SnowleaseError CONFIG_INVALID, QUARANTINE. `title`: of the store.
 */
export function checkDrop({ namespace, id }: DropRequest, state: NamespaceState, title: string): void {
  if (id !== state.info.id) {
    throw configInvalid(
      `Namespace \`${namespace}\` has the id \`${state.info.id ?? ""}\`, and the request names \`${id}\`: it was made anew, and nothing was changed; look at it before you drop it.`,
    );
  }
  checkQuarantine(state, title);
}

/** A record, as far as it stands in the way of a drop. */
type Obstacle = Pick<WorkerRecord, "workerId" | "until" | "holder" | "pinned"> & {
  readonly token?: string | undefined;
};

/** Whether a worker ID stands in the way of a drop: its window has not passed, or it is pinned. */
export function isObstacle({ until, pinned }: Obstacle, clock: number): boolean {
  return until > clock || pinned !== undefined;
}

/** @throws SnowleaseError WORKER_ID_HELD. `found`: a record that stands in the way. */
export function checkObstacle(namespace: string, found: Obstacle | undefined, clock: number): void {
  if (found === undefined) return;
  const { workerId, until, holder, pinned } = found;
  const where = `Namespace \`${namespace}\` is in use, and nothing was changed: worker ${workerId}`;
  if (until <= clock) {
    throw new SnowleaseError(
      "WORKER_ID_HELD",
      `${where} is pinned (${pinned}): a program may use it without a lease; unpin it once none does, and drop the namespace then.`,
      { namespace, workerId },
    );
  }
  const by = holder === undefined ? "" : ` of ${holder.host} (${holder.ip}), pid ${holder.pid},`;
  throw new SnowleaseError(
    "WORKER_ID_HELD",
    `${where}${by} has a window until ${timeText(until)}; stop each process that uses the namespace, and drop it after that time.`,
    { namespace, workerId, until, retryAfterMs: until - clock },
  );
}

/** What stays under the name. `isUsed`: whether a worker ID of it has a record. */
export function noteOfDrop(state: NamespaceState, isUsed: boolean, mark: EraMark): Note {
  const { info, clock, opensAt, quarantineEnd } = state;
  const era = nextEra(state, clock, info, mark);
  // A namespace of this name may have been dropped before, and its layout counts, too.
  const isFresh = !isUsed && opensAt === 0 && quarantineEnd === 0;
  return isFresh ? era : { ...era, layout: info.layout };
}

/** The answer to a drop. */
export function droppedAnswer(note: Note | undefined): Dropped {
  return note === undefined ? {} : { grantsFrom: note.opensAt };
}

/** The refusal where programs without windows take worker IDs of a namespace: what they may do next depends on its records. */
export function droppedBeside(namespace: string): SnowleaseError {
  return configInvalid(
    `Namespace \`${namespace}\` is shared with programs that keep no window (\`beside\`): what they may take depends on its records, so it is not dropped; nothing was changed.`,
  );
}

/** The refusal of a registry that drops no namespaces. `kind`: `Registry.kind`. */
export function cannotDrop(kind: string): SnowleaseError {
  return configInvalid(
    `Expected a registry that can drop a namespace, got the kind \`${kind}\`, which cannot do that safely; nothing was changed.`,
  );
}
