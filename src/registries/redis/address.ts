import type { StoreKind } from "../store-kind.ts";
import { type Scheme, type ServerParts, servers, socket } from "../url.ts";
import { redisClient } from "./client.ts";
import { parameters } from "./settings.ts";

const server: Scheme = {
  port: 6379,
  insteadOfList:
    "write the address of the primary, the same in every program; for a primary that sentinels replace, redis+sentinel://HOST,HOST/NAME; for a cluster, redis+cluster://HOST,HOST",
};

export const redis: StoreKind<"redis", ServerParts> = {
  kind: "redis",
  schemes: {
    redis: server,
    rediss: { ...server, encrypted: true },
    "redis+sentinel": { port: 26_379, list: "sentinels of one primary", announces: true },
    "redis+cluster": { port: 6379, list: "nodes of one cluster", announces: true },
    "redis+unix": {},
  },
  aliases: { valkey: "redis", valkeys: "rediss" },
  grammar: (url) => (url.scheme === "redis+unix" ? socket(url) : servers(url)),
  parameters,
  claimMakesNamespace: "in quarantine",
  clientTarget: redisClient,
  open: async (address, { operationTimeout }) =>
    (await import("./registry.ts")).redisRegistry(address, { operationTimeout }),
};
