import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { chmodSync, copyFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { connect as connectPlain } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect, type SecureVersion } from "node:tls";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { type Daemon, type DaemonOptions, startDaemon } from "../../src/daemon.ts";
import { readCertificates, type TlsFiles } from "../../src/serving/certificates.ts";
import { daemonRegistry } from "../../src/registries/daemon/registry.ts";
import { memoryRegistry } from "../../src/testing.ts";
import { type Certificates, makeCertificates } from "../support/certificates.ts";

const folder = mkdtempSync(join(tmpdir(), "snowlease-tls-"));
const silent = { info() {}, warn() {}, error() {} };
const day = 86_400_000;
/** Certificates of two authorities that do not know each other. */
let ours: Certificates;
let theirs: Certificates;
const open: Daemon[] = [];

beforeAll(() => {
  [ours, theirs] = ["ours", "theirs"].map((name) => {
    mkdirSync(join(folder, name));
    return makeCertificates(join(folder, name));
  }) as [Certificates, Certificates];
  for (const { key } of [ours, theirs]) chmodSync(key, 0o600);
});
afterEach(async () => {
  for (const daemon of open.splice(0)) await daemon.close("now");
});
afterAll(() => rmSync(folder, { recursive: true }));

interface Started {
  readonly daemon: Daemon;
  readonly url: string;
  readonly logged: { readonly level: string; readonly event: string; readonly message: string }[];
}

async function start(tls: TlsFiles, options: Partial<DaemonOptions> = {}): Promise<Started> {
  const logged: Started["logged"] = [];
  const write =
    (level: string) =>
    (fields: object, message: string): void =>
      void logged.push({ level, event: "", ...fields, message });
  const log = { info: write("info"), warn: write("warn"), error: write("error") };
  const listen = { host: "127.0.0.1", port: 0 };
  const daemon = await startDaemon({ registry: memoryRegistry(), listen, log, tls, ...options });
  open.push(daemon);
  return { daemon, url: daemon.url ?? "", logged };
}

const own = (): TlsFiles => ({ cert: ours.certificate, key: ours.key });

/** What a client comes to that trusts an authority, and shows a certificate if it has one. */
async function ask(url: string, { authority }: Certificates, client?: Certificates, timeout = 10_000): Promise<string> {
  const settings = {
    tlsCa: authority,
    ...(client !== undefined && { tlsCert: client.certificate, tlsKey: client.key }),
  };
  const registry = daemonRegistry([url], { settings, operationTimeout: timeout });
  try {
    return (await registry.ping()).durability;
  } catch (error) {
    return String(error);
  } finally {
    await registry.close();
  }
}

const served = expect.stringMatching(/^(?!SnowleaseError)/) as string;
const distrusted = expect.stringMatching(
  /^SnowleaseError: The daemon at https:\S+ shows a certificate that this program does not trust .*`tlsCa`\.$/,
) as string;
/** The client may see the end of the connection before it sees why. */
const refused = expect.stringMatching(
  /^SnowleaseError: The daemon at https:\S+ (?:did not answer: |does not take the certificate of this client)/,
) as string;

