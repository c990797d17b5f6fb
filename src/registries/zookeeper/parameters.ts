import { readFileSync } from "node:fs";
import type { ServerAddress } from "../address.ts";
import { refuse, timeOf, type Tls, tlsOf } from "../url-parameters.ts";

/** What only a ZooKeeper registry has: parts of its URL. */
export interface ZooKeeperSettings extends Tls {
  /**
   * How long the ensemble waits for a client that it does not hear before it ends its session, ms; an ensemble has limits of its
   * own. Default 10 s. A shorter one shows sooner that a holder is gone; no window ends by it.
   */
  readonly sessionTimeout: number;
  /** The node under which all others are made, `/like/this`; empty: the root. */
  readonly chroot: string;
}

const usualSession = 10_000;

/** Reads the settings of a ZooKeeper URL. @throws SnowleaseError CONFIG_INVALID */
export function parseSettings({ path, user, password, settings }: ServerAddress): ZooKeeperSettings {
  const parts = path.split("/");
  if (path !== "" && parts.some((part) => part === "" || part === "." || part === "..")) {
    refuse("the chroot of a ZooKeeper URL", "to be like /services/ids, with no `/` at its end", `/${path}`);
  }
  if ((user === undefined) !== (password === undefined) || user?.includes(":")) {
    refuse("the login of a ZooKeeper URL", "to be USER:PASSWORD, without a `:` in the user", "***");
  }
  return {
    sessionTimeout: sessionOf(settings["sessionTimeout"]),
    chroot: path === "" ? "" : `/${path}`,
    ...tlsOf(settings, (file) => readFileSync(file, "utf8")),
  };
}

function sessionOf(text: string | undefined): number {
  if (text === undefined) return usualSession;
  const ms = timeOf(text);
  if (ms >= 100 && ms <= 600_000) return ms;
  return refuse("`sessionTimeout`", "to be a time from 100ms to 10m, such as 10s", text);
}
