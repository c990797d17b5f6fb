import type { Era } from "../../rule/era.ts";
import { together } from "../together.ts";
import { Beaten, Changed } from "../engine/operate.ts";
import { heldFacts, heldObject } from "./errors.ts";
import { isSame, type Leases } from "./leases.ts";
import type { LeaseNames, LeaseObject } from "./objects.ts";
import { notedObject, readFacts } from "./records.ts";

/*
 * The removal of a sealed namespace. Kubernetes deletes one object at a time, as it was read. So each side reads
 * again after its own write, once the records are gone:
 *
 *     a removal           writes the note in the place of the facts, then deletes the objects that it still finds
 *     a claim or a pin    writes a new object, then reads the facts: if the namespace is gone, it deletes the object
 *
 * So a new object stays only if its writer, or the removal, died or got no answer after its own write. No caller got an
 * answer about such an object. No claim believes hints, and a worker ID rests until its window has passed, or is pinned. An object
 * whose labels an operator removed stays, too, because no list finds it.
 */

/** How many objects one call deletes, and how many of them at the same time. */
const [batch, width] = [128, 16];

/**
 * Deletes the next records and hints of a namespace. If none is left, deletes the namespace itself. `facts`: as they were read. `noted`:
 * the era that stands under its name after that.
 * @throws Changed if the namespace has changed since; SnowleaseError FORBIDDEN: finalizers
 */
export async function eraseSome(
  leases: Leases,
  names: LeaseNames,
  { facts, noted }: { readonly facts: LeaseObject; readonly noted: Era | undefined },
): Promise<void> {
  const { deletionTimestamp, finalizers = [] } = facts.metadata;
  // If a namespace is removed without a note, only its records still keep their windows.
  if (deletionTimestamp !== undefined || (noted === undefined && finalizers.length > 0)) throw heldFacts(names.facts);
  const some = await erasable(leases, names);
  if (some.length > 0) {
    // The namespace was still sealed when the objects were read. A later write gives an object another version.
    if (!isSame(await leases.get(names.facts), facts)) throw new Changed("another era began");
    return removeAll(leases, some);
  }
  if (noted === undefined) await leases.remove(facts);
  const note = noted && (await leases.replace(facts, notedObject(names, noted, facts)));
  await removeLate(leases, names, note);
}

/** The next records and hints of a namespace; empty if all are gone. @throws SnowleaseError FORBIDDEN: finalizers */
async function erasable(leases: Leases, names: LeaseNames): Promise<readonly LeaseObject[]> {
  let held: LeaseObject | undefined;
  for await (const objects of leases.pages(names.all, batch)) {
    const own = objects.filter(({ metadata: { name } }) => names.isErasable(name));
    const left = own.filter(({ metadata: { deletionTimestamp } }) => deletionTimestamp === undefined);
    if (left.length > 0) return left;
    [held = held] = own;
  }
  if (held !== undefined) throw heldObject(held.metadata.name);
  return [];
}

/** Deletes objects as they were read. An object that has changed since stays. */
async function removeAll(leases: Leases, objects: readonly LeaseObject[]): Promise<void> {
  const left = objects.values();
  const work = async (): Promise<void> => {
    // All loops share the iterator, so each takes the next object.
    for (const object of left) await removeUnchanged(leases, object);
  };
  await together(Array.from({ length: width }, work));
}

/** Deletes objects that were written during the removal of the namespace. `note`: the present state of the namespace's object. */
async function removeLate(leases: Leases, names: LeaseNames, note: LeaseObject | undefined): Promise<void> {
  for (let late = await erasable(leases, names); late.length > 0; late = await erasable(leases, names)) {
    const present = await leases.get(names.facts);
    if (present?.metadata.deletionTimestamp !== undefined) throw heldFacts(names.facts);
    // If a new namespace has been made in this place since, it may own some of these objects.
    if (!isSame(present, note)) return;
    await removeAll(leases, late);
  }
}

/**
 * Deletes a new object again if the namespace has been removed. The removal may have looked for objects before this one was written.
 * @throws Changed in that case
 */
export async function checkThere(leases: Leases, names: LeaseNames, made: LeaseObject): Promise<void> {
  if (readFacts(await leases.get(names.facts)) !== undefined) return;
  await removeAll(leases, [made]);
  throw new Changed("the namespace was removed");
}

async function removeUnchanged(leases: Leases, object: LeaseObject): Promise<void> {
  try {
    await leases.remove(object);
  } catch (error) {
    if (!(error instanceof Beaten)) throw error;
  }
}
