import { connect, createServer, type Server, type Socket } from "node:net";
import { once } from "node:events";
import type { RegistryAddress } from "../registries/index.ts";
import type { ServerParts, UrlParts } from "../registries/url.ts";

/** A way to a server through this process, which cuts it. */
export interface CuttableWay {
  /** The registry's URL with this way in the place of the server. */
  readonly url: string;
  /** Ends each connection, and lets none in, until `heal`. */
  cut(): void;
  heal(): void;
  close(): Promise<void>;
}

/** Where one server answers without TLS; else why connections to it are not cut. */
export function cutTarget(address: RegistryAddress): { readonly host: string; readonly port: number } | string {
  const { kind, text, settings = {} } = address as RegistryAddress & { settings?: Record<string, string> };
  if (/^(?:rediss|https|etcds)/i.test(text) || Object.keys(settings).some((name) => /^tls/i.test(name))) {
    return "the server's certificate is not for an address of this machine";
  }
  if ("servers" in address) {
    const { servers, scheme } = address as unknown as ServerParts;
    const [first] = servers;
    if (servers.length !== 1 || first === undefined || /sentinel|cluster/.test(scheme)) {
      return "there are several servers, and each names the others";
    }
    return first.port === 0 ? "the server is a socket in the file system" : first;
  }
  if ("urls" in address) {
    const [first = "", ...others] = (address as unknown as UrlParts).urls;
    if (others.length > 0) return "there are several daemons";
    const { hostname, port } = new URL(first);
    return { host: hostname.replace(/^\[(.*)\]$/, "$1"), port: port === "" ? 80 : Number(port) };
  }
  return `a registry of the kind ${kind} has no connection that this command could cut`;
}

/** Opens such a way. `url`: the registry's, as it was given. */
export async function openWay(
  url: string,
  target: { readonly host: string; readonly port: number },
): Promise<CuttableWay> {
  const sockets = new Set<Socket>();
  let isCut = false;
  const server: Server = createServer((near) => {
    if (isCut) return void near.destroy();
    const far = connect(target);
    for (const [one, other] of [
      [near, far],
      [far, near],
    ] as const) {
      sockets.add(one);
      one.on("error", () => undefined);
      one.on("close", () => {
        sockets.delete(one);
        other.destroy();
      });
      one.pipe(other);
    }
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as { readonly port: number };
  const destroyAll = (): void => {
    for (const socket of sockets) socket.destroy();
  };
  return {
    url: url.replace(/^([a-z+]+:\/\/(?:[^@/]*@)?)[^/?,]+/i, `$1127.0.0.1:${port}`),
    cut() {
      isCut = true;
      destroyAll();
    },
    heal() {
      isCut = false;
    },
    async close() {
      server.close();
      destroyAll();
      await once(server, "close").catch(() => undefined);
    },
  };
}
