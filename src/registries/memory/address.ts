import type { StoreKind } from "../store-kind.ts";
import { none } from "../url.ts";

export const memory: StoreKind<"memory"> = {
  kind: "memory",
  schemes: { memory: 0 },
  grammar: none,
  open: async (_, { clock }) => (await import("./registry.ts")).memoryRegistry({ clock }),
};
