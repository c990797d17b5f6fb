import { randomBytes } from "node:crypto";
import { once } from "node:events";
import type { Server } from "node:http";
import { hostname } from "node:os";
import { pino, destination } from "pino";
import { version } from "./assets.ts";
import type { OptionValues } from "./config/options.ts";
import { type Clock, systemClock } from "./clock.ts";
import { printableJson } from "./id/printable.ts";
import { defaultLayout } from "./id/layout.ts";
import { configInvalid, type ErrorCode, shown } from "./id/errors.ts";
import type { Lease } from "./lease/lease.ts";
import type { HolderLabel, Registry } from "./rule/registry.ts";
import type { NamespaceLimits } from "./rule/limits.ts";
import { defaultRollback } from "./generator/rollback.ts";
import { createApp } from "./http/app.ts";
import { claimRate } from "./serving/claim-rate.ts";
import { ClientQuota } from "./http/access/client-quota.ts";
import { type Certificates, readCertificates, type TlsFiles } from "./serving/certificates.ts";
import { Connections, usualConnections } from "./serving/connections.ts";
import { createDashboard } from "./http/dashboard/dashboard.ts";
import type { Log } from "./serving/log.ts";
import type { EventName } from "./http/monitoring/journal.ts";
import { observe } from "./http/monitoring/observe.ts";
import { drain, makeServer, renewCertificates } from "./http/server/server.ts";
import { RespServer } from "./resp/server.ts";
import { AnswerMemory } from "./serving/answer-memory.ts";
import type { ServerLimits } from "./serving/server-limits.ts";
import { listenOnSocket, listenOnTcp } from "./serving/listen.ts";
import { checkSocketFolder } from "./serving/socket-folder.ts";
import { tokenFile } from "./serving/tokens.ts";
import { allSteps, ownLeases } from "./ops/ids.ts";
import { lendingRegistry } from "./ops/lending.ts";
import { receiptKeyFile } from "./http/access/receipt-keys.ts";
import { isLoopback } from "./registries/loopback.ts";
import { recalling } from "./registries/recall.ts";
import { storeOfRegistry } from "./registries/index.ts";
import { scopeText } from "./rule/scope.ts";
import { checkLongest, type LazyRegistry } from "./registries/lazy.ts";

/** What a daemon serves, and where. Times in ms. options.ts has the meaning and the default of each option. */
export interface DaemonOptions extends Pick<OptionValues, DaemonOption> {
  /** Closed when the daemon has drained. A lazy registry is opened when the daemon listens. Requests wait for that. */
  readonly registry: Registry | LazyRegistry;
  /** Certificates for `listen`. Default: plain HTTP. */
  readonly tls?: TlsFiles | undefined;
  /** Limits of new namespaces. */
  readonly namespaceLimits?: Partial<NamespaceLimits> | undefined;
  /** How long the requests in flight may take while the daemon drains. Default 5 s. */
  readonly drainTimeout?: number | undefined;
  readonly limits?: Partial<ServerLimits> | undefined;
  /** Label of the daemon's own claims. */
  readonly holder?: HolderLabel | undefined;
  readonly clock?: Clock | undefined;
  /** Default: JSON lines on stderr. */
  readonly log?: Log | undefined;
}

/** The options of the table that a daemon takes as they are. */
type DaemonOption =
  | "allowHost"
  | "claimsPerSecond"
  | "clientQuota"
  | "insecure"
  | "lend"
  | "layout"
  | "listen"
  | "maxConnections"
  | "maxOwnLeases"
  | "operationTimeout"
  | "pool"
  | "receiptKeys"
  | "resp"
  | "respIntegers"
  | "socket"
  | "tokens"
  | "window";

/** A daemon that listens. */
export interface Daemon {
  /** `http://127.0.0.1:7070`; undefined when it listens on a socket only. */
  readonly url: string | undefined;
  readonly socket: string | undefined;
  /** `redis://127.0.0.1:7071`, or the path of a socket; undefined without the Redis protocol. */
  readonly resp: string | undefined;
  /**
   * `drain`: accepts no more connections, finishes the requests in flight, gives the daemon's own worker IDs back, closes the registry.
   * `now`: the same without waiting for clients; also ends a drain that is under way. Never rejects: errors are logged.
   */
  close(how?: "drain" | "now"): Promise<void>;
  /**
   * Reads the files of tokens, receipt keys and certificates again; undefined if there are none. Never throws: if a file cannot be used,
   * the error is logged, and the content that was read before stays.
   */
  readonly reload: (() => void) | undefined;
}

/** How often the daemon looks at the pools for the charts of the dashboard, ms. */
const sampleInterval = 60_000;

