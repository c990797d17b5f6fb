import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";

/** The files of an authority that no machine knows, and of a certificate that it issued. */
export interface Certificates {
  /** The authority's own certificate. */
  readonly authority: string;
  readonly certificate: string;
  readonly key: string;
}

/** Makes, in a folder, an authority and its certificate for this machine's address. `environment`: for openssl, such as its clock. */
export function makeCertificates(folder: string, environment: Readonly<Record<string, string>> = {}): Certificates {
  const openssl = (...args: string[]): void => {
    execFileSync("openssl", args, { cwd: folder, stdio: "pipe", env: { ...process.env, ...environment } });
  };
  const newKey = ["-newkey", "rsa:2048", "-nodes", "-days", "2"];
  writeFileSync(join(folder, "names"), "subjectAltName=IP:127.0.0.1,DNS:localhost\n");
  openssl("req", "-x509", ...newKey, "-subj", "/CN=tests", "-keyout", "ca-key.pem", "-out", "ca-cert.pem");
  openssl("req", ...newKey, "-subj", "/CN=redis", "-keyout", "key.pem", "-out", "request.pem");
  const signed = ["-CA", "ca-cert.pem", "-CAkey", "ca-key.pem", "-CAcreateserial", "-days", "2", "-extfile", "names"];
  openssl("x509", "-req", "-in", "request.pem", ...signed, "-out", "cert.pem");
  const file = (name: string): string => join(folder, name);
  return { authority: file("ca-cert.pem"), certificate: file("cert.pem"), key: file("key.pem") };
}

/** The settings with which a redis-server or a sentinel uses these certificates. Clients need no certificate of their own. */
export function tlsSettings({ authority, certificate, key }: Certificates, port: number): [string, string][] {
  return [
    ["tls-port", String(port)],
    ["tls-auth-clients", "no"],
    ["tls-replication", "yes"],
    ["tls-cert-file", certificate],
    ["tls-key-file", key],
    ["tls-ca-cert-file", authority],
  ];
}

/** The same settings on a command line. */
export function tlsOptions(certificates: Certificates, port: number): string[] {
  return tlsSettings(certificates, port).flatMap(([name, value]) => [`--${name}`, value]);
}
