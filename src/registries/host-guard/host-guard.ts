import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { createServer, type Server } from "node:net";
import { type GuardName, guardNamesIn, guardText } from "./guard-name.ts";

/** The abstract sockets of this network namespace, and so of all programs that have this host's addresses. */
const listing = "/proc/net/unix";

/**
 * A worker ID that is marked as taken for all users of this host. The mark is an abstract Unix socket: the kernel takes it away when the
 * process ends, however that ends, and keeps it while the process is stopped.
 */
export class HostGuard {
  /** Marks a worker ID. Undefined where this system cannot (it is not Linux, or a sandbox): others do not see this holder then. */
  static async hold(name: GuardName): Promise<HostGuard | undefined> {
    if (process.platform !== "linux") return undefined;
    const server = createServer((connection) => connection.destroy());
    try {
      // Without `exclusive`, the parent of a cluster's worker would keep the socket, also after the worker's end.
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
    // Whoever connects gets nothing; a failure to take a connection must not end the program.
    server.on("error", () => undefined);
  }

  /**
   * A holder of the same worker ID that has it from another registry file; undefined where there is none. Of two that mark and then look,
   * at least one sees the other.
   */
  other(): Promise<GuardName | undefined> {
    return holderElsewhere(this.#name);
  }

  /** Takes the mark away, at once. Repeatable. */
  free(): void {
    if (this.#server.listening) this.#server.close();
  }
}

/** A holder of this worker ID that has it from another registry file than `file`; undefined where none is seen. */
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
  // The kernel gives a long list in parts: a socket that is closed between two of them can hide one behind it from one look.
  for (let look = 0; look < 2; look++) {
    // Names are bytes, not text: in latin1 none is malformed.
    const text = await readFile(listing, "latin1").catch(() => "");
    names.push(...guardNamesIn(text, namespace, workerId));
  }
  return names;
}
