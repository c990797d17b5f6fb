import { spawn } from "node:child_process";
import { basename, relative } from "node:path";
import type { Config } from "../../config/config.ts";
import { warnOfWindow } from "../../config/warnings.ts";
import { configInvalid } from "../../id/errors.ts";
import { shellWord } from "../../id/shell-word.ts";
import type { PoolBounds } from "../../id/pool-bounds.ts";
import type { Daemon } from "../../daemon.ts";
import type { TlsFiles } from "../../serving/certificates.ts";
import type { CliCommand } from "../command.ts";
import { addressOf, deferConfigured, registryConfig } from "../settings.ts";

export const daemon: CliCommand = {
  name: "daemon",
  summary:
    "Serve a registry over HTTP, on TCP and Unix sockets, and IDs in the Redis protocol. SIGTERM, SIGINT or SIGHUP drains the daemon. It then finishes the requests in flight, and ends.",
  details: [
    "Prints its addresses and commands to try. Then it logs lines of JSON to stderr. `--listen 0` takes a free port of 127.0.0.1.",
    "With `--tokens`, `--receipt-keys` or `--tls-cert`, SIGHUP makes the daemon read these files again instead.",
  ],
  examples: [
    "snowlease daemon",
    "snowlease daemon --listen 7071",
    "snowlease daemon --registry sqlite:/var/lib/snowlease/registry.db --socket /run/snowlease/daemon.sock --tokens /etc/snowlease/tokens",
  ],
  settings: "daemon",

  async run(invocation) {
    const { output, json } = invocation;
    const config = await registryConfig(invocation);
    warnOfWindow(config);
    const { limits, ...options } = config;
    const { host, instance, tokens } = options;
    const [{ startDaemon, closeOnSignals }, registry] = await Promise.all([
      import("../../daemon.ts"),
      deferConfigured(config),
    ]);
    const started = startDaemon({
      ...options,
      registry,
      pool: poolOf(config),
      tls: tlsOf(config),
      namespaceLimits: Object.keys(limits).length > 0 ? limits : undefined,
      holder: { host, ip: "127.0.0.1", pid: process.pid, instance: instance || "daemon" },
    });
    const running = await started.catch(async (error: unknown) => {
      await registry.close().catch(() => undefined);
      throw error;
    });
    const stopped = closeOnSignals(running);
    const address = addressOf(config).redacted;
    notifyReady();
    const { url, socket, resp } = running;
    if (json) await output.json({ url, socket, resp, registry: address, pid: process.pid });
    else await output.line(news(address, running, tokens !== undefined));
    await stopped;
  },
};

/**
 * Notifies systemd (`Type=notify`) that this process is ready, if systemd started it. It runs systemd-notify(1), since Node has no
 * datagrams on Unix sockets. The unit must allow that (`NotifyAccess=all`).
 */
function notifyReady(): void {
  if (process.env["NOTIFY_SOCKET"] === undefined) return;
  // Without the notification, systemd ends the service after a timeout, and reports that.
  spawn("systemd-notify", ["--ready"], { stdio: "ignore" }).on("error", () => undefined);
}

/** The configured pool; undefined if no option narrows the pool, since existing namespaces may have layouts with other worker IDs. */
function poolOf({ pool, layout, sources }: Config): PoolBounds | undefined {
  const isWhole = pool.first === layout.pool.first && pool.last === layout.pool.last;
  return isWhole && sources.pool === undefined ? undefined : pool;
}

function tlsOf({ tlsCert: cert, tlsKey: key, tlsClientCa: clientCa }: Config): TlsFiles | undefined {
  if (cert !== undefined && key !== undefined) return { cert, key, clientCa };
  if (cert === undefined && key === undefined && clientCa === undefined) return undefined;
  throw configInvalid("Expected both `tlsCert` and `tlsKey`, or no TLS option; name the missing one.");
}

function news(registry: string, { url, socket, resp }: Daemon, hasTokens: boolean): string {
  const places = [url ?? [], socket === undefined ? [] : `unix:${socket}`].flat();
  const [place = ""] = places;
  const login = hasTokens ? " -u :$SNOWLEASE_TOKEN" : "";
  const curl = `curl -s${login} ${url ?? `--unix-socket ${socket} http://localhost`}`;
  const self = ownName();
  return [
    `Snowlease serves ${registry} on ${places.join(" and ")}`,
    ...(resp === undefined ? [] : [`IDs in the Redis protocol: ${resp}`]),
    ...(url === undefined ? [] : [`Dashboard: ${url}/${hasTokens ? " (any user, a token as the password)" : ""}`]),
    "",
    hasTokens ? "Try, with a token of --tokens in SNOWLEASE_TOKEN:" : "Try:",
    `  ${curl}/readyz`,
    `  ${curl}/v1/default/ids -X POST`,
    `  ${curl}/v1/default/workers`,
    `  ${curl}/openapi.json`,
    `  ${self} id -n 3 --registry ${place}`,
    `  ${self} exec --registry ${place} -- sh -c 'echo I am worker $SNOWLEASE_WORKER_ID'`,
    `  ${self} workers --registry ${place}`,
    `  ${self} doctor --registry ${place}`,
    ...(resp === undefined ? [] : [`  ${redisCli(resp, hasTokens)} GET default`]),
  ].join("\n");
}

function redisCli(resp: string, hasTokens: boolean): string {
  // Every user of this machine can read a token among the arguments.
  const login = hasTokens ? "REDISCLI_AUTH=$SNOWLEASE_TOKEN " : "";
  if (!resp.includes("://")) return `${login}redis-cli -s ${shellWord(resp)}`;
  return `${login}redis-cli -u ${resp}`;
}

/** How to call this command line: by its name if it is installed, otherwise by its file. */
function ownName(): string {
  const [, script = "snowlease"] = process.argv;
  return basename(script) === "main.js" ? `node ${relative(process.cwd(), script)}` : "snowlease";
}
