import { createPrivateKey, type KeyObject, X509Certificate } from "node:crypto";
import { createSecureContext } from "node:tls";
import { SnowleaseError } from "../id/errors.ts";
import { readGuardedFile } from "./guarded-file.ts";
import type { Log } from "./log.ts";

export interface TlsFiles {
  /** The certificate, and the certificates between it and its authority. */
  readonly cert: string;
  /** Its private key, without a passphrase. */
  readonly key: string;
  /** Authorities. A client needs a certificate of one of them. Default: a client needs no certificate. */
  readonly clientCa?: string | undefined;
}

/** Certificates and key of a TLS server, in PEM. */
export interface Certificates {
  readonly cert: string;
  readonly key: string;
  readonly ca?: string | undefined;
}

/** Options for a new TLS server, and for a renewal of its certificates. */
interface ServerTls extends Certificates {
  readonly minVersion: "TLSv1.2";
  readonly requestCert: boolean;
}

export function serverTls(certificates: Certificates): ServerTls {
  // Older TLS versions are broken.
  return { ...certificates, minVersion: "TLSv1.2", requestCert: certificates.ca !== undefined };
}

const block = /-----BEGIN (?:X509 |TRUSTED )?CERTIFICATE-----[^-]+-----END (?:X509 |TRUSTED )?CERTIFICATE-----/g;

/**
 * Reads certificates and key. @param now Unix ms.
 * @throws SnowleaseError CONFIG_INVALID for a file that cannot be read or used, a key of another certificate, and wrong dates.
 */
export function readCertificates({ cert, key, clientCa }: TlsFiles, now: number, log: Log): Certificates {
  const texts = {
    cert: readGuardedFile(cert, "tlsCert"),
    key: readGuardedFile(key, "tlsKey", log),
    ...(clientCa !== undefined && { ca: readGuardedFile(clientCa, "tlsClientCa") }),
  };
  const [own] = certificatesIn(texts.cert, cert);
  if (!own.checkPrivateKey(privateKey(texts.key, key))) {
    refuse(`The key in ${key} is not that of the certificate in ${cert}; name the two that belong together`);
  }
  checkDates([own], cert, now);
  if (clientCa !== undefined && texts.ca !== undefined) checkDates(certificatesIn(texts.ca, clientCa), clientCa, now);
  try {
    createSecureContext(texts);
  } catch (cause) {
    refuse(`The certificates in ${cert} cannot be used (${(cause as Error).message}); make others`, cause);
  }
  return texts;
}

function certificatesIn(text: string, path: string): [X509Certificate, ...X509Certificate[]] {
  try {
    const [first, ...others] = (text.match(block) ?? []).map((pem) => new X509Certificate(pem));
    if (first !== undefined) return [first, ...others];
  } catch (cause) {
    return refuse(`The file ${path} has a certificate that cannot be read; name one of certificates in PEM`, cause);
  }
  return refuse(`The file ${path} has no certificate; name one of certificates in PEM`);
}

function privateKey(text: string, path: string): KeyObject {
  try {
    return createPrivateKey(text);
  } catch {
    // The error has no cause, because it might show parts of the key.
    return refuse(
      `The file ${path} has no private key that can be read; name one of a key in PEM without a passphrase`,
    );
  }
}

/** Refuses the certificates unless one is valid. An old authority may stay in the file until the last of its certificates is gone. */
function checkDates(certificates: readonly X509Certificate[], path: string, now: number): void {
  const faults = certificates.map(({ validFrom, validTo }) => {
    const [from, to] = [Date.parse(validFrom), Date.parse(validTo)];
    if (now > to) return `expired on ${new Date(to).toISOString()}; renew it`;
    return now < from ? `is valid only from ${new Date(from).toISOString()}; set the clock` : undefined;
  });
  if (!faults.includes(undefined)) refuse(`The certificate in ${path} ${faults[0]}`);
}

function refuse(what: string, cause?: unknown): never {
  throw new SnowleaseError("CONFIG_INVALID", `${what}.`, {}, { cause });
}
