import type { ClientRequest, IncomingMessage } from "node:http";
import type { Deadlines } from "./deadlines.ts";

/** Limits of one exchange. */
interface AnswerLimits {
  /** Ms. */
  readonly timeout: number;
  readonly deadlines: Deadlines;
  /** The longest answer that is read, bytes. */
  readonly longest: number;
}

/** Sends a request and reads the whole answer. Rejects if the connection ends before that, or if the answer is late or too long. */
export function answerTo(
  request: ClientRequest,
  body: string | undefined,
  { timeout, deadlines, longest }: AnswerLimits,
): Promise<readonly [IncomingMessage, string]> {
  return new Promise((resolve, reject) => {
    const answered = deadlines.within(timeout, () => reject(new Error(`no answer within ${Math.ceil(timeout)} ms`)));
    const fail = (cause: Error): void => {
      answered();
      reject(cause);
    };
    request.on("error", fail);
    // Only this event reports a connection that ended without an error, such as one that switches protocols.
    request.once("close", () => fail(new Error("the connection ended before the answer did")));
    request.once("response", (response) => {
      const chunks: Buffer[] = [];
      let size = 0;
      response.on("data", (chunk: Buffer) => {
        size += chunk.length;
        if (size <= longest) return void chunks.push(chunk);
        fail(new Error(`its answer is longer than ${longest} bytes`));
      });
      response.once("end", () => {
        answered();
        resolve([response, Buffer.concat(chunks).toString("utf8")]);
      });
      response.once("error", fail);
    });
    request.end(body);
  });
}
