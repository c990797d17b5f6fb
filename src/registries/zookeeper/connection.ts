import type { Socket } from "node:net";
import type { ServerAddress } from "../../core/address.ts";
import { type Clock, monotonic, systemClock } from "../../core/clock.ts";
import { SnowleaseError } from "../../core/errors.ts";
import { codes, ConnectionLost, replyError, ReplyError, silentError } from "./errors.ts";

/*
 * node-zookeeper-client 1.1.3, and everything it does wrong. No other file knows it. What is contained here:
 *
 * - It says nothing when it is refused, waits for ever on a server that keeps silent, and throws where nobody can catch it when
 *   one answers with nonsense or with an error code that it does not know. So its reader runs inside ours, each connection and each
 *   exchange has a deadline, and a session timeout without a sound ends a connection.
 * - It keeps calls while it is cut off and runs them later. So a client of the driver lives for one connection, and is never
 *   allowed to connect again; the next one takes over the session.
 * - In a transaction it takes the expected version 0 for "any version". So the version is put in behind its back.
 * - Its timers and sockets keep a program alive. So they do only while somebody waits for an answer.
 */

/** A write of a transaction. Nothing is ever written without saying what is expected to be there. */
export type Write =
  | {
      readonly op: "create";
      readonly path: string;
      readonly data?: Uint8Array;
      /** It goes with the session, and the server adds a sequence to its name. */
      readonly live?: true;
      /** Where it exists, somebody else was faster. Elsewhere that only means that it is there already. */
      readonly contested?: true;
    }
  | { readonly op: "set"; readonly path: string; readonly data: Uint8Array; readonly version: number }
  | { readonly op: "remove"; readonly path: string; readonly version?: number };

/** What a node holds. */
export interface Node {
  readonly data: Uint8Array;
  readonly version: number;
}

/** Calls over one connection. They are sent at once and done in order: a read sees what the writes before it have written. */
export interface Session {
  /** Another number for another session: the nodes that went with the one before are gone. */
  readonly id: number;
  get(path: string): Promise<Node | undefined>;
  /** Names of the children; undefined where there is no such node. */
  list(path: string): Promise<readonly string[] | undefined>;
  /** How many children a node has; undefined where there is no such node. */
  count(path: string): Promise<number | undefined>;
  /** Writes nothing into a node: the leader's clock when it did, Unix ms; undefined where there is no such node. */
  touch(path: string): Promise<number | undefined>;
  /** `orphan`: the node above is missing. */
  create(path: string, data?: Uint8Array): Promise<"made" | "exists" | "orphan">;
  /** False where another version stands there, or none. */
  set(path: string, data: Uint8Array, version: number): Promise<boolean>;
  /** False where there is no such node, or nodes are below it. */
  remove(path: string): Promise<boolean>;
  /** All of it or nothing: undefined when it was done, else which write did not find what it expected, and the server's code. */
  commit(writes: readonly Write[]): Promise<{ readonly failed: number; readonly code: number } | undefined>;
}

/** An ensemble. It is connected to when there is something to ask, and then kept to as long as the session can live. */
export interface Connection {
  /** For messages: no password. */
  readonly where: string;
  /** When an operation that begins now has to be over: on the monotonic clock, ms. */
  deadline(): number;
  /**
   * Makes calls over one connection, all of them before anything is awaited.
   * @throws ConnectionLost when the connection ended first, SnowleaseError when nobody answered in time.
   */
  exchange<Answer>(deadline: number, calls: (session: Session) => Promise<Answer>): Promise<Answer>;
  /** Waits for a connection; whether it had to. @throws SnowleaseError */
  ready(deadline: number): Promise<boolean>;
  close(): Promise<void>;
}

interface Stat {
  readonly version: number;
  readonly numChildren: number;
  /** 64 bits, big-endian. */
  readonly mtime: Buffer;
}

type Callback<Value extends readonly unknown[]> = (
  error: { code: number; message: string } | null,
  ...value: Value
) => void;

