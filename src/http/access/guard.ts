import { isIP } from "node:net";
import { shown, SnowleaseError } from "../../id/errors.ts";
import type { ApiRequest } from "../request.ts";

/** The names that clients may use for a daemon. */
export interface AllowedHosts {
  /**
   * `loopback`: this machine's own names. `private`: also addresses, and names without a dot, which cannot be registered. `any`: every
   * name. It is for a daemon with tokens, because a browser sends a token only to the name for which it has it.
   */
  readonly kind: "loopback" | "private" | "any";
  /** More names, in lower case. */
  readonly names: readonly string[];
}

/** Only this machine's own names. */
export const ownHosts: AllowedHosts = { kind: "loopback", names: [] };

const loopback = /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])(?::\d{1,5})?$/i;

/**
 * Refuses requests that a browser sends for another site's page. An attacker can make a name resolve to this machine, but the browser
 * still sends that name as Host. A page of another origin cannot prevent that the browser reports its origin.
 * @param isPage whether the request is for a page for people. @throws SnowleaseError FORBIDDEN
 */
export function guard({ headers, url, method }: ApiRequest, hosts: AllowedHosts, isPage = false): void {
  const host = headers.get("host");
  if (host !== null && !isAllowed(host, hosts)) {
    const rule = hosts.kind === "loopback" ? "localhost or a loopback address" : "an address, or a name without a dot";
    refuse(
      `Expected the Host header to be ${rule}, got ${shown(host)}`,
      "call the daemon by such a name; if this is a name of its own, start it with `--allow-host NAME`",
    );
  }
  const origin = headers.get("origin");
  if (origin !== null && origin.toLowerCase() !== `${url.slice(0, url.indexOf(":"))}://${host}`.toLowerCase()) {
    refuse(`Expected no Origin but this daemon's own, got ${shown(origin)}`);
  }
  // A link opens the page for the user, and the site with the link cannot read it.
  const isLink =
    method === "GET" && headers.get("sec-fetch-mode") === "navigate" && headers.get("sec-fetch-dest") === "document";
  if (isPage && isLink) return;
  const site = headers.get("sec-fetch-site");
  if (site !== null && site !== "same-origin" && site !== "none") {
    refuse(`Expected no request of another site's page, got Sec-Fetch-Site ${shown(site)}`);
  }
}

function isAllowed(host: string, { kind, names }: AllowedHosts): boolean {
  if (kind === "any" || loopback.test(host)) return true;
  const name = host.replace(/:\d{1,5}$/, "").replace(/^\[|\]$/g, "");
  return names.includes(name.toLowerCase()) || (kind === "private" && (isIP(name) !== 0 || /^[a-z0-9-]+$/i.test(name)));
}

function refuse(what: string, advice = "open this daemon's own address"): never {
  throw new SnowleaseError("FORBIDDEN", `${what}; ${advice}.`);
}
