import { createSecureContext } from "node:tls";
import { readParameterFile, refuse } from "../url-parameters.ts";

/** The certificates of a client of `https:`, in PEM. */
export interface ClientTls {
  /** Authorities to trust. Default: those that Node trusts. */
  readonly ca?: string | undefined;
  /** The client's own certificate, for a daemon that asks for one. */
  readonly cert?: string | undefined;
  readonly key?: string | undefined;
}

const names = ["tlsCa", "tlsCert", "tlsKey"] as const;

/** Reads the files that a daemon's URL names in its query. @throws SnowleaseError CONFIG_INVALID */
export function tlsOf(addresses: readonly string[], settings: Readonly<Record<string, string>>): ClientTls {
  const [ca, cert, key] = names.map((name) => {
    const file = settings[name];
    if (file === undefined) return undefined;
    if (!addresses.some((address) => address.startsWith("https:"))) refuse(`\`${name}\``, "only with https:", file);
    return readParameterFile(name, file);
  });
  if ((cert === undefined) !== (key === undefined)) refuse("`tlsCert` and `tlsKey`", "to be given together", undefined);
  try {
    createSecureContext({ ca, cert, key });
  } catch {
    const given = names.filter((name) => settings[name] !== undefined).map((name) => `\`${name}\``);
    refuse(
      given.join(" and "),
      "to be files in PEM that belong together",
      names.map((name) => settings[name]),
    );
  }
  return { ca, cert, key };
}