/**
 * Serves a registry over HTTP, and IDs in the Redis protocol.
 * @throws SnowleaseError CONFIG_INVALID on another runtime than Node, for a window that is too long, an address that is not loopback or is
 * taken, a socket path that is no socket or has a daemon behind it; and the errors with which a lazy registry refuses. After an error, the
 * registry stays open, or unopened.
 */
export async function startDaemon(options: DaemonOptions): Promise<Daemon> {
  checkRuntime();
  if (options.lend === true && options.registry.kind === "memory") {
    throw configInvalid(
      "Expected `lend` only with a registry that outlives the daemon, got `memory:`: borrowers make IDs without the daemon for a while, and the next one would grant the same times; name another registry, or leave `lend` out.",
    );
  }
  const address = checkedAddress(options);
  const parts = assemble(options, address);
  const { log, registry } = parts;
  const servers: Servers = { http: [], resp: undefined };
  try {
    const url = await listen(servers.http, parts, options, address);
    const resp = await listenInResp(servers, parts, options);
    if ("open" in registry) await registry.open();
    const { socket } = options;
    log.info({ event: "listening", url, socket, resp, registry: registry.kind }, "listening");
    void tellScope(parts);
    const sampling = setInterval(() => void parts.dashboard.sample(), sampleInterval).unref();
    const drain = closer(servers, parts, options.drainTimeout);
    const close: Daemon["close"] = (how) => {
      clearInterval(sampling);
      return drain(how);
    };
    return { url, socket, resp, close, reload: reloader(servers, parts, options) };
  } catch (error) {
    for (const server of servers.http) {
      server.close();
      server.closeAllConnections();
    }
    servers.resp?.destroy();
    throw error;
  }
}

/** The bounds on a client's cost depend on Node's HTTP server. The servers of Bun and Deno differ in what they read, hold and end. */
function checkRuntime(): void {
  const { bun, deno } = process.versions;
  if (bun === undefined && deno === undefined) return;
  const runtime = bun === undefined ? `Deno ${deno}` : `Bun ${bun}`;
  throw configInvalid(
    `Expected Node.js for a daemon, got ${runtime}; start the daemon with Node.js: programs on any runtime can use it.`,
  );
}

type Address = NonNullable<DaemonOptions["listen"]>;

/** The servers of a daemon. Each is added here before it listens. */
interface Servers {
  readonly http: Server[];
  resp: RespServer | undefined;
}

/** The address to listen on; undefined for a daemon on a socket only. */
function checkedAddress(options: DaemonOptions): Address | undefined {
  const { window, namespaceLimits, listen, socket, resp, tls } = options;
  // Without this check, each use of the window would shorten it silently.
  if (window !== undefined) checkLongest(window, namespaceLimits);
  const address = listen ?? (socket === undefined ? { host: "127.0.0.1", port: 7070 } : undefined);
  const respAddress = resp === undefined || "socket" in resp ? undefined : resp;
  checkReach("listen", address, options);
  checkReach("resp", respAddress, options);
  if (tls !== undefined && address === undefined && respAddress === undefined) {
    throw configInvalid("Expected `tlsCert` only with `listen`: a socket has no TLS; leave it out.");
  }
  return address;
}

function checkReach(option: string, address: Address | undefined, { tokens, tls, insecure }: DaemonOptions): void {
  if (isLocal(address) || insecure === true || (tokens !== undefined && tls !== undefined)) return;
  throw configInvalid(
    `Expected \`${option}\` to be on 127.0.0.1, ::1 or localhost, since any client that reaches the daemon may do everything, got ${shown(address?.host)}; give it \`tokens\` and \`tlsCert\`, or say \`insecure\`.`,
  );
}

function isLocal(address: Address | undefined): boolean {
  return address === undefined || isLoopback(address.host);
}

