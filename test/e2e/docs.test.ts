import { execFile } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, normalize } from "node:path";
import { promisify } from "node:util";
import { parse } from "yaml";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { resolveConfig } from "../../src/config/config.ts";
import { Sandbox } from "../support/cli.ts";
import { Kubernetes, kubernetesMissing } from "../support/kubernetes.ts";
import { mariadbMissing, MariadbServer } from "../support/mariadb.ts";
import { anchorsOf, type Block, documentation, linksOf, prose, readPage, root } from "../support/markdown.ts";
import { postgresMissing, PostgresServer } from "../support/postgres.ts";
import { startDaemonProcess } from "../support/daemon-process.ts";
import { redisMissing, RedisServer } from "../support/redis.ts";
import { exchanges, hasShape, shapeOf, Shell } from "../support/shell.ts";
import { snippetFolder, writeSnippet } from "../support/snippets.ts";
import { Etcd, etcdMissing } from "../support/etcd.ts";
import { ZooKeeper, zooKeeperMissing } from "../support/zookeeper.ts";

const run = promisify(execFile);
const pages = documentation();
const blocks = pages.flatMap((page) => page.blocks);
const others = ["CONTRIBUTING.md", "test/bugs.md", "examples/README.md", "prove/README.md", "spec/README.md"].map(
  readPage,
);

/** The reason why a block does not run here. Keep the list short, and each reason good. */
const unrun: Readonly<Record<string, string>> = {
  setup: "npm start and npm test themselves: what they start is run by other tests, and npm test runs this one",
  help: "the examples of --help: cli-usage reads them, and each names a registry of its own",
  npm: "installs packages",
  bench: "takes half an hour",
  copy: "needs a copy of a database: cli-separate and the test of separated copies run the same commands",
  fleet: "needs the hosts of a fleet: cli-migrate and the migration tests run the same steps",
  host: "needs a machine of that name, with certificates: http-tls and cli-access run the same steps",
  oracle: "no Oracle can be had here",
  programs: "needs programs that are not installed here",
  excerpt: "an excerpt of an example that is compiled and run as a whole",
};

test("every block is run, compiled or read, or says why not", () => {
  const kinds = ["ts", "js", "sh", "console", "json", "yaml", "text"];
  for (const { where, language, info } of blocks) {
    expect(kinds, where).toContain(language);
    for (const key of info.keys()) expect(["norun", "with", "exact"], where).toContain(key);
    const why = info.get("norun");
    if (why !== undefined) expect(Object.keys(unrun), where).toContain(why);
  }
  const counts = Object.keys(unrun).map((why) => [why, blocks.filter(({ info }) => info.get("norun") === why).length]);
  for (const [why, count] of counts) expect(count, `blocks with norun=${why}`).toBeGreaterThan(0);
  const told = blocks.filter(({ info }) => !["help", "excerpt", undefined].includes(info.get("norun")));
  expect(told.length, told.map(({ where }) => where).join(", ")).toBeLessThanOrEqual(20);
});

describe("pages", () => {
  const read = new Map([...pages, ...others].map((page) => [page.path, page]));

  test.each([...pages, ...others])("$path links to existing targets", (page) => {
    for (const target of linksOf(page)) {
      if (/^https?:/.test(target)) continue;
      const [file = "", anchor] = target.split("#");
      const path = file === "" ? page.path : normalize(join(dirname(page.path), file));
      expect(existsSync(join(root, path)), `${page.path} links to ${target}`).toBe(true);
      if (anchor === undefined) continue;
      if (!read.has(path)) read.set(path, readPage(path));
      expect(anchorsOf(read.get(path) ?? page), `${page.path} links to ${target}`).toContain(anchor);
    }
  });

  test.each(pages.filter(({ path }) => path !== "README.md"))("$path begins with its audience", ({ text }) => {
    expect(text).toMatch(/^# [^\n]+\n\nFor [^.]+[.:]/);
    expect(
      text.split("\n").filter((line) => line.startsWith("# ") && !line.startsWith("# HELP")).length,
    ).toBeGreaterThan(0);
  });

  test("the README leads to every page, and is short", () => {
    const [readme] = pages;
    const linked = new Set((readme === undefined ? [] : linksOf(readme)).map((target) => target.split("#")[0]));
    for (const { path } of pages.slice(1)) expect([...linked]).toContain(path);
    expect(readme?.text.split("\n").length).toBeLessThan(160);
  });

  test("pictures have text for readers without sight, and need nothing from other sites", () => {
    for (const page of pages) {
      for (const [, alt = "", target = ""] of prose(page).matchAll(/!\[([^\]]*)\]\(([^)]+)\)/g)) {
        expect(alt.length, `${page.path}: ${target}`).toBeGreaterThan(40);
        const picture = readFileSync(join(root, dirname(page.path), target), "utf8");
        expect(picture).toMatch(/<title[\s\S]*<desc[\s\S]*prefers-color-scheme: dark/);
        expect(picture.replace('xmlns="http://www.w3.org/2000/svg"', "")).not.toMatch(/https?:/);
        expect(statSync(join(root, dirname(page.path), target)).size).toBeLessThan(20_000);
      }
    }
  });
});

