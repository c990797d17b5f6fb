import { execFile } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { describe, expect, onTestFinished, test } from "vitest";
import { Sandbox } from "../support/cli.ts";
import { startDaemonProcess } from "../support/daemon-process.ts";
import { Kubernetes, kubernetesMissing } from "../support/kubernetes.ts";
import { mariadbMissing, MariadbServer } from "../support/mariadb.ts";
import { type Block, documentation, root } from "../support/markdown.ts";
import { postgresMissing, PostgresServer } from "../support/postgres.ts";
import { redisMissing, RedisServer } from "../support/redis.ts";
import { exchanges, hasShape, shapeOf, Shell } from "../support/shell.ts";
import { snippetFolder, writeSnippet } from "../support/snippets.ts";
import { Etcd, etcdMissing } from "../support/etcd.ts";
import { ZooKeeper, zooKeeperMissing } from "../support/zookeeper.ts";

const run = promisify(execFile);
const pages = documentation();

describe("TypeScript", () => {
  const code = pages
    .flatMap((page) => page.blocks)
    .filter(({ language, info }) => ["ts", "js"].includes(language) && !info.has("norun"));

  test.each(code)("$where runs", async (block) => {
    const sandbox = new Sandbox();
    const name = writeSnippet(snippetFolder(sandbox.work), block);
    const { env, cwd } = sandbox.surroundings();
    const file = join(cwd, name);
    writeFileSync(file, readFileSync(file, "utf8").replace("export {};", "process.exit();\nexport {};"));
    const loader = join(root, "node_modules/tsx/dist/loader.mjs");
    await run(process.execPath, ["--import", loader, file], { cwd, env });
  });
});

/** What a page's commands may need, by the name that they have for it. */
const servers: Readonly<
  Record<string, { readonly missing: string | undefined; start(sandbox: Sandbox): Promise<Server> }>
> = {
  daemon: {
    missing: undefined,
    async start(sandbox) {
      const { url } = await sandbox.serve();
      await sandbox.read(["id", "--registry", url]); // somebody has used it
      return { stands: "http://127.0.0.1:7070", url };
    },
  },
  resp: {
    missing: redisMissing,
    async start(sandbox) {
      const daemon = await startDaemonProcess(sandbox.registry, 0, ["--resp", "127.0.0.1:0"]);
      onTestFinished(async () => void (await daemon.end("SIGKILL")));
      return { stands: "-p 7071", url: `-p ${new URL(daemon.resp).port}` };
    },
  },
  redis: {
    missing: redisMissing,
    start: async () => served("redis://HOST:6379", await RedisServer.start()),
  },
  postgres: {
    missing: postgresMissing,
    start: async () => served("postgres://USER:PASSWORD@HOST:5432/DATABASE", await PostgresServer.start()),
  },
  mariadb: {
    missing: mariadbMissing,
    start: async () => served("mysql://USER:PASSWORD@HOST:3306/DATABASE", await MariadbServer.start()),
  },
  etcd: {
    missing: etcdMissing,
    // With its scheme for Snowlease, without one for etcdctl.
    async start() {
      const cluster = await Etcd.start();
      const url = (): string => `127.0.0.1:${cluster.first.port}`;
      return served("a:2379,b:2379,c:2379", { url, remove: () => cluster.remove() });
    },
  },
  kubernetes: {
    missing: kubernetesMissing,
    start: async () => served("kubernetes://snowlease?context=prod", await Kubernetes.start()),
  },
  zookeeper: {
    missing: zooKeeperMissing,
    start: async () => served("zookeeper://a:2181,b:2181,c:2181", await ZooKeeper.start()),
  },
};

interface Server {
  /** How the page names it. */
  readonly stands: string;
  readonly url: string;
}

function served(stands: string, server: { url(): string; remove(): Promise<void> }): Server {
  onTestFinished(() => server.remove());
  return { stands, url: server.url() };
}

describe("commands", () => {
  const withCommands = pages
    .map(({ path, blocks: all }) => ({ path, all: all.filter(isRun) }))
    .filter(({ all }) => all.length > 0);
  const missing = (all: readonly Block[]): string | undefined =>
    all.map(({ info }) => servers[info.get("with") ?? ""]?.missing).find((reason) => reason !== undefined);

  for (const { path, all } of withCommands) {
    const reason = missing(all);
    test.skipIf(reason !== undefined)(reason ?? `of ${path} do what the page says`, { timeout: 120_000 }, async () => {
      const sandbox = new Sandbox();
      const shell = new Shell(sandbox);
      onTestFinished(() => shell.end());
      const started = new Map<string, Server>();
      for (const { where, language, info, text } of all) {
        const name = info.get("with");
        const server = name === undefined ? undefined : (started.get(name) ?? (await servers[name]?.start(sandbox)));
        if (name !== undefined && server === undefined) throw new Error(`${where}: there is no server ${name}.`);
        if (name !== undefined && server !== undefined) started.set(name, server);
        await shell.run(name === "daemon" ? `export SNOWLEASE_REGISTRY=${server?.url}` : "unset SNOWLEASE_REGISTRY");
        const script = server === undefined ? text : text.replaceAll(server.stands, server.url);
        if (language === "console") await compare(shell, where, script);
        else {
          const { failures, output } = await shell.run(script);
          expect(failures, `${where} printed: ${output}`).toEqual([]);
        }
      }
    });
  }
});

function isRun({ language, info }: Block): boolean {
  return (language === "sh" || language === "console") && !info.has("norun");
}

async function compare(shell: Shell, where: string, text: string): Promise<void> {
  const expected = exchanges(text);
  const printed = await shell.answers(expected.map(({ command }) => command));
  for (const [i, { command, printed: shape }] of expected.entries()) {
    const output = printed[i] ?? "";
    if (!hasShape(output, shape)) expect(shapeOf(output), `${where}: ${command}`).toBe(shapeOf(shape));
  }
}
