import { SnowleaseError } from "../../src/id/errors.ts";
import type { RunOperation, StoreChanges, StoreRead, StoreView } from "../../src/registries/engine/port.ts";
import { registryOf } from "../../src/registries/engine/registry.ts";
import { MemoryNamespace } from "../../src/registries/memory/namespace.ts";
import type { Registry } from "../../src/rule/registry.ts";
import type { Clock } from "../../src/clock.ts";

/** The number of rows of a list in one read. */
const partLength = 2;

/**
 * The engine on a store in memory that follows the port literally. The store answers the announced reads of an operation and nothing
 * else. It returns lists in short parts, and ignores the state. It finds no unused and no old worker ID unless it must look everywhere.
 * It throws if an operation replaces what the operation has not read.
 */
export function strictRegistry(clock: Clock): Registry {
  const namespaces = new Map<string, MemoryNamespace>();
  const under = (name: string): MemoryNamespace => {
    const space = namespaces.get(name) ?? new MemoryNamespace({});
    namespaces.set(name, space);
    return space;
  };

  function commit(name: string, changes: StoreChanges): void {
    const space = under(name);
    check(changes.standing === space.standing, "replaces a standing that it has not read");
    for (const { workerId, before, after, ended } of changes.records) {
      check(before === space.byId(workerId), "replaces a record that it has not read");
      check(after === undefined || after.workerId === workerId, "puts a record in the place of another worker ID's");
      check(ended === undefined || ended.workerId === workerId, "ends a claim of another worker ID");
    }
    const { becomes } = changes;
    const isGone = becomes !== undefined && becomes.made === undefined;
    const kept = isGone ? new MemoryNamespace(becomes) : space;
    kept.commit(changes);
    namespaces.set(name, kept);
  }

  const run: RunOperation = async (namespace, kind, begin) => {
    const operation = begin({ waited: 0, sent: [] });
    const space = Object.assign(under(namespace), { clock: clock.now() });
    const announced: string[] = [];
    let next = operation.next();
    while (next.done !== true) {
      announced.push(...next.value.map((read) => JSON.stringify(read)));
      next = operation.next(viewOf(space, announced));
    }
    const { answer, changes } = next.value;
    check(kind !== "read" || changes === undefined, "changes something, and said that it only reads");
    if (changes !== undefined) commit(namespace, changes);
    if (answer instanceof SnowleaseError) throw answer;
    return answer;
  };

  return registryOf(
    {
      kind: "strict",
      title: "The strict registry",
      samples: true,
      prune: async (namespace, before) => under(namespace).prune(before),
      ping: async () => ({ clock: clock.now(), durability: "Nothing survives the test.", lossy: true }),
      close: async () => undefined,
    },
    { run, pinsTogether: true },
  );
}

/** A view of the announced reads. */
function viewOf(space: MemoryNamespace, announced: readonly string[]): StoreView {
  const { clock, standing } = space;
  const answered =
    (name: StoreRead[0]) =>
    (...input: never[]): never => {
      const read = JSON.stringify([name, ...input]);
      check(announced.includes(read), `reads ${read}, which it did not announce`);
      const answer = space[name] as unknown as (...input: readonly unknown[]) => never;
      return answer.apply(space, input);
    };
  const [unused, oldest] = [answered("firstUnused"), answered("oldest")] as [
    StoreView["firstUnused"],
    StoreView["oldest"],
  ];
  return {
    clock,
    standing,
    byToken: answered("byToken"),
    byId: answered("byId"),
    firstUnused: (pool, everywhere) => (everywhere === true ? unused(pool, everywhere) : undefined),
    oldest: (pool, limit, everywhere) => (everywhere === true ? oldest(pool, limit, everywhere) : []),
    oldestOfHost: answered("oldestOfHost"),
    pinnedFor: answered("pinnedFor"),
    newestOfHost: answered("newestOfHost"),
    page(after, limit, state) {
      check(announced.includes(JSON.stringify(["page", after, limit, state])), "lists without a word");
      return space.page(after, Math.min(limit, partLength), undefined);
    },
    ended(workerId, before, limit) {
      check(announced.includes(JSON.stringify(["ended", workerId, before, limit])), "lists claims without a word");
      return space.ended(workerId, before, Math.min(limit, partLength));
    },
  };
}

function check(holds: boolean, what: string): void {
  if (!holds) throw new Error(`An operation ${what}.`);
}
