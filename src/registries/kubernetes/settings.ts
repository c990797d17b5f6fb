import { anyText, readParameters, type StoreParameters } from "../url-parameters.ts";

/** The place of the Lease objects of a registry. */
export interface KubernetesParts {
  /** The namespace of Kubernetes. Undefined: the pod's own, or that of the kubeconfig's context. */
  readonly place: string | undefined;
  readonly settings: Readonly<Record<string, string>>;
}

/** How to find the API server. */
export interface KubernetesSettings {
  /** A file. Undefined with a `context`: the file that kubectl finds. */
  readonly kubeconfig: string | undefined;
  readonly context: string | undefined;
  /** The folder of the pod's token. */
  readonly serviceAccount: string;
}

export const parameters: StoreParameters<KubernetesSettings> = {
  kubeconfig: anyText({
    meaning: "Outside of a pod: the file that says where the API server is and how to log in, read by `kubectl`.",
  }),
  context: anyText({ meaning: "The context of the kubeconfig; without it, the current one." }),
  serviceAccount: anyText({
    default: "/var/run/secrets/kubernetes.io/serviceaccount",
    meaning: "In a pod: the folder with `token`, `ca.crt` and `namespace`.",
  }),
};

/** Reads the settings of a Kubernetes URL. @throws SnowleaseError CONFIG_INVALID */
export function readKubernetesSettings({ settings }: Pick<KubernetesParts, "settings">): KubernetesSettings {
  return readParameters(parameters, settings);
}
