import { shown, SnowleaseError } from "../core/errors.ts";

const loopback = /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])(?::\d{1,5})?$/i;

/**
 * Refuses what a browser sends on behalf of a page of somebody else. A page whose name was made to resolve to this machine
 * still sends its own name as Host; a page of another origin cannot keep the browser from saying so.
 * @throws SnowleaseError FORBIDDEN
 */
export function guard(headers: Pick<Headers, "get">): void {
  const host = headers.get("host");
  if (host !== null && !loopback.test(host)) {
    refuse(`Expected the Host header to be localhost or a loopback address, got ${shown(host)}`);
  }
  const origin = headers.get("origin");
  if (origin !== null && origin.toLowerCase() !== `http://${host}`.toLowerCase()) {
    refuse(`Expected no Origin but this daemon's own, got ${shown(origin)}`);
  }
  const site = headers.get("sec-fetch-site");
  if (site !== null && site !== "same-origin" && site !== "none") {
    refuse(`Expected no request of another site's page, got Sec-Fetch-Site ${shown(site)}`);
  }
}

function refuse(what: string): never {
  throw new SnowleaseError("FORBIDDEN", `${what}; open this daemon's own address.`);
}