describe("a daemon with a certificate", () => {
  test("serves those who trust its authority, and is refused by others", async () => {
    const { url } = await start(own());
    expect(url).toMatch(/^https:\/\/127\.0\.0\.1:\d+$/);
    expect(await ask(url, ours)).toEqual(served);
    expect(await ask(url, theirs)).toEqual(distrusted);
    const registry = daemonRegistry([url]);
    await expect(registry.ping()).rejects.toThrow(/; name the authority that signed it with `tlsCa`\.$/);
    await registry.close();
  });

  test.each<[SecureVersion, boolean]>([
    ["TLSv1.1", false],
    ["TLSv1.2", true],
    ["TLSv1.3", true],
  ])("speaks %s: %s", async (version, speaks) => {
    const { url } = await start(own());
    const versions = { minVersion: version, maxVersion: version, ciphers: "DEFAULT@SECLEVEL=0" };
    const socket = connect({
      port: Number(new URL(url).port),
      host: "127.0.0.1",
      rejectUnauthorized: false,
      ...versions,
    });
    const outcome = await new Promise((resolve) => {
      socket.once("secureConnect", () => resolve(socket.getProtocol()));
      socket.once("error", ({ code }: NodeJS.ErrnoException) => resolve(code));
    });
    socket.destroy();
    expect(outcome).toBe(speaks ? version : "ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION");
  });

  test("keeps its limits, and goes on after what is no TLS", async () => {
    const { url } = await start(own(), {
      limits: { handshakeTimeout: 1000, headersTimeout: 200, requestTimeout: 400 },
    });
    const port = Number(new URL(url).port);
    for (const text of ["", "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", "\u0016\u0003\u0001\u0002"]) {
      const socket = connectPlain(port, "127.0.0.1");
      socket.on("error", () => undefined).resume();
      socket.write(text);
      await once(socket, "close");
    }
    const slow = connect({ port, host: "127.0.0.1", rejectUnauthorized: false });
    slow.write("GET /healthz HTTP/1.1\r\nHost: local");
    let answer = "";
    for await (const chunk of slow) answer += String(chunk);
    expect(answer).toMatch(/^HTTP\/1\.1 408 /);
    const long = await new Promise<string>((resolve) => {
      const socket = connect({ port, host: "127.0.0.1", rejectUnauthorized: false });
      socket.write("POST /v1/a/ids HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n");
      socket.once("data", (chunk: Buffer) => resolve(chunk.toString()));
      socket.once("close", () => resolve("closed"));
      open.push({ close: async () => void socket.destroy() } as unknown as Daemon);
    });
    expect(long).toMatch(/^HTTP\/1\.1 413 /);
    expect(await ask(url, ours)).toEqual(served);
  });

  test("drains", async () => {
    const { daemon, url } = await start(own());
    expect(await ask(url, ours)).toEqual(served);
    await daemon.close();
    expect(await ask(url, ours, undefined, 500)).toEqual(refused);
  });

  test("takes pages of its own origin, which is https", async () => {
    const { url } = await start(own());
    const port = Number(new URL(url).port);
    const status = async (origin: string): Promise<string> => {
      const socket = connect({ port, host: "127.0.0.1", rejectUnauthorized: false });
      socket.write(
        `GET /healthz HTTP/1.1\r\nHost: localhost:${port}\r\nOrigin: ${origin}\r\nConnection: close\r\n\r\n`,
      );
      let text = "";
      for await (const chunk of socket) text += String(chunk);
      return text.slice(9, 12);
    };
    expect([await status(`https://localhost:${port}`), await status(`http://localhost:${port}`)]).toEqual([
      "200",
      "403",
    ]);
  });

  test("takes another one when told to, and keeps its own when the other cannot be used", async () => {
    const files = { cert: join(folder, "cert"), key: join(folder, "key") };
    const put = ({ certificate }: Certificates, { key }: Certificates): void => {
      copyFileSync(certificate, files.cert);
      copyFileSync(key, files.key);
    };
    put(ours, ours);
    const { daemon, url, logged } = await start(files);
    const kept = daemonRegistry([url], { settings: { tlsCa: ours.authority } });
    await kept.ping();
    put(theirs, theirs);
    daemon.reload?.();
    expect([await ask(url, ours), await ask(url, theirs)]).toEqual([distrusted, served]);
    await expect(kept.ping()).rejects.toMatchObject({ code: "REGISTRY_UNAVAILABLE" });
    await kept.close();
    put(ours, theirs);
    daemon.reload?.();
    expect([await ask(url, ours), await ask(url, theirs)]).toEqual([distrusted, served]);
    expect(logged.filter(({ event }) => event.endsWith("reloaded")).map(({ event }) => event)).toEqual([
      "reloaded",
      "not-reloaded",
    ]);
  });

  test("may listen for other machines once it has tokens, too, and by none of them alone", async () => {
    const tokens = join(folder, "tokens");
    writeFileSync(tokens, `${createHash("sha256").update("t").digest("hex")} read`, { mode: 0o600 });
    const listen = { host: "0.0.0.0", port: 0 };
    await expect(start(own(), { listen })).rejects.toThrow(/give it `tokens` and `tlsCert`, or say `insecure`/);
    await expect(start(own(), { listen, tls: undefined, tokens })).rejects.toMatchObject({ code: "CONFIG_INVALID" });
    const { url } = await start(own(), { listen, tokens });
    const at = url.replace("0.0.0.0", "127.0.0.1");
    expect(await ask(at, ours)).toMatch(/^SnowleaseError: Expected a token/);
    expect(await ask(at.replace("//", "//:t@"), ours)).toEqual(served);
  });

  test("has none on a socket", async () => {
    const socket = join(folder, "s");
    await expect(start(own(), { listen: undefined, socket })).rejects.toThrow(/only with `listen`/);
    await start(own(), { socket });
    const registry = daemonRegistry([`unix:${socket}`]);
    expect((await registry.ping()).durability).toEqual(served);
    await registry.close();
  });
});

