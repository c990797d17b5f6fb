import { chmodSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, describe, expect, test } from "vitest";
import { makeCertificates } from "../support/certificates.ts";
import { type CliProcess, hashOf, Sandbox, until } from "../support/cli.ts";

let sandbox: Sandbox;
beforeEach(() => {
  sandbox = new Sandbox();
});

const events = (daemon: CliProcess): string[] =>
  daemon.stderr
    .split("\n")
    .filter(Boolean)
    .map((line) => (JSON.parse(line) as { event: string }).event);

describe("tokens", () => {
  test("let in who has one, from the environment, the URL and its query, and tell others so", async () => {
    const tokens = sandbox.tokens("w0rker-t0ken worker", "r3ader-t0ken read", "adm1n-t0ken admin default");
    const { url } = await sandbox.serve("--tokens", tokens);
    const id = ["id", "-n", "1", "--registry"];
    expect(await sandbox.run([...id, url])).toMatchObject({ code: 8, stdout: "" });
    const ways: [string, Record<string, string>][] = [
      [url, { SNOWLEASE_TOKEN: "w0rker-t0ken" }],
      [url.replace("//", "//:w0rker-t0ken@"), {}],
      [`${url}?token=w0rker-t0ken`, {}],
    ];
    for (const [registry, env] of ways) {
      expect(await sandbox.run([...id, registry], { env })).toMatchObject({ code: 0, stderr: "" });
    }
    const run = (token: string, ...args: string[]): ReturnType<Sandbox["run"]> =>
      sandbox.run([...args, "--registry", url], { env: { SNOWLEASE_TOKEN: token } });
    expect(await run("r3ader-t0ken", "id")).toMatchObject({ code: 8 });
    expect(await run("r3ader-t0ken", "workers")).toMatchObject({ code: 0 });
    expect(await run("r3ader-t0ken", "release", "0")).toMatchObject({ code: 8 });
    expect(await run("adm1n-t0ken", "release", "0")).toMatchObject({ code: 0 });
    expect((await run("r3ader-t0ken", "id")).stderr).toMatch(/^snowlease: FORBIDDEN: .*role `worker`.*\n$/);
    expect((await run("nobody", "id")).stderr).toMatch(/^snowlease: UNAUTHORIZED: .*SNOWLEASE_TOKEN.*\n$/);
  });

  test("are made with their line for the file, and may what the line says", async () => {
    const text = await sandbox.read(["token", "worker", "orders*"]);
    const [, token = "", line = ""] = /^The token.*\n([\da-f]{64})\n\nThe line.*\n(.*)\n$/.exec(text) ?? [];
    expect(line).toBe(`${hashOf(token)} worker orders*`);
    const made = JSON.parse(await sandbox.read(["token", "read", "--json"])) as { token: string; line: string };
    expect(made).toEqual({ role: "read", namespaces: "*", token: made.token, line: `${hashOf(made.token)} read *` });
    expect(made.token).not.toBe(token);

    const tokens = join(sandbox.work, "made-tokens");
    writeFileSync(tokens, `${line}\n${made.line}\n`, { mode: 0o600 });
    const { url } = await sandbox.serve("--tokens", tokens);
    const run = (own: string, ...args: string[]): ReturnType<Sandbox["run"]> =>
      sandbox.run([...args, "--registry", url], { env: { SNOWLEASE_TOKEN: own } });
    expect(await run(token, "id", "-n", "1", "--namespace", "orders_eu")).toMatchObject({ code: 0 });
    expect(await run(token, "id", "-n", "1", "--namespace", "bills")).toMatchObject({ code: 8 });
    expect(await run(made.token, "workers", "--namespace", "orders_eu")).toMatchObject({ code: 0 });
    const { stdout } = await run(made.token, "doctor", "--namespace", "orders_eu");
    expect(stdout).toMatch(/^unknown +renewal +The token may not claim, so nothing was tried\./m);
    expect(stdout).not.toMatch(/^fail /m);
  });

  test.each([
    [[], /expected.*ROLE/],
    [["root"], /Expected ROLE to be one of worker, read, admin, got `root` \(string\); name one of them\./],
    [["read", "Orders"], /Expected NAMESPACES to be up to 32 .*, got `Orders` \(string\)/],
    [["read", "a", "b"], /`b`/],
  ])("none is made of %j", async (args, message) => {
    const { code, stdout, stderr } = await sandbox.run(["token", ...args]);
    expect([code, stdout]).toEqual([2, ""]);
    expect(stderr).toMatch(message);
  });

  test("and what is secret beside them are in no log, error, listing or process title", async () => {
    const secrets = ["w0rker-t0ken", "adm1n-t0ken", "str4nger-t0ken", "0ld-password"];
    const tokens = sandbox.tokens("w0rker-t0ken worker", "adm1n-t0ken admin");
    const socket = join(sandbox.work, "s");
    const { daemon, url } = await sandbox.serve("--socket", socket, "--tokens", tokens);
    let said = "";
    const at = (login: string): string => url.replace("//", `//${login}@`);

    const holder = sandbox.start(["assign", "--registry", at(":w0rker-t0ken")]);
    const lease = JSON.parse(await holder.line()) as Record<string, unknown>;
    said += JSON.stringify(lease);
    for (const pid of [daemon.pid, holder.pid]) {
      for (const name of ["cmdline", "comm"]) said += readFileSync(`/proc/${pid}/${name}`, "latin1");
    }
    for (const registry of [
      at(":w0rker-t0ken"),
      at("0ld-password:str4nger-t0ken"),
      at("str4nger-t0ken"),
      `unix:${socket}`,
    ]) {
      for (const args of [["id"], ["workers"], ["doctor"], ["release", "0"], ["exec", "--", "env"]]) {
        const [command = "", ...rest] = args;
        const { stdout, stderr } = await sandbox.run([command, "--registry", registry, ...rest]);
        said += stdout + stderr;
      }
    }
    const paths = [
      "/metrics",
      "/readyz",
      "/healthz",
      "/openapi.json",
      "/v1/default",
      "/v1/default/workers",
      "/nothing",
    ];
    for (const token of ["adm1n-t0ken", "str4nger-t0ken", "w0rker-t0ken"]) {
      for (const path of [...paths, "/v1/default/workers/0/history"]) {
        const response = await fetch(url + path, { headers: { authorization: `Bearer ${token}` } });
        said += JSON.stringify([...response.headers]) + (await response.text());
      }
    }
    writeFileSync(tokens, "adm1n-t0ken admin");
    daemon.signal("SIGHUP");
    await until(() => events(daemon).includes("not-reloaded"));
    holder.signal("SIGTERM");
    said += (await holder.ended).stderr;
    daemon.signal("SIGTERM");
    const { code, stdout, stderr } = await daemon.ended;
    expect(code).toBe(0);
    said += stdout + stderr;
    expect(said).toContain('"event":"claimed"');
    expect(said).toContain("UNAUTHORIZED");
    expect(said).toContain("line 1 of");
    for (const secret of secrets) {
      expect(said).not.toContain(secret);
      expect(said).not.toContain(hashOf(secret));
      expect(said).not.toContain(Buffer.from(`:${secret}`).toString("base64"));
    }
  });

  test("are read again at SIGHUP, and a lease is held on", async () => {
    const tokens = sandbox.tokens("one worker");
    const { daemon, url } = await sandbox.serve("--tokens", tokens);
    const status = async (token: string): Promise<number> =>
      (await fetch(`${url}/v1/default/ids`, { method: "POST", headers: { authorization: `Bearer ${token}` } })).status;
    expect([await status("one"), await status("two")]).toEqual([200, 401]);
    sandbox.tokens("two worker");
    daemon.signal("SIGHUP");
    await until(() => events(daemon).includes("reloaded"));
    expect([await status("one"), await status("two")]).toEqual([401, 200]);
    expect(events(daemon).filter((event) => event === "claimed")).toHaveLength(1);
    daemon.signal("SIGTERM");
    expect(await daemon.ended).toMatchObject({ code: 0 });
  });

  test("are what the command lines use that a daemon says to try", async () => {
    const tokens = sandbox.tokens("t admin");
    const daemon = sandbox.start([
      "daemon",
      "--registry",
      sandbox.registry,
      "--listen",
      "127.0.0.1:0",
      "--tokens",
      tokens,
    ]);
    const lines: string[] = [];
    while (!lines.at(-1)?.includes("doctor")) lines.push(await daemon.line());
    const tries = lines.filter((line) => line.startsWith("  ")).map((line) => line.trim());
    expect(tries.length).toBeGreaterThan(5);
    for (const line of tries) {
      const shell = ["exec", "--registry", "memory:", "--", "sh", "-c", line.replace("curl -s", "curl -sf")];
      expect({ line, ...(await sandbox.run(shell, { env: { SNOWLEASE_TOKEN: "t" } })) }).toMatchObject({
        line,
        code: 0,
      });
    }
  });
});

