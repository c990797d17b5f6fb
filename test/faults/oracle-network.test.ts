import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { type AddressInfo, createServer, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createServer as createTlsServer } from "node:tls";
import { pathToFileURL } from "node:url";
import oracledb from "oracledb";
import { afterAll, afterEach, describe, expect, test } from "vitest";
import { isSnowleaseError, type SnowleaseError } from "../../src/id/errors.ts";
import { claimRequest } from "../support/claims.ts";
import { freePort } from "../support/servers.ts";
import { openSql } from "../support/sql.ts";

/*
 * The real driver, against any server that may listen on a port. This needs no Oracle; the error texts of a real Oracle are in
 * test/unit/oracle-errors.test.ts.
 */

const ends: (() => unknown)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0).toReversed()) await end();
});

/** A server on a port of this machine; `sockets` has its open connections. */
async function serverThat(
  greet: (socket: Socket) => void,
  server: Server = createServer(),
): Promise<{ port: number; sockets: Set<Socket> }> {
  const sockets = new Set<Socket>();
  server.on("connection", (socket: Socket) => {
    sockets.add(socket);
    socket.on("error", () => undefined);
    socket.on("close", () => sockets.delete(socket));
    if ("setSecureContext" in server) return;
    greet(socket);
    socket.resume();
  });
  server.on("secureConnection", greet);
  server.on("tlsClientError", () => undefined);
  await once(server.listen(0, "127.0.0.1"), "listening");
  ends.push(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return { port: (server.address() as AddressInfo).port, sockets };
}

/** The error of a claim at a port: one line, without the password. */
async function failureAt(port: number, query = "", timeout = 1200, host = "127.0.0.1"): Promise<SnowleaseError> {
  const registry = await openSql(`oracle://ada:s3cret@${host}:${port}/ids${query}`, timeout);
  const error: unknown = await registry.claim(claimRequest()).catch((error: unknown) => error);
  await registry.close();
  if (!isSnowleaseError(error)) throw new Error(`Expected a SnowleaseError, got ${String(error)}.`);
  expect(error.message).not.toMatch(/[\r\n]|s3cret|CONNECTION_ID/);
  expect(error.message).toMatch(/; .+\.$/);
  return error;
}

/** Collects garbage for a while. */
const collecting =
  "for (let i = 0; i < 20; i++) { gc(); await new Promise((go) => setTimeout(go, 50)); } console.log(`done`);";

/** A packet of TNS: length, checksum, type, flags, checksum; and what it holds. */
function packet(type: number, body: Buffer): Buffer {
  const head = Buffer.alloc(8);
  head.writeUInt16BE(8 + body.length, 0);
  head.writeUInt8(type, 4);
  return Buffer.concat([head, body]);
}

/** A listener's refusal: reasons, length, text. */
function refusal(code: number): Buffer {
  const text = Buffer.from(
    `(DESCRIPTION=(TMP=)(VSNNUM=318767104)(ERR=${code})(ERROR_STACK=(ERROR=(CODE=${code})(EMFI=4))))`,
  );
  const head = Buffer.alloc(4);
  head.writeUInt16BE(text.length, 2);
  return packet(4, Buffer.concat([head, text]));
}

/** A listener's acceptance: version 318, the usual sizes, no encryption. The login comes next. */
function acceptance(): Buffer {
  const body = Buffer.alloc(37);
  body.writeUInt16BE(318, 0);
  body.writeUInt16BE(8192, 4);
  body.writeUInt16BE(8192, 6);
  body.writeUInt8(0x08, 15);
  body.writeUInt32BE(8192, 24);
  body.writeUInt32BE(8192, 28);
  return packet(2, body);
}

describe("the driver of Oracle", () => {
  test("a closed port", async () => {
    const { code, message } = await failureAt(await freePort());
    expect([code, message]).toEqual([
      "REGISTRY_UNAVAILABLE",
      expect.stringMatching(/NJS-503.*ECONNREFUSED.*nothing was changed/),
    ]);
  });

  test("an unknown host name", async () => {
    const { code, message } = await failureAt(1521, "", 1200, "nowhere.invalid");
    expect([code, message]).toEqual(["REGISTRY_UNAVAILABLE", expect.stringContaining("nothing was changed")]);
  });

  test.each([
    ["never answers", undefined],
    ["lets in and says nothing more", acceptance()],
  ])("a server that %s: refused in time, and no connection is left", async (_, greeting) => {
    const { port, sockets } = await serverThat((socket) =>
      socket.once("data", () => greeting && socket.write(greeting)),
    );
    const { code, message } = await failureAt(port);
    expect([code, message]).toEqual(["REGISTRY_UNAVAILABLE", expect.stringContaining("nothing was changed")]);
    while (sockets.size > 0) await new Promise((resolve) => setTimeout(resolve, 5));
  });

  test.each([
    ["hangs up", (socket: Socket) => socket.destroy()],
    ["hangs up after the first request", (socket: Socket) => socket.once("data", () => socket.destroy())],
    ["speaks HTTP", (socket: Socket) => socket.end("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")],
    ["speaks nonsense", (socket: Socket) => socket.once("data", () => socket.write(Buffer.alloc(4096, 0xa5)))],
    [
      "sends a packet of an unknown type",
      (socket: Socket) => socket.once("data", () => socket.write(packet(99, Buffer.alloc(64)))),
    ],
    [
      "lets in with nonsense",
      (socket: Socket) => socket.once("data", () => socket.write(Buffer.concat([acceptance(), Buffer.alloc(999, 7)]))),
    ],
  ])("a server that %s", async (_, greet) => {
    const { port, sockets } = await serverThat(greet);
    const { code, message } = await failureAt(port);
    expect([code, message]).toEqual(["REGISTRY_UNAVAILABLE", expect.stringContaining("nothing was changed")]);
    while (sockets.size > 0) await new Promise((resolve) => setTimeout(resolve, 5));
  });

  test.each([
    [12_514, "has no such service", "NJS-518"],
    [12_516, "has no connection left", "ORA-12516"],
    [12_528, "is starting or stopping", "ORA-12528"],
  ])("a listener that refuses with %i is asked again until the deadline", async (number, says, told) => {
    let asked = 0;
    const { port } = await serverThat((socket) => socket.once("data", () => (asked++, socket.end(refusal(number)))));
    const { code, message } = await failureAt(port);
    expect([code, message]).toEqual(["REGISTRY_UNAVAILABLE", expect.stringContaining(says)]);
    expect(message).toContain(told);
    expect(asked).toBeGreaterThan(1);
  });

  /** What a separate program prints when it is refused. */
  async function programAt(where: string, env: NodeJS.ProcessEnv = {}, end = ""): Promise<string> {
    const dist = pathToFileURL(join(import.meta.dirname, "../../dist/index.js")).href;
    const script = `const { snowlease } = await import(${JSON.stringify(dist)});
      const registry = "oracle://ada:s3cret@${where}";
      await snowlease({ registry, operationTimeout: 2000 }).catch(({ code, message }) => console.log(code, message));
      ${end}`;
    const child = spawn(process.execPath, ["--input-type=module", "-e", script], {
      stdio: ["ignore", "pipe", "inherit"],
      env: { PATH: process.env["PATH"], ...env },
    });
    let told = "";
    child.stdout.on("data", (text) => (told += text));
    await once(child, "close");
    return told.trim();
  }

  test("a program ends as soon as it gives up, even if the server stays silent", async () => {
    const { port } = await serverThat((socket) => socket.once("data", () => socket.write(acceptance())));
    expect(await programAt(`127.0.0.1:${port}/ids`)).toMatch(/^REGISTRY_UNAVAILABLE /);
  });

  test("a program goes on when a connection that was cut off is garbage-collected", async () => {
    const { port } = await serverThat((socket) => socket.once("data", () => socket.write(acceptance())));
    expect(await programAt(`127.0.0.1:${port}/ids`, { NODE_OPTIONS: "--expose-gc" }, collecting)).toMatch(/done$/);
  });

  test("the driver's own code stays the same for a program's own connections", async () => {
    const file: string = "oracledb/lib/thin/sqlnet/networkSession.js";
    const { default: session } = (await import(file)) as { default: { NetworkSession: { prototype: object } } };
    const { prototype } = session.NetworkSession;
    const before = Object.getOwnPropertyDescriptors(prototype);
    await failureAt(await freePort());
    expect(Object.getOwnPropertyDescriptors(prototype)).toEqual(before);
    for (const [name, { value }] of Object.entries(before)) {
      expect(Object.getOwnPropertyDescriptor(prototype, name)?.value).toBe(value);
    }
  });

  test("our connections log in by their own settings, not by those of the program", async () => {
    const port = await freePort();
    const before = { externalAuth: oracledb.externalAuth, edition: oracledb.edition };
    Object.assign(oracledb, { externalAuth: true, edition: "theirs" });
    try {
      const { code, message } = await failureAt(port);
      expect([code, message]).toEqual(["REGISTRY_UNAVAILABLE", expect.stringMatching(/NJS-503.*ECONNREFUSED/)]);
    } finally {
      Object.assign(oracledb, before);
    }
  });

  describe("with TLS", () => {
    const folder = mkdtempSync(join(tmpdir(), "snowlease-oracle-tls-"));
    const [key, certificate] = [join(folder, "key.pem"), join(folder, "certificate.pem")];
    execFileSync(
      "openssl",
      ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"].concat(
        ["-subj", "/CN=ids", "-addext", "subjectAltName=IP:127.0.0.1"],
        ["-keyout", key, "-out", certificate],
      ),
      { stdio: "ignore" },
    );
    const pems = { key: readFileSync(key), cert: readFileSync(certificate) };
    afterAll(() => rmSync(folder, { recursive: true }));

    test("a certificate of an unknown authority is refused", async () => {
      const { port } = await serverThat(() => undefined, createTlsServer(pems));
      const { code, message } = await failureAt(port, "?tls=true");
      expect([code, message]).toEqual(["REGISTRY_UNAVAILABLE", expect.stringMatching(/NJS-506.*self.signed/)]);
    });

    test("a certificate of an authority that Node trusts is accepted only for its own host", async () => {
      let encrypted = 0;
      const { port } = await serverThat((socket) => (encrypted++, socket.end()), createTlsServer(pems));
      const env = { NODE_EXTRA_CA_CERTS: certificate };
      expect(await programAt(`127.0.0.1:${port}/ids?tls=true`, env)).toMatch(/^REGISTRY_UNAVAILABLE (?!.*NJS-50[5-8])/);
      expect(encrypted).toBeGreaterThan(0);
      expect(await programAt(`localhost:${port}/ids?tls=true`, env)).toMatch(/^REGISTRY_UNAVAILABLE .*NJS-50[68]/);
    });

    test("a program goes on when a connection that was cut off is garbage-collected", async () => {
      let encrypted = 0;
      const greet = (socket: Socket): void => void (encrypted++, socket.once("data", () => socket.write(acceptance())));
      const { port, sockets } = await serverThat(greet, createTlsServer(pems));
      const env = { NODE_EXTRA_CA_CERTS: certificate, NODE_OPTIONS: "--expose-gc" };
      expect(await programAt(`127.0.0.1:${port}/ids?tls=true`, env, collecting)).toMatch(/done$/);
      expect(encrypted).toBeGreaterThan(0);
      while (sockets.size > 0) await new Promise((resolve) => setTimeout(resolve, 5));
    });

    test("certificates without a wallet's key are refused before the driver sends anything", async () => {
      const { code, message } = await failureAt(1, `?tls=true&tlsCa=${certificate}`);
      expect([code, message]).toEqual(["CONFIG_INVALID", expect.stringContaining("NODE_EXTRA_CA_CERTS")]);
    });
  });
});
