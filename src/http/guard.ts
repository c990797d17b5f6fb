import { shown, SnowleaseError } from "../core/errors.ts";
import type { Asked } from "./exchange.ts";

const loopback = /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])(?::\d{1,5})?$/i;

/**
 * Refuses what a browser sends on behalf of a page of somebody else. A page whose name was made to resolve to this machine
 * still sends its own name as Host; a page of another origin cannot keep the browser from saying so.
 * @throws SnowleaseError FORBIDDEN
 */
export function guard(header: Asked["header"]): void {
  const host = header("host") ?? null;
  if (host !== null && !loopback.test(host)) {
    refuse(`Expected the Host header to be localhost or a loopback address, got ${shown(host)}`);
  }
  const origin = header("origin") ?? null;
  if (origin !== null && origin.toLowerCase() !== `http://${host}`.toLowerCase()) {
    refuse(`Expected no Origin but this daemon's own, got ${shown(origin)}`);
  }
  const site = header("sec-fetch-site") ?? null;
  if (site !== null && site !== "same-origin" && site !== "none") {
    refuse(`Expected no request of another site's page, got Sec-Fetch-Site ${shown(site)}`);
  }
}

function refuse(what: string): never {
  throw new SnowleaseError("FORBIDDEN", `${what}; open this daemon's own address.`);
}
