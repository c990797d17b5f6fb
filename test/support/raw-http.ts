import { connect } from "node:net";
import { connect as connectTls } from "node:tls";

/** An answer as it came over the network. */
export interface RawAnswer {
  /** 0: the connection ended without an answer. */
  readonly status: number;
  /** The values by lower-case name. */
  readonly headers: ReadonlyMap<string, string>;
  readonly body: string;
  /** The whole text that came. */
  readonly text: string;
}

/** How long an answer may take on a busy machine, ms. It is less than a test may take, so that this error says what is missing. */
const patience = 240_000;

/**
 * Sends bytes that request one answer, and reads the answer. Of a stream of events, it reads the first ones only. Rejects if no answer
 * comes and the server does not close the connection.
 * @param secure over TLS, with any certificate. Default false.
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
    // The server may close the connection before it has read everything. Its answer still counts.
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
