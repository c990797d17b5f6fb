import { connect, type Socket } from "node:net";
import { connect as connectSecure } from "node:tls";

/** What a port was found to speak. */
export interface PortSpeech {
  /** Undefined: not known. */
  readonly tls?: boolean | undefined;
  readonly protocol?: "http" | "redis" | undefined;
}

const wrongVersion = /wrong version number|packet length too long/i;

/** What the answer to a request in another protocol shows, by the error of whatever read it. */
export function speechIn(cause: unknown): PortSpeech {
  if (!(cause instanceof Error)) return {};
  // OpenSSL: the first bytes are no record of TLS.
  if (wrongVersion.test(cause.message)) return { tls: false };
  const { rawPacket } = cause as { readonly rawPacket?: unknown };
  if (rawPacket instanceof Uint8Array) return speechOf(rawPacket);
  // ioredis 6 and 5: the first byte of an answer that is not in its protocol.
  const [, byte, letter = ""] = /Unknown RESP type (\d+)|got "(.)" as reply type byte/.exec(cause.message) ?? [];
  const first = byte === undefined ? letter.charCodeAt(0) : Number(byte);
  if (first === "H".charCodeAt(0)) return { tls: false, protocol: "http" };
  return first === tlsAlert[0] ? { tls: true } : {};
}

/** The first bytes of an alert, which a server of TLS answers to anything else. */
const tlsAlert = [0x15, 0x03] as const;

function speechOf(answer: Uint8Array): PortSpeech {
  if (answer[0] === tlsAlert[0] && answer[1] === tlsAlert[1]) return { tls: true };
  const protocol = protocolOf(Buffer.from(answer).toString("latin1"));
  return protocol === undefined ? {} : { tls: false, protocol };
}

function protocolOf(answer: string): PortSpeech["protocol"] {
  if (/^HTTP\/\d/.test(answer)) return "http";
  return /^(?:\+PONG|-[A-Z]+ )/.test(answer) ? "redis" : undefined;
}

/** Asks a port what it speaks, in TLS and without: for after a failure that does not show it, since many servers just hang up. */
export async function askPort(host: string, port: number, timeout: number): Promise<PortSpeech> {
  const [secure, plain] = await Promise.all([askOnce(host, port, true, timeout), askOnce(host, port, false, timeout)]);
  if (secure.tls === true) return secure;
  return plain.tls === undefined ? secure : plain;
}

function askOnce(host: string, port: number, tls: boolean, timeout: number): Promise<PortSpeech> {
  return new Promise((resolve) => {
    let speech: PortSpeech = {};
    // The certificate is not trusted, only looked for: nothing secret is sent.
    const socket: Socket = tls ? connectSecure({ host, port, rejectUnauthorized: false }) : connect({ host, port });
    const end = (found: PortSpeech): void => {
      clearTimeout(timer);
      socket.destroy();
      resolve(found);
    };
    const timer = setTimeout(() => end(speech), timeout);
    socket.once(tls ? "secureConnect" : "connect", () => {
      if (tls) speech = { tls: true };
      // A server of either protocol answers to it: Redis with PONG or an error, HTTP with status 400.
      socket.write("PING\r\n\r\n");
    });
    socket.once("data", (answer: Buffer) => end(tls ? { ...speechOf(answer), tls } : speechOf(answer)));
    // A server of TLS may send an alert behind what it said already.
    socket.on("error", (error) => end(speech.tls === undefined ? speechIn(error) : speech));
    socket.once("close", () => end(speech));
  });
}

const secureSchemes: Readonly<Record<string, string>> = { http: "https", redis: "rediss", etcd: "etcds" };
const servers = { http: "an HTTP server", redis: "a Redis" } as const;

/** What to write in place of a scheme, as a part of a sentence; undefined where nothing shows that it is the wrong one. */
export function adviceOnScheme({ tls, protocol }: PortSpeech, scheme: string): string | undefined {
  const [plain, isSecure] = plainOf(scheme);
  const spoken = plain === "etcd" ? "http" : plain;
  if (protocol !== undefined && protocol !== spoken) {
    const wanted = (tls ?? isSecure) ? secureSchemes[protocol] : protocol;
    return `${servers[protocol]} answers there: write \`${wanted}:\` in place of \`${scheme}:\`, or another port`;
  }
  if (tls === undefined || tls === isSecure || secureSchemes[plain] === undefined || scheme.includes("+"))
    return undefined;
  if (tls) return `it speaks TLS: write \`${secureSchemes[plain]}:\` in place of \`${scheme}:\``;
  const unsafe = "which lets the network read passwords and tokens";
  return `it speaks no TLS: write the port that does, or \`${plain}:\` in place of \`${scheme}:\`, ${unsafe}`;
}

function plainOf(scheme: string): readonly [plain: string, isSecure: boolean] {
  const found = Object.entries(secureSchemes).find(([, secure]) => secure === scheme);
  // Such as redis+cluster.
  return found === undefined ? [scheme.replace(/\+.*$/, ""), false] : [found[0], true];
}

/** The message of an error for people: OpenSSL's without its codes and places. */
export function reasonIn(message: string): string {
  const [, reason] = /:error:[0-9A-F]+:SSL routines:[^:]*:([^:]+):/.exec(message) ?? [];
  return (reason ?? message).replace(" Please report this.", "");
}
