import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import type { Server as HttpServer } from "node:http";
import { createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathAddress } from "./registries/index.ts";
import { isSnowleaseError, SnowleaseError } from "./id/errors.ts";
import type { Lease } from "./lease/lease.ts";
import { lendingEnvironment, passedOn } from "./config/lent-lease.ts";
import { LeaseClient } from "./sharing/lease-client.ts";
import type { SharedUsageTracker } from "./sharing/usage-tracker.ts";
import type { SharedSnowflake } from "./sharing/shared-snowflake.ts";
import { leaseServer } from "./sharing/lease-server.ts";

/** A lease that is lent to child processes until this object is disposed of. */
export interface Lender extends AsyncDisposable {
  /**
   * The variables that a borrowing process needs in its environment: they name a Unix socket, in a folder that only this user can enter,
   * and the lease.
   */
  readonly env: Readonly<Record<string, string>>;
}

/**
 * Lets child processes make IDs on the lease of this generator together with this process, and never the same IDs. A process that was
 * started with `env` added to its environment borrows the lease with `snowlease()`.
 *
 * If this process borrows the lease itself, its children borrow from the same lender.
 *
 * Rejects with CONFIG_INVALID if there can be no socket. Dispose of the lender before you close the generator.
 */
export async function lendLease(ids: SharedSnowflake): Promise<Lender> {
  const { lease, blocks, origin } = ids;
  if (blocks instanceof LeaseClient) return lenderOf(lease);
  // Load the server before the first child asks: on a busy machine, loading takes as long as a child waits.
  await loadServer();
  return lendOverSocket(lease, blocks, origin);
}

/** The lender of a borrowed lease lends to this process and to its children. */
function lenderOf({ namespace }: Lease): Lender {
  const env = passedOn(process.env, namespace);
  if (env !== undefined) return { env, async [Symbol.asyncDispose]() {} };
  throw new SnowleaseError(
    "CONFIG_INVALID",
    `The lease of namespace \`${namespace}\` was borrowed from a lender that no variable of the environment names; give child processes the address from which it was borrowed, such as a daemon's with \`borrow=true\`.`,
  );
}

const loadServer = () => Promise.all([import("./http/app.ts"), import("./http/server/server.ts")]);

/**
 * Lends a lease over a Unix socket, as a daemon with one worker ID. The first connection loads the server.
 * @param origin `lentName` of the lease's registry, if it has one.
 */
export async function lendOverSocket(lease: Lease, usage: SharedUsageTracker, origin?: string): Promise<Lender> {
  const registry = leaseServer(lease, usage);
  const folder = await mkdtemp(join(tmpdir(), "snowlease-")).catch(cannotLend);
  const socket = join(folder, "lease.sock");
  const connections = new Set<Socket>();
  let http: Promise<HttpServer> | undefined;

  async function makeHttpServer(): Promise<HttpServer> {
    const [{ createApp }, { makeServer }] = await loadServer();
    return makeServer(createApp({ registry, takeBlocks: registry.takeBlocks, layout: lease.layout }));
  }

  async function serve(connection: Socket): Promise<void> {
    connections.add(connection);
    connection.once("close", () => connections.delete(connection));
    (await (http ??= makeHttpServer())).emit("connection", connection);
    connection.resume();
  }

  const server = createServer({ pauseOnConnect: true }, (connection) => {
    serve(connection).catch(() => connection.destroy());
  });
  try {
    // Refuse a long path here: Node would cut it, and listen elsewhere.
    pathAddress("unix", socket);
    server.listen(socket);
    await once(server, "listening");
  } catch (cause) {
    await rm(folder, { recursive: true, force: true });
    cannotLend(cause);
  }
  return {
    env: lendingEnvironment(socket, lease, origin),
    async [Symbol.asyncDispose]() {
      server.close();
      for (const connection of connections) connection.destroy();
      await registry.close();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

function cannotLend(cause: unknown): never {
  const why = isSnowleaseError(cause) ? "the path is too long" : (cause as NodeJS.ErrnoException).code;
  throw new SnowleaseError(
    "CONFIG_INVALID",
    `There can be no socket to lend the lease on in ${tmpdir()} (${why}); set TMPDIR to a folder with a short path that this user can write to.`,
    {},
    { cause },
  );
}
