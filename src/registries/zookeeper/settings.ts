import { readTls, type Tls, tlsParameters } from "../client-tls.ts";
import type { ServerAddress } from "../url.ts";
import { readParameters, refuse, type StoreParameters, time } from "../url-parameters.ts";

/** The settings of a ZooKeeper registry: parameters of its URL, and its path. */
export interface ZooKeeperSettings extends Tls {
  /** Ms. It does not limit any window. */
  readonly sessionTimeout: number;
  /** The parent of all nodes, `/like/this`; empty: the root. */
  readonly chroot: string;
}

export const parameters: StoreParameters<Pick<ZooKeeperSettings, "sessionTimeout">> & typeof tlsParameters = {
  sessionTimeout: time("100ms", "10m", {
    default: "10s",
    meaning:
      "How long the ensemble waits for a client that it does not hear. A shorter one shows sooner that a holder is gone.",
  }),
  ...tlsParameters,
};

/** Reads the settings of a ZooKeeper URL. @throws SnowleaseError CONFIG_INVALID */
export function readZooKeeperSettings({ path, user, password, settings }: ServerAddress): ZooKeeperSettings {
  const parts = path.split("/");
  if (path !== "" && parts.some((part) => part === "" || part === "." || part === "..")) {
    refuse("the chroot of a ZooKeeper URL", "to be like /services/ids, with no `/` at its end", `/${path}`);
  }
  if ((user === undefined) !== (password === undefined) || user?.includes(":")) {
    refuse("the login of a ZooKeeper URL", "to be USER:PASSWORD, without a `:` in the user", "***");
  }
  const values = readParameters(parameters, settings);
  return { sessionTimeout: values.sessionTimeout, ...readTls(values), chroot: path === "" ? "" : `/${path}` };
}