interface Transaction {
  /** What was added so far. */
  readonly ops: { version: number }[];
  create(path: string, data: Buffer | undefined, acl: object[], mode: number): void;
  setData(path: string, data: Buffer, version: number): void;
  remove(path: string, version: number): void;
  commit(callback: Callback<[results: readonly { readonly err?: number }[] | undefined]>): void;
}

/** What is used of the driver's inside: the version is pinned. */
interface Manager {
  socket?: Socket;
  connectTimeoutHandler?: NodeJS.Timeout;
  /** What has arrived of an answer. */
  pendingBuffer?: Buffer | null;
  findNextServer(found: (server: Server) => void): void;
  connect(): void;
  onSocketData(bytes: Buffer): void;
}

interface Client {
  readonly connectionManager: Manager;
  connect(): void;
  close(): void;
  addAuthInfo(scheme: string, auth: Buffer): void;
  on(event: "state", listener: (state: { readonly name: string }) => void): void;
  getSessionId(): Buffer;
  getSessionPassword(): Buffer;
  getSessionTimeout(): number;
  getData(path: string, callback: Callback<[data: Buffer | undefined, stat: Stat]>): void;
  getChildren(path: string, callback: Callback<[names: string[]]>): void;
  exists(path: string, callback: Callback<[stat: Stat | null]>): void;
  setData(path: string, data: Buffer, version: number, callback: Callback<[stat: Stat]>): void;
  create(path: string, data: Buffer, acl: object[], mode: number, callback: Callback<[]>): void;
  remove(path: string, version: number, callback: Callback<[]>): void;
  transaction(): Transaction;
}

interface Driver {
  createClient(servers: string, options: object): Client;
  readonly ACL: { readonly OPEN_ACL_UNSAFE: object[]; readonly CREATOR_ALL_ACL: object[] };
  readonly CreateMode: { readonly PERSISTENT: number; readonly EPHEMERAL_SEQUENTIAL: number };
}

type Server = ServerAddress["servers"][number];

/** A session that may outlive its connection. */
interface SessionKey {
  readonly sessionId: Buffer;
  readonly sessionPassword: Buffer;
}

interface ConnectionOptions {
  readonly sessionTimeout: number;
  /** Deadline of one operation, connecting included, ms. */
  readonly operationTimeout: number;
  readonly clock?: Clock | undefined;
}

/** Pauses between two rounds of tries to connect, ms. */
const [firstPause, longestPause] = [20, 500];
/** How long the end of a session is waited for, ms: it would end by itself. */
const politeEnd = 500;
/** More than any server sends at once, bytes: its own limit is 1 MiB. */
const longestReply = 16_777_216;

