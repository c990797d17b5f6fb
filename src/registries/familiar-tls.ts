import type { StoreParameters } from "./url-parameters.ts";

/*
 * Parameters about encryption that other programs write into a URL, translated into our parameters. A parameter is accepted if it means
 * exactly the same. All others are refused, and the error names ours: to ignore one would send a password without encryption, or to an
 * unchecked server.
 */

/** Our parameter for a foreign one, or a text that says what the URL needs instead. The text follows "Expected the registry URL". */
export type Translation = readonly [name: string, value: string] | string;

const on = /^(?:true|1|yes|on|verify-?full|verify-?identity)$/;
const off = /^(?:false|0|no|off|disabled?)$/;
/** Patterns for names of files, and our names for them. */
const fileNames: readonly (readonly [pattern: RegExp, name: string])[] = [
  [/^(?:sslrootcert|sslca|sslcacerts?|tlsca|tlscafile|cacert)$/, "tlsCa"],
  [/^(?:ssl|tls)(?:client)?cert(?:file)?$/, "tlsCert"],
  [/^(?:ssl|tls)(?:client)?key(?:file)?$/, "tlsKey"],
];
/** What each other mode lacks, for messages. */
const lacking: readonly (readonly [mode: RegExp, lacking: string])[] = [
  [/^(?:allow|prefer|preferred)$/, "goes on without encryption where the server has none"],
  [/^(?:require|required|no-verify|skip-verify|trust)$/, "does not check who the server is"],
  [/^verify-?ca$/, "does not check the server's name"],
];

/** What a store accepts: its parameters, and the scheme of the URL. */
export interface Taker {
  readonly own: StoreParameters;
  readonly scheme: string;
}

/** Translates a parameter about encryption. Undefined for any other parameter, and for one of the store's own. */
export function translated(name: string, value: string, taker: Taker): Translation | undefined {
  const plain = name.toLowerCase().replaceAll(/[_-]/g, "");
  const has = (parameter: string): boolean => Object.hasOwn(taker.own, parameter);
  if (has(name) || !/ssl|tls|cert|verify|channelbinding/.test(plain)) return undefined;
  // A store that has TLS has all of its files.
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
  // In MySQL's driver for Java, `useSSL=true` does not imply a check.
  if (hasTls && on.test(plain) && !/^use[_-]?ssl$/i.test(name)) return ["tls", "true"];
  if (hasTls && off.test(plain)) return ["tls", "false"];
  const [, lacks] = lacking.find(([pattern]) => pattern.test(plain)) ?? [];
  return `to have ${checked}, in place of \`${name}\`${lacks === undefined ? "" : ` (${plain} ${lacks})`}`;
}
