import { createSecureContext } from "node:tls";
import { anyText, readParameterFile, refuse, type StoreParameters } from "./url-parameters.ts";

/** The certificates of a client, in PEM. */
export interface ClientTls {
  /** Authorities to trust. Default: those that Node trusts. */
  readonly ca?: string | undefined;
  /** The client's own certificate, for a server that asks for one. */
  readonly cert?: string | undefined;
  readonly key?: string | undefined;
}

const names = ["tlsCa", "tlsCert", "tlsKey"] as const;

/** The parameters of a registry URL that name such files. `asking`: a server that asks for a certificate. */
export function clientTlsParameters(asking: string): StoreParameters {
  return {
    tlsCa: anyText({ meaning: "File with the certificates to trust (PEM); without it, those that Node trusts." }),
    tlsCert: anyText({ meaning: `File with the client's own certificate (PEM), for ${asking}.` }),
    tlsKey: anyText({ meaning: "File with the key of that certificate (PEM)." }),
  };
}

/** Reads the files that a URL names in its query. `scheme`: with which it uses TLS. @throws SnowleaseError CONFIG_INVALID */
export function readClientTls(settings: Readonly<Record<string, string>>, usesTls: boolean, scheme: string): ClientTls {
  const [ca, cert, key] = names.map((name) => {
    const file = settings[name];
    if (file === undefined) return undefined;
    if (!usesTls) refuse(`\`${name}\``, `only with ${scheme}`, file);
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