/** @throws SnowleaseError DRIVER_MISSING */
export async function openConnection(
  { servers, user, password }: ServerAddress,
  { sessionTimeout, operationTimeout, clock = systemClock }: ConnectionOptions,
): Promise<Connection> {
  const driver = await loadDriver();
  const where = servers.map(({ host, port }) => `${host.includes(":") ? `[${host}]` : host}:${port}`).join(",");
  const login = user === undefined ? undefined : `${user}:${password ?? ""}`;
  /** Of the servers one is as good as the other. */
  let turn = Math.floor(Math.random() * servers.length);
  let wire: Wire | undefined;
  let connecting: Promise<void> | undefined;
  let session: SessionKey | undefined;
  let sessionNumber = 0;
  let heard = -Infinity;
  /** What became of the last try to connect. */
  let said: unknown;
  let asking = 0;
  let closed = false;

  function connect(): Promise<void> {
    connecting ??= keepTrying().finally(() => (connecting = undefined));
    return connecting;
  }

  async function keepTrying(): Promise<void> {
    for (let pause = firstPause; ; pause = Math.min(2 * pause, longestPause)) {
      for (let tries = 0; tries < servers.length; tries++) {
        // Nobody asks, and there is no session left to keep.
        if (closed || (asking === 0 && monotonic(clock) > heard + sessionTimeout)) return;
        if ((await tryOne()) || isRefusal(said)) return;
      }
      await clock.sleep(pause, { keepAlive: false });
    }
  }

  async function tryOne(): Promise<boolean> {
    const server = servers[turn++ % servers.length] ?? { host: "localhost", port: 2181 };
    const opened = new Wire(driver, server, { sessionTimeout, session, login, clock });
    wire = opened;
    opened.hold(asking > 0);
    try {
      await opened.connected(Math.max(50, Math.floor(operationTimeout / servers.length)));
    } catch (error) {
      said = error;
      // Whoever waits is told by the next try that it is a new session.
      if (opened.expired) session = undefined;
      return false;
    }
    said = undefined;
    if (session === undefined) sessionNumber++;
    session = opened.session;
    void opened.ended.then((error) => {
      said = error;
      ({ heard } = opened);
      if (opened.expired) session = undefined;
      if (!closed) void connect();
    });
    return true;
  }

  async function ready(deadline: number): Promise<Wire> {
    for (;;) {
      if (closed) throw new SnowleaseError("REGISTRY_UNAVAILABLE", "This registry was closed; open it again.");
      if (wire?.isConnected) return wire;
      const left = deadline - monotonic(clock);
      if (isRefusal(said)) {
        const refusal = replyError(said, where, login !== undefined);
        // The next one tries again.
        said = undefined;
        throw refusal;
      }
      if (left <= 0) throw silentError(where, operationTimeout, false, said);
      await within(left, connect()).catch(() => undefined);
    }
  }

  function asked(by: number): void {
    asking += by;
    wire?.hold(asking > 0);
  }

  return {
    where,

    deadline: () => monotonic(clock) + operationTimeout,

    async ready(deadline) {
      if (wire?.isConnected) return false;
      asked(1);
      try {
        await ready(deadline);
        return true;
      } finally {
        asked(-1);
      }
    },

    async exchange(deadline, calls) {
      asked(1);
      try {
        const used = await ready(deadline);
        const left = Math.max(1, deadline - monotonic(clock));
        const lost = used.ended.then((error): never => {
          throw new ConnectionLost(error.message, { cause: error });
        });
        lost.catch(() => undefined);
        const answers = calls(used.calls(sessionNumber));
        return await within(left, Promise.race([answers, lost])).catch((error: unknown) => {
          if (error instanceof ReplyError) throw replyError(error, where, login !== undefined);
          if (error !== tooLate) throw error;
          // One that had little time left says nothing about the connection, on which others may wait.
          if (left >= operationTimeout / 2) used.end(new Error("no answer"));
          throw silentError(where, operationTimeout, true);
        });
      } finally {
        asked(-1);
      }
    },

    async close() {
      closed = true;
      await wire?.close();
    },
  };
}

/** One connection, and the client of the driver that lives as long as it. */
class Wire {
  /** When the server was last heard, on the monotonic clock, ms. */
  heard: number;
  /** Whether the session that it was to take over is no more. */
  expired = false;
  /** Resolves with why, when the connection has ended. */
  readonly ended: Promise<Error>;
  readonly #client: Client;
  readonly #driver: Driver;
  readonly #acl: object[];
  readonly #opened: Promise<void>;
  readonly #watchdog: NodeJS.Timeout;
  #end: (error: Error) => void = () => undefined;
  #over = false;
  #isConnected = false;

