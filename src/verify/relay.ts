import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";
import type { RegistryAddress } from "../registries/index.ts";
import { storeOf } from "../registries/index.ts";
import { encryptionOf } from "../registries/encryption.ts";

/**
 * What a relay does with the data that it gets. Open: it passes them on at once. Silent: it passes nothing on until it is open again.
 * Cut: it resets the connections.
 */
export type RelayState = "open" | "silent" | "cut";

/** A listener on this host that passes connections on to a server. */
export class Relay {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #state: RelayState = "open";
  /** How many clients have connected. */
  connections = 0;

  private constructor(server: Server) {
    this.#server = server;
  }

  static async to(target: { readonly host: string; readonly port: number }): Promise<Relay> {
    const server = createServer();
    const relay = new Relay(server);
    server.on("connection", (near) => relay.#pass(near, connect(target)));
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    return relay;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  set(state: RelayState): void {
    this.#state = state;
    for (const socket of this.#sockets) this.#apply(socket);
  }

  close(): void {
    this.set("cut");
    this.#server.close();
  }

  #pass(near: Socket, far: Socket): void {
    this.connections++;
    for (const [from, to] of [
      [near, far],
      [far, near],
    ] as const) {
      this.#sockets.add(from);
      from.on("data", (bytes) => to.write(bytes));
      from.on("end", () => to.end());
      from.on("error", () => to.destroy());
      from.on("close", () => {
        this.#sockets.delete(from);
        to.destroy();
      });
      this.#apply(from);
    }
  }

  #apply(socket: Socket): void {
    if (this.#state === "cut") socket.resetAndDestroy();
    else if (this.#state === "silent") socket.pause();
    else socket.resume();
  }
}

/** Why no network between a registry and a holder can be cut; undefined if one can be cut. */
export async function withoutRelay(address: RegistryAddress, operationTimeout: number): Promise<string | undefined> {
  if (!("servers" in address || "urls" in address)) {
    return address.kind === "kubernetes"
      ? "a kubeconfig or the pod names the API server, not the URL"
      : "no network lies between a process and this registry";
  }
  if ("urls" in address && address.urls.length > 1) return "the URL names several daemons";
  if ("servers" in address && address.servers.some(({ host }) => host.startsWith("/"))) {
    return "no network lies between a process and this registry";
  }
  const scheme = "scheme" in address ? address.scheme : address.kind;
  if (storeOf(address).schemes[scheme]?.announces)
    return "its servers name one another, so a process goes past a relay";
  const encryption = await encryptionOf(address, operationTimeout);
  const isEncrypted = encryption?.is === "encrypted" || encryption?.is === "unchecked" || hasTls(address);
  return isEncrypted ? "the connection is encrypted, and a relay does not have the server's name" : undefined;
}

/** `encryptionOf` does not look at encryption on the loopback interface. */
function hasTls(address: RegistryAddress): boolean {
  const settings = "settings" in address ? address.settings : {};
  return settings["tls"] === "true" || ("urls" in address && address.urls.some((url) => url.startsWith("https:")));
}

/** A registry URL that leads to each of its servers through a relay of its own. */
export async function relayed(
  url: string,
  address: RegistryAddress,
): Promise<{ readonly url: string; readonly relays: readonly Relay[] }> {
  const targets = targetsOf(address);
  const relays = await Promise.all(targets.map((target) => Relay.to(target)));
  const hosts = relays.map(({ port }) => `127.0.0.1:${port}`).join(",");
  return { url: url.replace(/^([^:]*:\/\/(?:[^@/]*@)?)[^@/?]*/, (_, before: string) => before + hosts), relays };
}

function targetsOf(address: RegistryAddress): readonly { readonly host: string; readonly port: number }[] {
  if ("servers" in address) return address.servers;
  const urls = "urls" in address ? address.urls.map((text) => new URL(text)) : [];
  return urls.map(({ hostname, port }) => ({ host: hostname.replace(/^\[|\]$/g, ""), port: Number(port || 80) }));
}