/** All parts of a daemon except its servers. */
function assemble(options: DaemonOptions, address: Address | undefined) {
  const { pool, layout = defaultLayout, window = 60_000, namespaceLimits: limits, operationTimeout = 5000 } = options;
  const { clock = systemClock, tls, clientQuota, claimsPerSecond = 100, maxConnections = usualConnections() } = options;
  const about = { clock, pool, version: version() };
  const observed = observe({ registry: recalling(options.registry), log: options.log ?? stderrLog(), ...about });
  const { registry, journal: log, streams, metrics, refusals, hour } = observed;
  const mostUnknown = options.tokens === undefined ? undefined : Math.ceil(maxConnections / 4);
  const connections = new Connections({ most: maxConnections, mostUnknown }, log);
  metrics.addProcess();
  metrics.addConnections(connections);
  const ids = ownLeases(
    { registry, clock, makeToken: () => randomBytes(16).toString("hex") },
    {
      layout,
      pool,
      window,
      limits,
      operationTimeout,
      most: options.maxOwnLeases,
      lends: options.lend,
      claimTimeout: 0,
      maxWait: defaultRollback.maxWait,
      reuse: "any",
      holder: options.holder ?? { host: hostname(), ip: "127.0.0.1", pid: process.pid, instance: "daemon" },
      onLease(lease) {
        logLease(lease, log);
        metrics.owns(lease);
      },
      onNotReleased: (err, namespace) => log.warn({ err, namespace }, "could not give an idle worker ID back"),
      onMade: (namespace, count) => metrics.made(namespace, count),
    },
  );
  const certificates = tls && readCertificates(tls, clock.now(), log);
  const tokens = options.tokens === undefined ? undefined : tokenFile(options.tokens, log);
  const receiptKeys = options.receiptKeys === undefined ? undefined : receiptKeyFile(options.receiptKeys, log);
  const dashboard = createDashboard({
    ...about,
    registry,
    journal: log,
    refusals,
    hour,
    namespaces: () => metrics.namespaces,
    tokens,
    onSignOut: () => streams.review(),
  });
  const memory = new AnswerMemory();
  const rate = claimsPerSecond === 0 ? undefined : claimRate(claimsPerSecond, clock);
  metrics.addBorrowers(() => ids.borrowers());
  const lending = lendingRegistry(registry, ids);
  const app = createApp({
    memory,
    registry: lending,
    takeBlocks: options.lend === true ? lending.takeBlocks : undefined,
    lends: lending.lends,
    dashboard,
    layout,
    pool,
    window,
    limits,
    ids,
    streams,
    metrics,
    tokens,
    receiptKeys,
    onKnown: (socket) => connections.know(socket),
    claimRate: rate,
    quota: clientQuota === undefined ? undefined : new ClientQuota(clientQuota, clock),
    hosts: {
      kind: isLocal(address) ? "loopback" : tokens === undefined ? "private" : "any",
      names: options.allowHost ?? [],
    },
    clock,
    log,
  });
  const respContext = {
    ids,
    tokens,
    claimRate: rate,
    memory,
    integers: options.respIntegers === true,
    version: about.version,
    connections,
    log,
    onFailed: (code: ErrorCode, count: number) => metrics.failed(code, count),
  };
  return { registry, log, streams, connections, ids, certificates, tokens, receiptKeys, dashboard, app, respContext };
}

type Parts = ReturnType<typeof assemble>;

/**
 * Listens on the address and the socket.
 * @param servers gets each server before it listens.
 * @returns the URL of the address.
 */
async function listen(
  servers: Server[],
  { app, connections, certificates, log }: Parts,
  { limits, socket, insecure }: DaemonOptions,
  address: Address | undefined,
): Promise<string | undefined> {
  const serve = async <Where>(start: (server: Server) => Promise<Where>, tls?: Certificates): Promise<Where> => {
    const server = makeServer(app, { connections, limits, certificates: tls });
    servers.push(server);
    const where = await start(server);
    // One connection that cannot be accepted (no file descriptor is left) must not end all the others.
    server.on("error", (err) => log.error({ err }, err.message));
    return where;
  };
  const url = address && (await serve((server) => listenOnTcp(server, address, "http"), certificates));
  if (socket !== undefined) {
    const checkFolder = insecure === true ? undefined : () => checkSocketFolder(socket, log);
    await serve((server) => listenOnSocket(server, socket, "socket", checkFolder));
  }
  return url;
}

/** Listens for the Redis protocol; returns the place. */
async function listenInResp(
  servers: Servers,
  { respContext, certificates, log }: Parts,
  { resp, limits, insecure }: DaemonOptions,
): Promise<string | undefined> {
  if (resp === undefined) return undefined;
  const isSocket = "socket" in resp;
  servers.resp = new RespServer({ ...respContext, limits, certificates: isSocket ? undefined : certificates });
  const { server } = servers.resp;
  let place: string;
  if (isSocket) {
    place = resp.socket;
    const checkFolder = insecure === true ? undefined : () => checkSocketFolder(place, log);
    await listenOnSocket(server, place, "resp", checkFolder);
  } else place = await listenOnTcp(server, resp, "redis");
  server.on("error", (err) => log.error({ err }, err.message));
  return place;
}

/**
 * Logs which programs share the worker IDs, as soon as the registry answers. A file belongs to one host: if each of several hosts has a
 * daemon with its own file, all of them grant the same worker IDs.
 */
async function tellScope({ registry, log }: Parts): Promise<void> {
  const scope = await registry.scope?.("default").catch(() => undefined);
  if (scope === undefined) return;
  const advice = storeOfRegistry(registry.kind)?.usesHostClock
    ? " A daemon on another host needs a `pool` of its own, which no other daemon has, or a registry that all daemons reach."
    : "";
  log.info({ event: "scope", scope }, `${scopeText(`all who use this daemon, and ${scope}`)}${advice}`);
}

