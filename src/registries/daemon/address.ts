import type { StoreKind } from "../store-kind.ts";
import { path, type PathParts, type UrlParts, urls } from "../url.ts";
import { clientTlsParameters } from "../client-tls.ts";

/** The token that a client shows to a daemon if the address has no login. It is not part of the URL, but of the configuration around it. */
interface ShownToken {
  readonly token?: string | undefined;
}

/** The longest path that fits `sun_path` on Linux with its closing 0, bytes. */
export const maxSocketPath: number = 107;

/** A daemon prunes its registry itself, and only administrators may ask it to prune. */
const daemon = {
  registryKind: "daemon",
  prunes: true,
  signsReceipts: true,
  lacks: { "plain-receipts": "a daemon signs its receipts: a check cannot invent one" },
} as const;

const list = "daemons of one registry";

export const http: StoreKind<"http", UrlParts & ShownToken> = {
  ...daemon,
  kind: "http",
  schemes: { http: { list }, https: { list, encrypted: true } },
  grammar: urls,
  parameters: clientTlsParameters("a daemon that asks for one"),
  open: async ({ urls, token, settings }, options) =>
    (await import("./registry.ts")).daemonRegistry(urls, { ...options, token, settings }),
};

export const unix: StoreKind<"unix", PathParts & ShownToken> = {
  ...daemon,
  kind: "unix",
  schemes: { unix: {} },
  grammar: path((name) =>
    new TextEncoder().encode(name).length > maxSocketPath
      ? `to have a socket path of at most ${maxSocketPath} bytes`
      : undefined,
  ),
  open: async ({ path, token }, options) =>
    (await import("./registry.ts")).daemonRegistry([`unix:${path}`], { ...options, token }),
};
