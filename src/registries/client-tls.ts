import { createSecureContext } from "node:tls";
import { SnowleaseError } from "../id/errors.ts";
import { anyText, readParameterFile, refuse, type StoreParameters, truth } from "./url-parameters.ts";

/** The certificates of a client, in PEM. */
export interface ClientTls {
  /** Authorities to trust. Default: the ones that Node trusts. */
  readonly ca?: string | undefined;
  /** The client's own certificate, for a server that asks for one. */
  readonly cert?: string | undefined;
  readonly key?: string | undefined;
}

/** How to reach the servers of a registry URL if its scheme does not say it. */
export interface Tls extends ClientTls {
  /** TLS, with certificate and host name checked. */
  readonly tls: boolean;
}

const names = ["tlsCa", "tlsCert", "tlsKey"] as const;
/** Names of files, as a URL has them. */
export type TlsFileNames = Readonly<Partial<Record<(typeof names)[number], string | undefined>>>;

/** The parameters of a registry URL that name such files. `asking`: the server that asks for a certificate, for the docs. */
export function clientTlsParameters(asking: string): StoreParameters<Required<TlsFileNames>> {
  return {
    tlsCa: anyText({
      meaning: "File with the certificates to trust (PEM); without it, those that Node trusts.",
      clientHas: true,
    }),
    tlsCert: anyText({
      meaning: `File with the client's own certificate (PEM), for ${asking}.`,
      clientHas: true,
    }),
    tlsKey: anyText({ meaning: "File with the key of that certificate (PEM).", clientHas: true }),
  };
}

/** The parameters of a store with one scheme, with or without TLS. */
export const tlsParameters: StoreParameters<Pick<Tls, "tls"> & Required<TlsFileNames>> = {
  tls: truth({ default: "false", meaning: "TLS, with certificate and host name checked.", clientHas: true }),
  ...clientTlsParameters("a server that asks for one"),
};

/** Reads the files that a URL names in its query. `how`: the way to use TLS, for messages. @throws SnowleaseError CONFIG_INVALID */
export function readClientTls(files: TlsFileNames, usesTls: boolean, how: string): ClientTls {
  const [ca, cert, key] = names.map((name) => {
    const file = files[name];
    if (file === undefined) return undefined;
    if (!usesTls) refuse(`\`${name}\``, `only with ${how}`, file);
    return readParameterFile(name, file);
  });
  if (ca === undefined && cert === undefined && key === undefined) return {};
  if ((cert === undefined) !== (key === undefined)) refuse("`tlsCert` and `tlsKey`", "to be given together", undefined);
  try {
    createSecureContext({ ca, cert, key });
  } catch {
    const given = names.filter((name) => files[name] !== undefined).map((name) => `\`${name}\``);
    refuse(
      given.join(" and "),
      "to be files in PEM that belong together",
      names.map((name) => files[name]),
    );
  }
  return { ca, cert, key };
}

/** Reads the values of `tlsParameters`. @throws SnowleaseError CONFIG_INVALID */
export function readTls(values: Pick<Tls, "tls"> & TlsFileNames): Tls {
  const { tls } = values;
  return { tls, ...readClientTls(values, tls, "tls=true") };
}

/** Why the two sides of a connection do not agree on TLS, found by the texts of OpenSSL, Node and drivers, and what to do. */
const disagreements: readonly (readonly [said: RegExp, what: string, advice: string, files?: "files"])[] = [
  [
    /self.?signed certificate|unable to (?:get|verify)|SELF_SIGNED|UNABLE_TO_(?:GET|VERIFY)/i,
    "shows a certificate that this program does not trust",
    "name the authority that signed it with `tlsCa`",
    "files",
  ],
  [
    /certificate has expired|certificate is not yet valid|CERT_HAS_EXPIRED|CERT_NOT_YET_VALID/i,
    "shows a certificate of another time",
    "renew it there, or set the clock of this host right",
  ],
  [
    /altname/i,
    "shows a certificate of another name",
    "write a name in the URL that the certificate has, or have it made for this one",
  ],
  [
    /wrong.version.number|packet length too long|does not support (?:SSL|secure)/i,
    "speaks no TLS",
    "name its port for TLS, or have TLS set up there",
  ],
  [
    /alert (?:certificate required|bad certificate|unknown ca|certificate unknown|certificate expired|certificate revoked|unsupported certificate)/i,
    "does not take the certificate of this client, or wants one",
    "check `tlsCert` and `tlsKey`",
    "files",
  ],
  [
    /alert (?:handshake failure|protocol version|insufficient security|no application protocol)|no (?:protocols available|shared cipher)|unsupported protocol/i,
    "cannot agree with this client on TLS",
    "check its versions and ciphers, and whether it wants a certificate (`tlsCert`, `tlsKey`)",
    "files",
  ],
  [
    /^(?:CERT_|ERR_TLS_|ERR_SSL_)|SIGNATURE/,
    "cannot agree with this client on TLS",
    "check the certificates of both sides (`tlsCa`, `tlsCert`, `tlsKey`)",
    "files",
  ],
];

/** Advice for a silent server. A server without TLS may take the first bytes of TLS for the start of a request, and wait for its end. */
export function silenceAdvice(usesTls: boolean): string {
  return usesTls ? ", and whether that port has TLS" : "";
}

/**
 * The error if the two sides of a connection do not agree on TLS. It lasts until an operator changes a file or a setting. Undefined for any
 * other failure. No request was sent then. `server`: for messages. `files`: the advice if the URL does not name the certificates.
 */
export function tlsError(server: string, cause: unknown, files?: string): SnowleaseError | undefined {
  if (!(cause instanceof Error)) return undefined;
  const {
    code = "",
    reason,
    message,
    lastNodeError,
  } = cause as NodeJS.ErrnoException & {
    readonly reason?: string;
    /** From a driver that tried several servers. */
    readonly lastNodeError?: unknown;
  };
  const text = `${code} ${reason ?? ""} ${message}`;
  const found = disagreements.find(([said]) => said.test(text));
  if (found === undefined) return tlsError(server, lastNodeError, files);
  const [, what, usual, isOfFiles] = found;
  const advice = isOfFiles === undefined ? usual : (files ?? usual);
  // OpenSSL's own message is a list of places in its source. The reason is one of its parts.
  const said = reason ?? /:SSL routines:[^:]*:([^:]+):/.exec(message)?.[1] ?? message;
  return new SnowleaseError(
    "REGISTRY_UNAVAILABLE",
    `${server} ${what} (${said.replace(/[.;]\s*$/, "")}), nothing was changed; ${advice}.`,
    { lasting: true },
    { cause },
  );
}
