import type { StoreParameters } from "./url-parameters.ts";

/*
 * What other programs write into a URL about encryption, in the terms of ours. It is taken where it means the very same. All else is
 * refused, with ours by name: whoever left it out would send a password in the clear, or to anybody.
 */

/** Parameters of ours in the place of one, or what the URL has to do instead: goes on after "Expected the registry URL". */
export type Translation = readonly [name: string, value: string] | string;

const on = /^(?:true|1|yes|on|verify-?full|verify-?identity)$/;
const off = /^(?:false|0|no|off|disabled?)$/;
/** Files, and our names for them. */
const fileNames: readonly (readonly [pattern: RegExp, name: string])[] = [
  [/^(?:sslrootcert|sslca|sslcacerts?|tlsca|tlscafile|cacert)$/, "tlsCa"],
  [/^(?:ssl|tls)(?:client)?cert(?:file)?$/, "tlsCert"],
  [/^(?:ssl|tls)(?:client)?key(?:file)?$/, "tlsKey"],
];
/** What each other mode does not do. */
const lacking: readonly (readonly [mode: RegExp, lacking: string])[] = [
  [/^(?:allow|prefer|preferred)$/, "goes on without encryption where the server has none"],
  [/^(?:require|required|no-verify|skip-verify|trust)$/, "does not check who the server is"],
  [/^verify-?ca$/, "does not check the server's name"],
];

/** What a store takes: its parameters, and the scheme of the URL. */
export interface Taker {
  readonly own: StoreParameters;
  readonly scheme: string;
}

/** Translates a parameter about encryption; undefined for any other one, and for one of the store's own. */
export function translated(name: string, value: string, taker: Taker): Translation | undefined {
  const plain = name.toLowerCase().replaceAll(/[_-]/g, "");
  const has = (parameter: string): boolean => Object.hasOwn(taker.own, parameter);
  if (has(name) || !/ssl|tls|cert|verify|channelbinding/.test(plain)) return undefined;
  // Whoever has TLS has all of its files.
  if (!has("tlsCa")) return undefined;
  const encrypted = has("tls") ? "`tls=true`" : `${taker.scheme.replace(/s$/, "")}s:`;
  const checked = `${encrypted}, which checks the server's certificate and name`;
  if (/^(?:ssl|usessl|sslmode|tls|usetls)$/.test(plain)) return mode(name, value, has("tls"), checked);
  const file = fileNames.find(([pattern]) => pattern.test(plain))?.[1];
  if (file === undefined) return `to have ${checked}, in place of \`${name}\``;
  return [file, value];
}

/** Whether to encrypt, and what to check. */
function mode(name: string, value: string, hasTls: boolean, checked: string): Translation {
  const plain = value.toLowerCase().replaceAll("_", "-");
  // To MySQL's driver for Java, `useSSL=true` says nothing of a check.
  if (hasTls && on.test(plain) && !/^use[_-]?ssl$/i.test(name)) return ["tls", "true"];
  if (hasTls && off.test(plain)) return ["tls", "false"];
  const [, lacks] = lacking.find(([pattern]) => pattern.test(plain)) ?? [];
  return `to have ${checked}, in place of \`${name}\`${lacks === undefined ? "" : ` (${plain} ${lacks})`}`;
}
