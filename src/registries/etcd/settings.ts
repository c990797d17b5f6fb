import { type ClientTls, readClientTls } from "../client-tls.ts";
import type { ServerAddress } from "../url.ts";
import { refuse } from "../url-parameters.ts";

/** The settings of an etcd registry: the path of its URL, and how to reach its members. */
export interface EtcdSettings {
  /** The beginning of all keys, without the slash after it. */
  readonly prefix: string;
  /** Absent: no TLS. */
  readonly tls?: ClientTls | undefined;
}

const usualPrefix = "snowlease";

/** Reads the settings of an etcd URL. @throws SnowleaseError CONFIG_INVALID */
export function readEtcdSettings({ scheme, path, user, password, settings }: ServerAddress): EtcdSettings {
  if (/^\/|\/$|\/\//.test(path)) {
    refuse("the prefix of an etcd URL", "to be like services/ids, without a `/` at its end", path);
  }
  if ((user === undefined) !== (password === undefined)) {
    refuse("the login of an etcd URL", "to be USER:PASSWORD", "***");
  }
  const usesTls = scheme === "etcds";
  const tls = readClientTls(settings, usesTls, "etcds:");
  return { prefix: path === "" ? usualPrefix : path, ...(usesTls && { tls }) };
}