  constructor(
    driver: Driver,
    server: Server,
    options: { sessionTimeout: number; session: SessionKey | undefined; login: string | undefined; clock: Clock },
  ) {
    const { sessionTimeout, session, login, clock } = options;
    this.#driver = driver;
    this.#acl = login === undefined ? driver.ACL.OPEN_ACL_UNSAFE : driver.ACL.CREATOR_ALL_ACL;
    this.heard = monotonic(clock);
    this.ended = new Promise((resolve) => (this.#end = resolve));
    this.#client = driver.createClient("server:1", { sessionTimeout, retries: 0, ...session });
    if (login !== undefined) this.#client.addAuthInfo("digest", Buffer.from(login));

    const manager = this.#client.connectionManager;
    const { onSocketData } = manager;
    manager.onSocketData = (bytes) => {
      this.heard = monotonic(clock);
      try {
        onSocketData.call(manager, bytes);
        if ((manager.pendingBuffer?.length ?? 0) > longestReply) throw new Error("an answer without end");
      } catch (error) {
        this.end(new Error(`it answers with nonsense: ${error instanceof Error ? error.message : String(error)}`));
      }
    };
    manager.findNextServer = (found) => found(server);
    this.#opened = new Promise((resolve) => {
      this.#client.on("state", ({ name }) => {
        if (name === "SYNC_CONNECTED") {
          this.#isConnected = true;
          resolve();
        } else if (name === "EXPIRED") {
          this.expired = true;
          this.end(new Error("the session has expired"));
        } else if (name === "AUTH_FAILED") this.end(new ReplyError(codes.authFailed, "AUTH_FAILED"));
      });
    });
    this.#client.connect();
    manager.connect = () => this.end(new Error("the connection ended"));
    manager.socket?.on("error", (error) => this.end(error));
    manager.socket?.on("close", () => this.end(new Error("the connection ended")));
    this.#watchdog = setInterval(() => {
      if (this.#isConnected && monotonic(clock) - this.heard > (2 / 3) * this.#client.getSessionTimeout()) {
        this.end(new Error("it keeps silent"));
      }
    }, sessionTimeout / 6).unref();
  }

  get isConnected(): boolean {
    return this.#isConnected && !this.#over;
  }

  get session(): SessionKey {
    return { sessionId: this.#client.getSessionId(), sessionPassword: this.#client.getSessionPassword() };
  }

  /** Resolves when calls can be made; rejects when that failed, or took longer. */
  async connected(patience: number): Promise<void> {
    const late = setTimeout(() => this.end(new Error("it keeps silent")), patience).unref();
    const failed = this.ended.then((error): never => {
      throw error;
    });
    failed.catch(() => undefined);
    try {
      await Promise.race([this.#opened, failed]);
    } finally {
      clearTimeout(late);
    }
  }

  /** A connection that nobody waits for does not keep a program alive that has nothing else to do. */
  hold(held: boolean): void {
    const { socket } = this.#client.connectionManager;
    if (held) socket?.ref();
    else socket?.unref();
  }

  /** Ends it, whatever is under way. Repeatable; the first reason stays. */
  end(error: Error): void {
    if (this.#over) return;
    this.#over = true;
    this.#end(error);
    clearInterval(this.#watchdog);
    const { socket, connectTimeoutHandler } = this.#client.connectionManager;
    clearTimeout(connectTimeoutHandler);
    socket?.destroy();
  }

  /** Ends the session with it. */
  async close(): Promise<void> {
    if (this.isConnected) {
      this.#client.close();
      this.hold(true);
      await within(politeEnd, this.ended).catch(() => undefined);
    }
    this.end(new Error("this registry was closed"));
  }

  calls(id: number): Session {
    const client = this.#client;
    const acl = this.#acl;
    const { PERSISTENT, EPHEMERAL_SEQUENTIAL } = this.#driver.CreateMode;
    return {
      id,

      get: (path) =>
        call<Node | undefined>((done) =>
          client.getData(
            path,
            answer(done, (data, { version }) => ({ data: data ?? Buffer.alloc(0), version })),
          ),
        ).catch(unless<undefined>({ [codes.noNode]: undefined })),

      list: (path) =>
        call<readonly string[] | undefined>((done) =>
          client.getChildren(
            path,
            answer(done, (names) => names),
          ),
        ).catch(unless<undefined>({ [codes.noNode]: undefined })),

      count: (path) =>
        call<number | undefined>((done) =>
          client.exists(
            path,
            answer(done, (stat) => stat?.numChildren),
          ),
        ),

      touch: (path) =>
        call<number | undefined>((done) =>
          client.setData(
            path,
            Buffer.alloc(0),
            -1,
            answer(done, ({ mtime }) => Number(mtime.readBigInt64BE())),
          ),
        ).catch(unless<undefined>({ [codes.noNode]: undefined })),

      create: (path, data) =>
        call<"made" | "exists" | "orphan">((done) =>
          client.create(
            path,
            Buffer.from(data ?? []),
            acl,
            PERSISTENT,
            answer(done, () => "made" as const),
          ),
        ).catch(unless({ [codes.nodeExists]: "exists", [codes.noNode]: "orphan" } as const)),

      set: (path, data, version) =>
        call<boolean>((done) =>
          client.setData(
            path,
            Buffer.from(data),
            version,
            answer(done, () => true),
          ),
        ).catch(unless({ [codes.badVersion]: false, [codes.noNode]: false })),

      remove: (path) =>
        call<boolean>((done) =>
          client.remove(
            path,
            -1,
            answer(done, () => true),
          ),
        ).catch(unless({ [codes.noNode]: false, [codes.notEmpty]: false })),

      commit(writes) {
        const transaction = client.transaction();
        for (const write of writes) {
          if (write.op === "create") {
            const data = Buffer.from(write.data ?? []);
            transaction.create(write.path, data, acl, write.live ? EPHEMERAL_SEQUENTIAL : PERSISTENT);
            continue;
          }
          const version = write.op === "remove" ? (write.version ?? -1) : write.version;
          if (write.op === "set") transaction.setData(write.path, Buffer.from(write.data), version);
          else transaction.remove(write.path, version);
          const added = transaction.ops.at(-1);
          if (added === undefined) throw new Error("node-zookeeper-client is not of the version that is needed");
          added.version = version;
        }
        return new Promise((resolve, reject) => {
          transaction.commit((error, results) => {
            const failed = results?.findIndex(({ err }) => err !== undefined && err !== 0) ?? -1;
            const code = results?.[failed]?.err;
            if (error === null || error === undefined) resolve(undefined);
            else if (code !== undefined && refusals.has(code)) resolve({ failed, code });
            else reject(failureOf(error));
          });
        });
      },
    };
  }
}

/** Answers to a write that did not find what it expected. */
const refusals: ReadonlySet<number> = new Set([codes.badVersion, codes.nodeExists, codes.noNode, codes.notEmpty]);

interface Done<Value> {
  resolve(value: Value): void;
  reject(error: unknown): void;
}

/** A call, as a promise. */
function call<Value>(make: (done: Done<Value>) => void): Promise<Value> {
  return new Promise((resolve, reject) => make({ resolve, reject }));
}

/** The callback of a call. The driver must not see what it throws. */
function answer<Raw extends readonly unknown[], Value>(
  { resolve, reject }: Done<Value>,
  read: (...raw: Raw) => Value,
): Callback<Raw> {
  return (error, ...raw) => {
    if (error) return reject(failureOf(error));
    try {
      resolve(read(...raw));
    } catch (cause) {
      reject(cause);
    }
  };
}

function failureOf({ code, message }: { code: number; message: string }): Error {
  if (code === codes.connectionLoss || code === codes.sessionExpired) return new ConnectionLost(message);
  return new ReplyError(code, message.replace(/^Exception: /, ""));
}

/** What some codes stand for; other errors go on. */
function unless<Value>(values: Readonly<Record<number, Value>>): (error: unknown) => Value {
  return (error) => {
    if (error instanceof ReplyError && error.code in values) return values[error.code] as Value;
    throw error;
  };
}

/** Whether a server said why it does not talk to us. */
function isRefusal(said: unknown): said is ReplyError {
  return said instanceof ReplyError;
}

const tooLate: Error = new Error("too late");

async function within<Value>(ms: number, promise: Promise<Value>): Promise<Value> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(tooLate), ms);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
    promise.catch(() => undefined);
  }
}

async function loadDriver(): Promise<Driver> {
  try {
    const module = (await import("node-zookeeper-client")) as unknown as { readonly default: Driver };
    return module.default;
  } catch (cause) {
    throw new SnowleaseError(
      "DRIVER_MISSING",
      "A ZooKeeper registry needs a driver that is not installed: run `npm install node-zookeeper-client@1.1.3`.",
      {},
      { cause },
    );
  }
}