describe("a daemon that other machines can reach", () => {
  test("starts with tokens and TLS, or when told that it is insecure, and else not", async () => {
    const { authority, certificate, key } = makeCertificates(sandbox.work);
    chmodSync(key, 0o600);
    const tokens = sandbox.tokens("t worker");
    const listen = ["--listen", "0.0.0.0:0"];
    const tls = ["--tls-cert", certificate, "--tls-key", key];
    const command = ["daemon", "--registry", "memory:", ...listen];
    for (const flags of [[], ["--tokens", tokens], tls, [...tls, "--tls-client-ca", authority]]) {
      const { code, stderr } = await sandbox.run([...command, ...flags]);
      expect([code, stderr]).toEqual([2, expect.stringMatching(/^snowlease: CONFIG_INVALID: .*`insecure`\.\n$/)]);
    }
    const refused = await sandbox.run([...command, "--tokens", tokens, "--tls-cert", certificate]);
    expect(refused).toMatchObject({ code: 2, stderr: expect.stringContaining("both `tlsCert` and `tlsKey`") });

    const secure = await sandbox.serve(...listen, ...tls, "--tokens", tokens, "--tls-client-ca", authority);
    const at = secure.url.replace("0.0.0.0", "127.0.0.1");
    const env = { SNOWLEASE_TOKEN: "t" };
    const whole = `${at}?tlsCa=${authority}&tlsCert=${certificate}&tlsKey=${key}`;
    expect(await sandbox.run(["id", "-n", "1", "--registry", whole], { env })).toMatchObject({ code: 0, stderr: "" });
    const others = [`${at}?tlsCa=${authority}`, at];
    for (const registry of others) {
      const args = ["id", "--registry", registry, "--operation-timeout", "500ms"];
      expect(await sandbox.run(args, { env })).toMatchObject({ code: 5, stdout: "" });
    }
    const open = await sandbox.serve(...listen, "--insecure");
    const local = open.url.replace("0.0.0.0", "127.0.0.1");
    expect(await sandbox.run(["id", "-n", "1", "--registry", local])).toMatchObject({ code: 0, stderr: "" });
  });
});
