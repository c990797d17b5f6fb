import { chmodSync, readFileSync, writeFileSync } from "node:fs";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";
import { join } from "node:path";
import { Server as SecureServer } from "node:tls";
import { expect, onTestFinished, test } from "vitest";
import { exitCodes } from "../../src/cli/exit-codes.ts";
import type { ErrorCode } from "../../src/id/errors.ts";
import { makeCertificates } from "../support/certificates.ts";
import { Sandbox } from "../support/cli.ts";
import { RedisServer, redisMissing } from "../support/redis.ts";
import { freePort } from "../support/servers.ts";

/*
 * Mistakes of users, each with the contents of its message: what happened, which value, and what to do.
 */

interface Mistake {
  readonly args: readonly string[];
  readonly says: readonly string[];
  /** Default: CONFIG_INVALID. */
  readonly code?: ErrorCode;
  readonly env?: Readonly<Record<string, string>>;
  /** The files in the folder, by name. */
  readonly files?: Readonly<Record<string, string>>;
  readonly mode?: number;
}

/** How many command lines run at once. */
const lanes = 2;

/** Each command line is refused in one line on stderr with all these parts; it prints nothing and makes no file. */
async function expectTold(mistakes: readonly Mistake[]): Promise<void> {
  const left = mistakes.values();
  await Promise.all(
    Array.from({ length: lanes }, async () => {
      for (const mistake of left) await expectOneTold(mistake);
    }),
  );
}

async function expectOneTold({ args, says, code = "CONFIG_INVALID", env, files = {}, mode }: Mistake): Promise<void> {
  const sandbox = new Sandbox();
  for (const [name, text] of Object.entries(files)) {
    const path = join(sandbox.work, name);
    writeFileSync(path, text, { mode: 0o600 });
    if (mode !== undefined) chmodSync(path, mode);
  }
  const before = sandbox.files();
  const { stderr, ...rest } = await sandbox.run(args, { env });
  const what = `${JSON.stringify(env ?? {})} ${args.join(" ")}`;
  expect.soft({ what, ...rest }).toEqual({ what, code: exitCodes[code], stdout: "" });
  expect.soft(stderr, what).toMatch(new RegExp(`^snowlease: ${code}: [^\n]+[.?]\n$`));
  for (const words of says) expect.soft(stderr, what).toContain(words);
  expect.soft(sandbox.files(), what).toEqual(before);
}

