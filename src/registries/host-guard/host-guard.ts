import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { createServer, type Server } from "node:net";
import { type GuardName, guardNamesIn, guardText } from "./guard-name.ts";

/** Lists the abstract sockets of this network namespace, and so of all programs that have this host's addresses. */
const listing = "/proc/net/unix";

/**
 * A worker ID that is marked as taken for all users of this host. The mark is an abstract Unix socket. The kernel removes it when the
 * process ends, for any reason, and keeps it while the process is stopped.
 */
export class HostGuard {
  /** Marks a worker ID. Undefined if this system cannot (it is not Linux, or a sandbox): then others do not see this holder. */
  static async hold(name: GuardName): Promise<HostGuard | undefined> {
    if (process.platform !== "linux") return undefined;
    const server = createServer((connection) => connection.destroy());
    try {
      // Without `exclusive`, the parent of a cluster's worker would keep the socket, even after the end of the worker.
      server.listen({ path: `\0${guardText(name)}`, exclusive: true });
      server.unref();
      await once(server, "listening");
    } catch {
      return undefined;
    }
    return new HostGuard(name, server);
  }

  readonly #name: GuardName;
  readonly #server: Server;

  private constructor(name: GuardName, server: Server) {
    this.#name = name;
    this.#server = server;
    // A process that connects gets nothing. A connection that cannot be accepted must not end the program.
    server.on("error", () => undefined);
  }

  /**
   * A holder that has the same worker ID from another registry file. Undefined if there is none. If two holders mark and then look, at
   * least one sees the other.
   */
  other(): Promise<GuardName | undefined> {
    return holderElsewhere(this.#name);
  }

  /** Removes the mark at once. Repeatable. */
  free(): void {
    if (this.#server.listening) this.#server.close();
  }
}

/** A holder that has this worker ID from a registry file other than `file`. Undefined if this look sees none. */
export async function holderElsewhere({
  namespace,
  workerId,
  file,
}: Pick<GuardName, "namespace" | "workerId" | "file">): Promise<GuardName | undefined> {
  const seen = await marks(namespace, workerId);
  return seen.find((name) => name.file !== file);
}

async function marks(namespace: string, workerId: number): Promise<GuardName[]> {
  const names: GuardName[] = [];
  // The kernel returns a long list in parts. If a socket is closed between two parts, one look may miss a socket that comes after it.
  for (let look = 0; look < 2; look++) {
    // Names are bytes, not text. In latin1, every name is valid.
    const text = await readFile(listing, "latin1").catch(() => "");
    names.push(...guardNamesIn(text, namespace, workerId));
  }
  return names;
}
