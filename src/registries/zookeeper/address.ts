import type { StoreKind } from "../store-kind.ts";
import { servers, type ServerParts } from "../url.ts";
import { parameters } from "./settings.ts";

export const zookeeper: StoreKind<"zookeeper", ServerParts> = {
  kind: "zookeeper",
  schemes: { zookeeper: { port: 2181, list: "servers of one ensemble" } },
  aliases: { zk: "zookeeper" },
  grammar: servers,
  claimMakesNamespace: "at once",
  parameters,
  open: async (address, options) => (await import("./registry.ts")).zooKeeperRegistry(address, options),
};