describe("a daemon that asks for a client's certificate", () => {
  test("serves who has one of the authority, and neither who has none nor who has another's", async () => {
    const { url } = await start({ ...own(), clientCa: theirs.authority });
    expect(await ask(url, ours, undefined, 500)).toEqual(refused);
    expect(await ask(url, ours, ours, 500)).toEqual(refused);
    expect(await ask(url, ours, theirs)).toEqual(served);
  });

  test("asks for those of another authority when told so", async () => {
    const clientCa = join(folder, "client-ca");
    copyFileSync(ours.authority, clientCa);
    const { daemon, url } = await start({ ...own(), clientCa });
    expect([await ask(url, ours, ours), await ask(url, ours, theirs, 2000)]).toEqual([served, refused]);
    copyFileSync(theirs.authority, clientCa);
    daemon.reload?.();
    expect([await ask(url, ours, ours, 2000), await ask(url, ours, theirs)]).toEqual([refused, served]);
  });
});

describe("files", () => {
  const file = (name: string, text: string): string => {
    const path = join(folder, name);
    writeFileSync(path, text, { mode: 0o600 });
    return path;
  };

  test.each<[what: string, files: () => Partial<TlsFiles>, message: RegExp]>([
    ["a key of another certificate", () => ({ key: theirs.key }), /^The key in .* is not that of the certificate in /],
    ["a certificate that is missing", () => ({ cert: join(folder, "none") }), /`tlsCert` cannot be read \(ENOENT\)/],
    ["a key that is missing", () => ({ key: join(folder, "none") }), /`tlsKey` cannot be read \(ENOENT\)/],
    ["an authority that is missing", () => ({ clientCa: join(folder, "none") }), /`tlsClientCa` cannot be read/],
    ["a key instead of the certificate", () => ({ cert: ours.key }), /has no certificate/],
    ["a certificate instead of the key", () => ({ key: ours.certificate }), /has no private key/],
    ["an authority that is no certificate", () => ({ clientCa: file("ca", "s3cret") }), /has no certificate/],
    [
      "a certificate that is garbled",
      () => ({ cert: file("garbled", "-----BEGIN CERTIFICATE-----\nc2VjcmV0\n-----END CERTIFICATE-----\n") }),
      /has a certificate that cannot be read/,
    ],
    [
      "a key with a passphrase",
      () => {
        const key = join(folder, "encrypted");
        execFileSync("openssl", ["pkey", "-in", ours.key, "-aes128", "-passout", "pass:s3cret", "-out", key]);
        return { key };
      },
      /without a passphrase/,
    ],
    [
      "a key that every user can write",
      () => {
        const key = join(folder, "open-key");
        copyFileSync(ours.key, key);
        chmodSync(key, 0o602);
        return { key };
      },
      /can be written by every user/,
    ],
  ])("with %s are refused in one line", async (_, files, message) => {
    const error = await start({ ...own(), ...files() }).catch((error: unknown) => error);
    expect(error).toMatchObject({ code: "CONFIG_INVALID", message: expect.stringMatching(message) });
    expect(String(error)).not.toMatch(/s3cret|PRIVATE/);
  });

  test("are refused after their last day and before their first", () => {
    const read = (files: Partial<TlsFiles>, now: number): unknown =>
      readCertificates({ ...own(), ...files }, now, silent);
    expect(read({}, Date.now())).toMatchObject({ cert: expect.stringContaining("CERTIFICATE") });
    expect(() => read({}, Date.now() + 3 * day)).toThrow(/cert\.pem expired on 20.*; renew it/);
    expect(() => read({}, Date.now() - day)).toThrow(/cert\.pem is valid only from 20/);
  });

  test("of a key that every user can read are logged", async () => {
    const key = join(folder, "shown-key");
    copyFileSync(ours.key, key);
    chmodSync(key, 0o644);
    const { logged } = await start({ ...own(), key });
    expect(logged[0]).toMatchObject({ level: "warn", message: expect.stringContaining("can be read by every user") });
  });

  test.each<[settings: () => Record<string, string>, message: RegExp]>([
    [() => ({ tlsCa: join(folder, "none") }), /Expected `tlsCa` to name a file that can be read/],
    [() => ({ tlsCert: ours.certificate }), /Expected `tlsCert` and `tlsKey` to be given together/],
    [() => ({ tlsKey: ours.key }), /to be given together/],
    [() => ({ tlsCert: ours.certificate, tlsKey: theirs.key }), /in PEM that belong together/],
    [() => ({ tlsCert: ours.certificate, tlsKey: ours.authority }), /in PEM that belong together/],
  ])("of a client that cannot be used are refused: %#", (settings, message) => {
    expect(() => daemonRegistry(["https://127.0.0.1:1"], { settings: settings() })).toThrow(message);
  });

  test("of a client are for https alone", () => {
    const settings = { tlsCa: ours.authority };
    expect(() => daemonRegistry(["http://127.0.0.1:1"], { settings })).toThrow(/`tlsCa` only with https:/);
  });
});
