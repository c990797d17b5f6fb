import { chmodSync, readFileSync, statSync, writeFileSync } from "node:fs";
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
  test("give access to their holders, from the environment, the URL and its query; others get an error that says so", async () => {
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

  test("and other secrets are in no log, error, listing or process title", async () => {
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

  test("are read again at SIGHUP, and a lease goes on", async () => {
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

  test("are made by `snowlease token`, and only their hashes are in the file", async () => {
    const path = sandbox.tokens("first read").replace(/tokens$/, "made");
    const make = async (...args: string[]): Promise<string> => {
      return (await sandbox.read(["token", ...args, "--append", path])).trim();
    };
    const worker = await make("worker", "orders*");
    expect(statSync(path).mode & 0o777).toBe(0o600);
    // As an editor may leave it.
    writeFileSync(path, readFileSync(path, "utf8").trimEnd());
    const reader = await make("read");
    const lines = [`${hashOf(worker)} worker orders*`, `${hashOf(reader)} read *`];
    expect(readFileSync(path, "utf8")).toBe(`${lines.join("\n")}\n`);
    expect(worker).toMatch(/^sl_[\w-]{43}$/);
    expect(reader).not.toBe(worker);

    const printed = await sandbox.read(["token", "admin"]);
    const [, token = "", line] = /^token.*: +(\S+)\nline.*: +(.+)\n$/.exec(printed) ?? [];
    expect(line).toBe(`${hashOf(token)} admin *`);
    expect(JSON.parse(await sandbox.read(["token", "admin", "a*", "--json"]))).toEqual({
      token: expect.stringMatching(/^sl_[\w-]{43}$/),
      line: expect.stringMatching(/^[0-9a-f]{64} admin a\*$/),
    });

    const { url } = await sandbox.serve("--tokens", path);
    const code = async (token: string, ...args: string[]): Promise<number> => {
      return (await sandbox.run([...args, "--registry", url], { env: { SNOWLEASE_TOKEN: token } })).code;
    };
    expect(await code(worker, "id", "--namespace", "orders_eu")).toBe(0);
    expect(await code(worker, "id", "--namespace", "users")).toBe(8);
    expect(await code(reader, "workers", "--namespace", "orders_eu")).toBe(0);
    expect(await code(reader, "id", "--namespace", "orders_eu")).toBe(8);
  });

  test("of one role show the doctor what they allow, and it names the rest", async () => {
    const { url } = await sandbox.serve(
      "--tokens",
      sandbox.tokens("r read", "w worker orders*", "both read", "both worker orders*"),
    );
    const doctor = async (token: string, namespace: string): Promise<readonly [number, Record<string, object>]> => {
      const args = ["doctor", "--registry", url, "--namespace", namespace, "--json"];
      const { code, stdout } = await sandbox.run(args, { env: { SNOWLEASE_TOKEN: token } });
      const { findings } = JSON.parse(stdout) as { findings: { check: string; status: string }[] };
      return [code, Object.fromEntries(findings.map((finding) => [finding.check, finding]))];
    };
    const env = { SNOWLEASE_TOKEN: "w" };
    await sandbox.read(["id", "-n", "1", "--registry", url, "--namespace", "orders"], { env });
    const unseen = (what: string, role: string): object => ({
      status: "unknown",
      detail: `The role of this token does not let it see ${what}. Use a token of the role \`${role}\` or \`admin\` to check that, too.`,
    });

    const [read, seenByReader] = await doctor("r", "orders");
    expect(read).toBe(0);
    expect(seenByReader).toMatchObject({
      pool: { status: "ok" },
      renewal: unseen("whether claims and renewals are permitted", "worker"),
    });
    const [worker, seenByWorker] = await doctor("w", "orders");
    expect(worker).toBe(0);
    expect(seenByWorker).toMatchObject({
      renewal: { status: "ok" },
      pool: unseen("how many worker IDs are taken", "read"),
    });
    // With this token, no program could make IDs there.
    const [other, seenElsewhere] = await doctor("w", "users");
    expect([other, seenElsewhere["namespace"]]).toMatchObject([1, { status: "fail" }]);
    // Its role is right, but its namespaces are not.
    await sandbox.read(["init", "--namespace", "users", "--registry", sandbox.registry]);
    const [both, seenByBoth] = await doctor("both", "users");
    expect([both, seenByBoth["renewal"]]).toMatchObject([1, { status: "fail" }]);
    const [stranger, seenByStranger] = await doctor("s", "orders");
    expect([stranger, seenByStranger["registry"]]).toMatchObject([1, { status: "fail" }]);
  });

  test("work in the command lines that a daemon suggests", async () => {
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
  test("starts only with tokens and TLS, or if the operator says that it is insecure", async () => {
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