function closer(
  servers: Servers,
  { registry, log, streams, ids }: Parts,
  drainTimeout: number = 5000,
): Daemon["close"] {
  const hurry = new AbortController();
  const hurried = once(hurry.signal, "abort");
  async function attempt(what: string, step: () => Promise<void>): Promise<void> {
    try {
      await step();
    } catch (err) {
      log.warn({ err }, `could not ${what}`);
    }
  }
  let closing: Promise<void> | undefined;

  async function close(): Promise<void> {
    log.info({ event: "draining" }, "draining");
    // Streams would never end by themselves.
    streams.close();
    const released = ids.releaseIdle();
    // A failure counts later, when the requests in flight are done.
    released.catch(() => undefined);
    await Promise.all([
      ...servers.http.map((server) => drain(server, drainTimeout, hurry.signal)),
      servers.resp?.drain(drainTimeout, hurry.signal),
    ]);
    const givenBack = allSteps([released, ids.close()]);
    await Promise.race([attempt("give every worker ID back", () => givenBack), hurried]);
    await attempt("close the registry", () => registry.close());
    log.info({ event: "stopped" }, "stopped");
  }

  return (how = "drain") => {
    if (how === "now") hurry.abort();
    closing ??= close();
    return closing;
  };
}

function reloader(
  servers: Servers,
  { log, streams, tokens, receiptKeys }: Parts,
  { tls, clock = systemClock }: DaemonOptions,
): Daemon["reload"] {
  if (tokens === undefined && receiptKeys === undefined && tls === undefined) return undefined;

  function again(what: string, read: () => void): void {
    try {
      read();
      log.info({ event: "reloaded", what }, `the ${what} were read again`);
    } catch (err) {
      log.error({ event: "not-reloaded", what, err }, `kept the ${what} that were: ${(err as Error).message}`);
    }
  }

  return () => {
    if (tokens !== undefined) {
      again("tokens", tokens.reload);
      streams.review();
      servers.resp?.review();
    }
    if (receiptKeys !== undefined) again("receipt keys", receiptKeys.reload);
    if (tls === undefined) return;
    again("certificates", () => {
      const renewed = readCertificates(tls, clock.now(), log);
      for (const server of servers.http) renewCertificates(server, renewed);
      servers.resp?.renewCertificates(renewed);
    });
  };
}

/**
 * Drains at the first SIGTERM, SIGINT or SIGHUP, and stops at once at the second. (A second SIGHUP does not count: when a terminal closes,
 * shell and kernel both send one.) If the daemon has files to read again, it only reads them at a SIGHUP. Resolves when the daemon has
 * stopped.
 */
export function closeOnSignals(daemon: Daemon): Promise<void> {
  return new Promise((resolve) => {
    let how: "drain" | "now" = "drain";
    const signals = ["SIGTERM", "SIGINT", "SIGHUP"] as const;
    const stop = (signal: NodeJS.Signals): void => {
      if (signal === "SIGHUP" && daemon.reload !== undefined) return daemon.reload();
      const closed = daemon.close(signal === "SIGHUP" ? "drain" : how);
      how = "now";
      void closed.then(() => {
        for (const signal of signals) process.off(signal, stop);
        resolve();
      });
    };
    for (const signal of signals) process.on(signal, stop);
  });
}

/** JSON lines on stderr, written at once, so that the last lines of a killed daemon are not lost. */
function stderrLog(): Log {
  const stderr = destination({ fd: 2, sync: true });
  // A closed terminal reads nothing any more. The daemon has to finish its work nevertheless.
  stderr.on("error", () => undefined);
  const write = (line: string): void => void stderr.write(printableJson(line));
  return pino({ base: null, formatters: { level: (level) => ({ level }) } }, { write });
}

/** Writes the life of one of the daemon's own leases to the log. */
function logLease(lease: Lease, log: Log): void {
  const note = (level: keyof Log, event: EventName, facts: object, message: string): void =>
    log[level]({ event, own: true, ...facts }, message);
  lease.on("acquired", (facts) => note("info", "claimed", facts, "claimed"));
  lease.on("released", (facts) => note("info", "released", facts, "released"));
  lease.on("switched", (facts) => note("warn", "switched", facts, "another worker ID took its place"));
  lease.on("lost", ({ error, ...facts }) => note("error", "lost", facts, error.message));
  lease.on("renew-failed", ({ error, ...facts }) => {
    note("warn", "renew-failed", { ...facts, code: error.code }, error.message);
  });
  const facts = (): object => ({ namespace: lease.namespace, workerId: lease.workerId, fence: lease.fence });
  lease.on("clock.rollback", (event) =>
    note("warn", "clock.rollback", { ...facts(), ...event }, "the clock went back"),
  );
  lease.on("clock.jump", (event) => note("warn", "clock.jump", { ...facts(), ...event }, "the clock was stepped"));
}
