import { connect } from "node:net";
import { connect as connectTls } from "node:tls";

/** An answer from the wire. */
export interface RawAnswer {
  /** 0: the connection ended without an answer. */
  readonly status: number;
  /** By lower-case name. */
  readonly headers: ReadonlyMap<string, string>;
  readonly body: string;
  /** The whole answer. */
  readonly text: string;
}

/** The time for an answer to come, on a busy machine, ms. */
const patience = 15_000;

/**
 * Sends bytes that ask for one answer, and reads it; of events only the first ones. Rejects if the server neither answers nor hangs up.
 * @param secure over TLS, whatever the certificate. Default false.
 */
export function rawExchange(port: number, request: Uint8Array, secure: boolean = false): Promise<RawAnswer> {
  return new Promise((resolve, reject) => {
    const host = "127.0.0.1";
    const socket = secure ? connectTls({ port, host, rejectUnauthorized: false }) : connect({ port, host });
    let text = "";
    socket.setEncoding("utf8");
    socket.setTimeout(patience, () => {
      socket.destroy();
      reject(new Error(`It neither answered nor hung up: ${JSON.stringify(text.slice(0, 200))}`));
    });
    socket.on("data", (chunk) => {
      text += String(chunk);
      if (/\r\ncontent-type: text\/event-stream\r\n/i.test(text) && text.includes("\r\n\r\n")) socket.destroy();
    });
    // The server may hang up before it has read all: its answer counts.
    socket.on("error", () => undefined);
    socket.on("close", () => resolve(parsed(text)));
    socket.write(request);
  });
}

function parsed(text: string): RawAnswer {
  // The first answer to a request with `Expect: 100-continue`.
  const final = text.replace(/^(?:HTTP\/1\.1 100 Continue\r\n\r\n)+/, "");
  const end = final.indexOf("\r\n\r\n");
  const [first = "", ...lines] = final.slice(0, Math.max(0, end)).split("\r\n");
  const headers = new Map<string, string>();
  for (const line of lines) {
    const colon = line.indexOf(":");
    headers.set(line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim());
  }
  const status = Number(/^HTTP\/1\.1 (\d{3}) /.exec(first)?.[1] ?? 0);
  return { status, headers, body: end < 0 ? "" : final.slice(end + 4), text };
}
