import type { StoreKind } from "../store-kind.ts";
import type { Grammar } from "../url.ts";
import { anyText, readParameters, type StoreParameters } from "../url-parameters.ts";

/** Where the Lease objects of a registry are. */
export interface KubernetesParts {
  /** Of Kubernetes. Undefined: the pod's own, or that of the kubeconfig's context. */
  readonly place: string | undefined;
  readonly settings: Readonly<Record<string, string>>;
}

/** How the API server is found. */
export interface KubernetesSettings {
  /** A file; undefined with a `context`: where kubectl looks for one. */
  readonly kubeconfig: string | undefined;
  readonly context: string | undefined;
  /** The folder of the pod's token. */
  readonly serviceAccount: string;
}

const parameters: StoreParameters<KubernetesSettings> = {
  kubeconfig: anyText({
    meaning: "Outside of a pod: the file that says where the API server is and how to log in, read by `kubectl`.",
  }),
  context: anyText({ meaning: "The context of the kubeconfig; without it, the current one." }),
  serviceAccount: anyText({
    default: "/var/run/secrets/kubernetes.io/serviceaccount",
    meaning: "In a pod: the folder with `token`, `ca.crt` and `namespace`.",
  }),
};

/** Nothing behind the scheme, or `//NAMESPACE`. */
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

/** Reads the settings of a Kubernetes URL. @throws SnowleaseError CONFIG_INVALID */
export function readKubernetesSettings({ settings }: Pick<KubernetesParts, "settings">): KubernetesSettings {
  return readParameters(parameters, settings);
}