/** A server on a free port of loopback until the test ends. */
async function listenOn(answer: (socket: Socket) => void, server: Server = createServer()): Promise<number> {
  const sockets = new Set<Socket>();
  server.on(server instanceof SecureServer ? "secureConnection" : "connection", (socket: Socket) => {
    sockets.add(socket.on("error", () => undefined));
    answer(socket);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return (server.address() as AddressInfo).port;
}

const memory = ["--registry", "memory:"];
const id = (...flags: string[]): string[] => ["id", "-n", "1", ...memory, ...flags];
const at = (registry: string, ...flags: string[]): string[] => ["id", "-n", "1", "--registry", registry, ...flags];
const daemon = (...flags: string[]): string[] => ["daemon", ...memory, ...flags];

test("names of commands and flags", async () => {
  await expectTold([
    { args: ["lits"], says: ["`lits`", "id, exec, assign", "`snowlease --help`"] },
    { args: ["list"], says: ["`list`", "did you mean `workers`?"] },
    { args: ["serve"], says: ["`serve`", "did you mean `daemon`?"] },
    { args: ["docter"], says: ["`docter`", "did you mean `doctor`?"] },
    { args: ["--registry", "memory:", "id"], says: ["a command before its flags", "`snowlease COMMAND --registry …`"] },
    { args: id("--namepsace", "orders"), says: ["`--namepsace`", "did you mean `--namespace`?"] },
    { args: id("--name", "orders"), says: ["`--name`", "did you mean `--namespace`?"] },
    { args: id("--worker", "7"), says: ["`--worker`", "did you mean `--worker-id`?"] },
    { args: ["id", "--url", "redis://h"], says: ["`--url`", "did you mean `--registry`?"] },
    { args: daemon("--port", "7070"), says: ["`--port`", "did you mean `--listen`?"] },
    { args: id("--window", "-5s"), says: ["`--window TIME`", "after `--window=`"] },
    { args: id("--", "-n", "3"), says: ["no argument, got `-n`", "a flag stands before `--`"] },
    { args: id("--ordinal", "true"), says: ["got `true`", "`--ordinal` takes no value"] },
    { args: ["workers", "redis://h"], says: ["got `redis://h`", "`--registry` names a registry"] },
    { args: ["migrate", "paln"], says: ["plan, apply, status or finish", "`paln`"] },
    { args: ["migrate", "plan"], says: ["`--from` to be one of ip,", "got nothing; name one"] },
  ]);
});

test("variables", async () => {
  const variable = (name: string, value: string, ...says: string[]): Mistake => {
    return { args: ["id"], env: { [`SNOWLEASE_${name}`]: value }, says };
  };
  await expectTold([
    variable("REGISTERY", "memory:", "`SNOWLEASE_REGISTERY`", "did you mean `SNOWLEASE_REGISTRY`?"),
    variable("WORKERID", "7", "did you mean `SNOWLEASE_WORKER_ID`?"),
    variable("REGISTRY", "", "correct SNOWLEASE_REGISTRY: it is empty, so give it a value or leave it out"),
    variable("WORKER_ID", "", "correct SNOWLEASE_WORKER_ID: it is empty"),
    variable("REGISTRY", '"redis://h:6379"', "correct SNOWLEASE_REGISTRY: the quotes are a part of its value"),
    variable("NAMESPACE", "'orders'", "got `'orders'`", "the quotes are a part of its value, so leave them out"),
    variable("WINDOW", "5s ", "correct SNOWLEASE_WINDOW: a blank stands around its value"),
    variable("REGISTRY", " redis://h", "correct SNOWLEASE_REGISTRY: a blank stands around its value"),
    variable("TOKEN", "s3cret\n", "correct SNOWLEASE_TOKEN: its value ends with a line break"),
    variable("WORKER_ID", "7\n", "correct SNOWLEASE_WORKER_ID: its value ends with a line break"),
    variable("ORDINAL", "yes", "`ordinal` to be true or false, got `yes`"),
    variable("LISTEN", "7070x", "got `7070x`", "correct SNOWLEASE_LISTEN"),
    variable("CONFIG", "none.json", "none.json does not exist; name another file"),
  ]);
});

test("values", async () => {
  await expectTold([
    { args: id("--window", "5min"), says: ["500ms, 2s, 1m, 1h, got `5min`", "correct --window"] },
    { args: id("--window", "1.5s"), says: ["a whole number of ms", "got `1.5s`"] },
    { args: id("--window", "1h"), says: ["from 1 to 120000 ms", "ask for a shorter one"] },
    { args: id("--claim-timeout", "never"), says: ["`claimTimeout` to be a time", "got `never`"] },
    { args: ["id", "-n", "3000000"], says: ["from 1 to 1000000, got `3000000`"] },
    { args: id("--pool", "0-2000"), says: ["from 0 to 1023", "got `2000`", "correct --pool"] },
    { args: id("--pool", "9-5"), says: ["a range of worker IDs such as `512-1023`", "got `9-5`"] },
    { args: id("--worker-id", "1024"), says: ["from 0 to 1023", "got `1024`", "correct --worker-id"] },
    { args: id("--worker-id", "7", "--pool", "8-9"), says: ["in the pool 8-9, got `7`", "or the pool"] },
    { args: id("--datacenter", "5"), says: ["`datacenter` to be a field of the layout", "correct --datacenter"] },
    { args: id("--layout", "twitter", "--datacenter", "32"), says: ["from 0 to 31 (5 bits), got `32`"] },
    { args: id("--layout", "twiter"), says: ["got `twiter`", "did you mean `twitter`? Correct --layout"] },
    { args: id("--layout", "timestamp:41,worker:10,sequence:12"), says: ["it has no epoch", "the epoch in Unix ms"] },
    { args: id("--layout", "41-10-12"), says: ["a preset (westid, twitter,", "got `41-10-12`"] },
    { args: id("--namespace", "Orders"), says: ["[a-z][a-z0-9_]{0,31}, got `Orders`", "correct --namespace"] },
    { args: id("--mode", "fast"), says: ["one of wall, lead, got `fast`"] },
    { args: id("--ip", "300.1.1.1"), says: ["an IPv4 or IPv6 address, got `300.1.1.1`"] },
    { args: ["inspect", "oops!"], says: ["got `oops!`", "correct the ID"] },
    { args: ["inspect", "--format", "hex", "xyz"], says: ["`0123456789abcdef`, got `xyz`"] },
    { args: ["inspect", "--at", "yesterday", "1"], says: ["2026-11-20T12:02:04Z, got `yesterday`"] },
    { args: ["pin", "7-9", "--reason", "x"], says: ["WORKER_ID to be an integer", "got `7-9`"] },
    { args: ["release", "7", "--fences", "3"], says: ["`--fences`", "did you mean `--fence`?"] },
    { args: ["release", "7", "--fence", "x"], says: ["`--fence` to be an integer", "got `x`"] },
    { args: ["release", "7", "--reset-window"], says: ["`--reset-window` and `--i-know` together"] },
    { args: ["quarantine", "--era", "1-a"], says: ["after `snowlease quarantine end` only"] },
    { args: ["exec", "--registry", "memory:", "--"], says: ["PROGRAM", "got nothing"] },
  ]);
});

test("registry URLs", async () => {
  await expectTold([
    { args: at("postgresq://h/x"), says: ["got `postgresq://h/x`", "did you mean `postgres:`? Correct --registry"] },
    { args: at("postgresql://h/x"), says: ["did you mean `postgres:`?"] },
    { args: at("mariadb://h/x"), says: ["did you mean `mysql:`?"] },
    { args: at("file:./ids.db"), says: ["did you mean `sqlite:`?"] },
    { args: at("127.0.0.1:7070"), says: ["got `127.0.0.1:7070`", "write the scheme before HOST:PORT"] },
    { args: at("./ids.db"), says: ["got `./ids.db`", "write `sqlite:` before the path"] },
    { args: at("C:\\data\\ids.db"), says: ["write `sqlite:` before the path"] },
    { args: at("sqlite:C:\\data\\ids.db"), says: ["a path of this system, and not one of Windows"] },
    { args: at("sqlite:"), says: ["to have a path: sqlite:./relative or sqlite:///absolute"] },
    { args: at("sqlite://ids.db"), says: ["sqlite:./relative or sqlite:///absolute, and no host"] },
    { args: at("sqlite:./none/ids.db"), says: ["its folder does not exist", "mkdir -p"] },
    { args: at("sqlite:/proc/ids.db"), says: ["`/proc/ids.db` cannot be opened", "check the permissions"] },
    { args: at("redis://h:99999"), says: ["a port from 1 to 65535", "got `redis://h:99999`"] },
    { args: at("redis:h:6379"), says: ["to be like redis://USER:PASSWORD@HOST:PORT/NAME"] },
    { args: at("redis://h/orders"), says: ["the database in the URL to be an integer", "got `orders`"] },
    { args: at("redis://:p@ss/word@h"), says: ["as %40, %2F and %3A", "got `redis://***@h`"] },
    { args: at("mysql://u:p#ss@h/x"), says: ["to have no `#`", "`mysql://***@h/x`"] },
    { args: at("mysql://u:p%ss@h/x"), says: ["a `%` itself is written %25", "`mysql://***@h/x`"] },
    { args: at("https://h?tlsCA=ca.pem"), says: ["no option `tlsCA`", "did you mean `tlsCa`?"] },
    { args: at("etcds://h?ca=ca.pem"), says: ["no option `ca`", "did you mean `tlsCa`?"] },
    { args: at("postgres://h/x?sslrootcert=ca.pem"), says: ["did you mean `tlsCa`?"] },
    { args: at("postgres://h/x?sslmode=require"), says: ["did you mean `tls`?"] },
    { args: at("mysql://h/x?tlsCA=ca.pem"), says: ["no option `tlsCA`", "did you mean `tlsCa`?"] },
    { args: at("rediss://h?tlsCA=ca.pem"), says: ["no option `tlsCA`", "in the variable NODE_EXTRA_CA_CERTS"] },
    { args: at("rediss://h?sslrootcert=ca.pem"), says: ["in the variable NODE_EXTRA_CA_CERTS"] },
    { args: ["id", "--tls-ca", "ca.pem"], says: ["got `--tls-ca`", "as `?tlsCa=FILE`"] },
    { args: ["id", "--cacert", "ca.pem"], says: ["got `--cacert`", "as `?tlsCa=FILE`"] },
    { args: at("etcd://h?tls=true"), says: ["for TLS, write the scheme `etcds:`"] },
    { args: at("https://h?tlsCa=none.pem"), says: ["`tlsCa` to name a file that can be read, got `none.pem`"] },
    { args: at("http://h?tokn=s3cret"), says: ["no option `tokn`; did you mean `token`?"] },
    { args: at("memory:?window=5x"), says: ["got `5x`", "`window` in the registry URL from --registry"] },
  ]);
});

test("files", async () => {
  const config = (text: string, ...says: string[]): Mistake => {
    return { args: ["id"], files: { "snowlease.json": text }, says: ["snowlease.json", ...says] };
  };
  await expectTold([
    config("", "is empty; write one JSON object into it"),
    config("registry: memory:", "is not JSON", "correct it"),
    config('{"registry": "memory:",}', "is not JSON (line 1"),
    config('{"registy": "memory:"}', "no option `registy`; did you mean `registry`?"),
    config('{"worker-id": 7}', "did you mean `workerId`?"),
    config('{"window": [5]}', "`window` to be a time", "`Array`"),
    config('{"namespace": 5}', "got `5` (number)"),
    { ...config("{}", "is writable for every user", "chmod o-w"), mode: 0o666 },
    { args: ["id", "--config", "."], says: ["is not a regular file; name a regular file"] },
    { args: ["audit", "none.txt"], says: ["`none.txt`", "it does not exist; name a file of IDs"] },
    { args: ["migrate", "apply"], says: ["`snowlease-migration.json` cannot be read", "name another"] },
    {
      args: at("sqlite:./ids.db"),
      files: { "ids.db": "a diary".repeat(99) },
      says: ["is not a database"],
    },
  ]);
});

test("a daemon's flags and files", async () => {
  const occupied = await listenOn(() => undefined);
  const tokens = (text: string, ...says: string[]): Mistake => {
    return { args: daemon("--tokens", "tokens"), files: { tokens: text }, says };
  };
  await expectTold([
    { args: daemon("--listen", "localhost"), says: ["HOST:PORT", "got `localhost`"] },
    { args: daemon("--listen", "http://127.0.0.1:7070"), says: ["HOST:PORT", "got `http://127.0.0.1:7070`"] },
    { args: daemon("--listen", "*:7070"), says: ["127.0.0.1, ::1 or localhost", "`tokens` and `tlsCert`"] },
    {
      args: daemon("--listen", `127.0.0.1:${occupied}`),
      says: [`127.0.0.1:${occupied}: it is in use`, "choose another"],
    },
    { args: daemon("--client-quota", "25%"), says: ["from 1 to 100, got `25%`"] },
    { args: daemon("--tls-cert", "cert.pem"), says: ["both `tlsCert` and `tlsKey`", "name the missing one"] },
    { args: daemon("--tokens", "none"), says: ["`tokens` cannot be read", "its path"] },
    { args: daemon("--token", "s3cret"), says: ["did you mean `--tokens`?"] },
    { args: daemon("--lend", "yes"), says: ["the flag `--lend` takes no value"] },
    { args: ["token", "writer"], says: ["one of worker, read, admin, got `writer`"] },
    { args: ["token", "worker", "Orders"], says: ["NAMESPACES to be 1 to 32 small letters", "got `Orders`"] },
    { args: ["token", "worker", "--append", "none/tokens"], says: ["`none/tokens`", "correct its path"] },
    tokens("", "has no token", "add a line that `snowlease token ROLE` prints"),
    tokens("s3cret worker\n", "line 1 of tokens", "64 hexadecimal digits, as `snowlease token` prints them"),
    tokens(`${"a".repeat(64)} writer\n`, "line 1 of tokens", "roles worker, read, admin"),
  ]);
});

test("a missing registry, or one without such a namespace", async () => {
  const { url } = await new Sandbox().serve();
  const code = "NOT_FOUND";
  const none = ["--namespace", "nope", "--registry", url];
  await expectTold([
    ...[["workers"], ["release", "7"], ["pin", "7", "--reason", "x"], ["explain", "1"]].map(([name = "", ...rest]) => {
      const says = ["no namespace `nope`", "check the name, or create it with `snowlease init --namespace nope`"];
      return { code, args: [name, ...rest, ...none], says } as const;
    }),
    { code, args: ["drop", "nope", "--registry", url], says: ["no namespace `nope`", "check the name"] },
    { code, args: ["workers", "--registry", "sqlite:./ids.db"], says: ["sqlite:./ids.db does not exist yet"] },
  ]);
});

test("a missing driver", async () => {
  const hooks = `export function resolve(name, context, next) {
    if (["ioredis", "pg", "mysql2/promise", "mysql2"].includes(name)) {
      throw Object.assign(new Error("Cannot find package '" + name + "'"), { code: "ERR_MODULE_NOT_FOUND" });
    }
    return next(name, context);
  }`;
  const asUrl = (text: string): string => `data:text/javascript;base64,${Buffer.from(text).toString("base64")}`;
  const entry = asUrl(`import { register } from "node:module"; register(${JSON.stringify(asUrl(hooks))});`);
  const env = { NODE_OPTIONS: `--import=${entry}` };
  const code = "DRIVER_MISSING";
  await expectTold([
    { code, env, args: at("redis://127.0.0.1:1"), says: ["npm install ioredis redlock@4"] },
    { code, env, args: at("postgres://127.0.0.1:1/x"), says: ["npm install pg"] },
    { code, env, args: at("mysql://127.0.0.1:1/x"), says: ["npm install mysql2"] },
  ]);
});

test("a closed port, or a silent one", async () => {
  const ports = [await freePort(), await listenOn(() => undefined)];
  const code = "REGISTRY_UNAVAILABLE";
  await expectTold(
    ports.flatMap((port) =>
      ["http", "redis", "postgres", "etcd"].map((scheme) => {
        const address = `127.0.0.1:${port}`;
        const url = `${scheme}://${address}${scheme === "postgres" ? "/x" : ""}`;
        const says = [address, "did not answer", "runs"];
        return { code, args: at(url, "--operation-timeout", "300ms"), says } as const;
      }),
    ),
  );
});

test.skipIf(redisMissing)("a wrong login", async () => {
  const redis = await RedisServer.start([], "p@ss");
  onTestFinished(() => redis.remove());
  const sandbox = new Sandbox();
  const { url } = await sandbox.serve("--tokens", sandbox.tokens("reader read", "worker worker orders*"));
  const at6379 = `127.0.0.1:${redis.port}`;
  const env = { SNOWLEASE_TOKEN: "stranger" };
  await expectTold([
    {
      code: "UNAUTHORIZED",
      args: at(`redis://${at6379}`),
      says: [at6379, "wants a login", "correct user and password"],
    },
    { code: "UNAUTHORIZED", args: at(`redis://:wrong@${at6379}`), says: ["refused the login (WRONGPASS"] },
    { code: "UNAUTHORIZED", args: at(`redis://bob:p%40ss@${at6379}`), says: ["refused the login", "correct user"] },
    { code: "UNAUTHORIZED", args: at(url), says: ["none came", "give it as SNOWLEASE_TOKEN"] },
    { code: "UNAUTHORIZED", args: at(url), env, says: ["another came"] },
    ...["reader", "worker"].map((token) => {
      const says = [
        "the role `worker` for namespace `default`",
        "add a line for this one to the daemon's file of tokens",
      ];
      return { code: "FORBIDDEN", args: at(`${url}?token=${token}`), says } as const;
    }),
  ]);
});

test.skipIf(redisMissing)("a scheme that the port does not speak", async () => {
  const redis = await RedisServer.start([]);
  onTestFinished(() => redis.remove());
  const sandbox = new Sandbox();
  const files = makeCertificates(sandbox.folder);
  const secured = async (port: number): Promise<string> => {
    const secure = new SecureServer({ cert: readFileSync(files.certificate), key: readFileSync(files.key) });
    const through = (socket: Socket): void => {
      socket.pipe(connect(port, "127.0.0.1").on("error", () => socket.destroy())).pipe(socket);
    };
    return `127.0.0.1:${await listenOn(through, secure)}`;
  };
  const { url } = await sandbox.serve();
  const { port } = new URL(url);
  const http = `127.0.0.1:${port}`;
  const https = await secured(Number(port));
  const plain = `127.0.0.1:${redis.port}`;
  const rediss = await secured(redis.port);
  const garbage = `127.0.0.1:${await listenOn((socket) => socket.end("\0\x17 garbage\r\n"))}`;

  const wrong = (written: string, ...says: string[]): Mistake => {
    return { code: "REGISTRY_UNAVAILABLE", args: at(written), says };
  };
  const noTls = "it speaks no TLS: write the port that does, or ";
  await expectTold([
    wrong(`http://${https}`, https, "it speaks TLS: write `https:` in place of `http:`"),
    wrong(`https://${http}`, http, `${noTls}\`http:\` in place of \`https:\``),
    wrong(`redis://${rediss}`, rediss, "it speaks TLS: write `rediss:` in place of `redis:`"),
    wrong(`rediss://${plain}`, plain, `${noTls}\`redis:\` in place of \`rediss:\``),
    wrong(`http://${plain}`, "a Redis answers there: write `redis:` in place of `http:`, or another port"),
    wrong(`http://${rediss}`, "a Redis answers there: write `rediss:` in place of `http:`"),
    wrong(`redis://${http}`, "an HTTP server answers there: write `http:` in place of `redis:`, or another port"),
    wrong(`redis://${https}`, "an HTTP server answers there: write `https:` in place of `redis:`"),
    wrong(`etcd://${https}`, "it speaks TLS: write `etcds:` in place of `etcd:`"),
    wrong(`postgres://${plain}/x`, "a Redis answers there: write `redis:` in place of `postgres:`"),
    wrong(`redis+sentinel://${plain}/main`, "it is no sentinel: write `redis:`, or the port of a sentinel"),
    wrong(`redis+cluster://${plain}`, "it is no cluster: write `redis:`"),
    wrong(`rediss://${rediss}`, "certificate", "in NODE_EXTRA_CA_CERTS"),
    wrong(`https://${https}`, "certificate", "check `tlsCa`"),
    wrong(`http://${garbage}`, "what answers is no HTTP server; check the address"),
  ]);

  const doctor = await sandbox.run(["doctor", "--registry", `http://${plain}`]);
  expect(doctor.stdout).toMatch(/fail +registry .*a Redis answers there: write `redis:` in place of `http:`/);
});
