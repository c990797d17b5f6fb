import type { Capability } from "../conformance/subject.ts";
import { storeOfRegistry } from "../registries/index.ts";

type Lacks = Readonly<Partial<Record<Capability, string>>>;

const own: Readonly<Record<string, Lacks>> = {
  daemon: {
    "plain-receipts": "A daemon signs its receipts: a check cannot invent one.",
    copies: "An operator asks the store itself.",
  },
  kubernetes: {
    "long-recents": "a claim may list thousands of records at once: longer ones would make that too large",
    "one-grant-a-token":
      "Kubernetes writes one object at a time: no write of a record fails because another one has the token",
  },
  memory: { connections: "There is nothing to connect to: all clients are one object." },
  zookeeper: {
    "oldest-first": "ZooKeeper has no ordered index: a claim takes the oldest of a few numbers without a holder",
  },
};

/** What our own registries of this kind lack. A daemon lacks what its store lacks, too. */
export function lacksOf(kind: string): Lacks {
  const makes = storeOfRegistry(kind)?.claimMakesNamespace;
  const why: Lacks =
    makes === "in quarantine"
      ? { "creates-namespaces": "a store without a namespace's keys may have lost them: only `init` makes one" }
      : { "creates-namespaces": "only `init` makes tables, with the rights that this takes" };
  return { ...(kind === "daemon" || makes === "at once" ? {} : why), ...own[kind] };
}