test("excerpts match the example", () => {
  const folders = ["own-registry", "nats-registry", "recipes", "recipes/prisma"].map((name) =>
    join(root, "examples", name),
  );
  const example = folders.flatMap((folder) =>
    readdirSync(folder, { withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map(({ name }) => readFileSync(join(folder, name), "utf8")),
  );
  const lines = new Set(example.flatMap((text) => text.split("\n").map((line) => line.trim())));
  for (const { where, text } of blocks.filter(({ info }) => info.get("norun") === "excerpt")) {
    for (const line of text.split("\n")) if (line.trim() !== "…") expect(lines, where).toContain(line.trim());
  }
});

describe("TypeScript", () => {
  const code = blocks.filter(
    ({ language, info }) => ["ts", "js"].includes(language) && info.get("norun") !== "excerpt",
  );
  let folder: string;
  beforeAll(() => {
    folder = snippetFolder(mkdtempSync(join(tmpdir(), "snowlease-docs-")));
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  test("every block compiles as it stands, against the published types", async () => {
    const files = new Map(code.map((block) => [writeSnippet(folder, block), block.where]));
    const { stdout } = await run(join(root, "node_modules/.bin/tsc"), ["-p", "."], { cwd: folder }).catch(
      (error: unknown) => {
        return error as { stdout: string };
      },
    );
    const told = stdout.replace(/^([\w-]+\.ts)/gm, (file: string) => files.get(file) ?? file);
    expect(told).toBe("");
  });

  test.each(code.filter(({ info }) => !info.has("norun")))("$where runs", async (block) => {
    const sandbox = new Sandbox();
    const name = writeSnippet(snippetFolder(sandbox.work), block);
    const { env, cwd } = sandbox.surroundings();
    const file = join(cwd, name);
    writeFileSync(file, readFileSync(file, "utf8").replace("export {};", "process.exit();\nexport {};"));
    const loader = join(root, "node_modules/tsx/dist/loader.mjs");
    await run(process.execPath, ["--import", loader, file], { cwd, env });
  });
});

/** What a page's commands may need, by the page's name for it. */
const servers: Readonly<
  Record<string, { readonly missing: string | undefined; start(sandbox: Sandbox): Promise<Server> }>
> = {
  daemon: {
    missing: undefined,
    async start(sandbox) {
      const { url } = await sandbox.serve();
      await sandbox.read(["id", "--registry", url]); // another client has used it
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
  /** The page's name for it. */
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

describe("data", () => {
  test.each(blocks.filter(({ language }) => language === "json"))(
    "$where is JSON, and its reader accepts it",
    (block) => {
      const value: unknown = JSON.parse(block.text);
      if (!block.info.has("exact")) return;
      const sandbox = new Sandbox();
      writeFileSync(join(sandbox.work, "snowlease.json"), JSON.stringify(value));
      expect(() => resolveConfig({ flags: {}, env: {}, cwd: sandbox.work })).not.toThrow();
    },
  );

  test.runIf(blocks.some(({ language }) => language === "yaml"))("YAML blocks can be read", () => {
    for (const { language, text } of blocks) if (language === "yaml") expect(parse(text)).toBeTypeOf("object");
  });
});
