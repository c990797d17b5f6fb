import type { StoreKind } from "../store-kind.ts";
import type { Grammar } from "../url.ts";
import { type KubernetesParts, parameters, readKubernetesSettings } from "./settings.ts";

/** Nothing after the scheme, or `//NAMESPACE`. */
const grammar: Grammar<Omit<KubernetesParts, "settings">> = ({ scheme, body, refuse }) => {
  const [, place] =
    /^(?:\/\/([a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?))?$/.exec(body) ??
    refuse(`to be \`${scheme}:\` or ${scheme}://NAMESPACE, with a namespace of Kubernetes`);
  return { place };
};

export const kubernetes: StoreKind<"kubernetes", KubernetesParts> = {
  kind: "kubernetes",
  schemes: { kubernetes: {} },
  grammar,
  parameters,
  claimMakesNamespace: "at once",
  lacks: {
    "long-recents": "a claim may list thousands of records at once: longer ones would make that too large",
    "one-grant-a-token":
      "Kubernetes writes one object at a time: no write of a record fails because another one has the token",
  },
  encryption: async (address, operationTimeout) =>
    (await import("./cluster.ts")).encryptionOfCluster(readKubernetesSettings(address), operationTimeout),
  open: async (address, options) => (await import("./registry.ts")).kubernetesRegistry(address, options),
};
