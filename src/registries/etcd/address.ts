import { clientTlsParameters } from "../client-tls.ts";
import type { StoreKind } from "../store-kind.ts";
import { type Scheme, servers, type ServerParts } from "../url.ts";

const members: Scheme = { port: 2379, list: "members of one cluster" };

export const etcd: StoreKind<"etcd", ServerParts> = {
  kind: "etcd",
  schemes: { etcd: members, etcds: { ...members, encrypted: true } },
  grammar: servers,
  parameters: clientTlsParameters("a member that asks for one"),
  claimMakesNamespace: "at once",
  open: async (address, options) => (await import("./registry.ts")).etcdRegistry(address, options),
};
