// A service on Next.js, whose server build bundles the library, by either of its bundlers and without a setting.

import { spawn } from "node:child_process";
import { rmSync } from "node:fs";
import { beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { CliProcess, Sandbox, until } from "../support/cli.ts";
import { startDaemonProcess } from "../support/daemon-process.ts";
import { postgresProgram } from "../support/databases.ts";
import { redisProgram } from "../support/redis.ts";
import { freePort } from "../support/servers.ts";
import type { Program } from "../support/store-server.ts";
import { toolchains } from "../support/toolchains.ts";
import { asTested, pack, sqlitePackages, UserProject } from "../support/user-project.ts";

const minutes = 60_000;
const project = new UserProject();

beforeAll(async () => {
  const { file } = await pack();
  const drivers = ["ioredis", "redlock", "pg", "mysql2"].map(asTested);
  await project.install(file, "next@16.4.6", "react@19.2.1", "react-dom@19.2.1", ...drivers, ...sqlitePackages);
  project.write(
    "app/layout.js",
    `export default function Layout({ children }) { return <html lang="en"><body>{children}</body></html>; }`,
  );
  project.write("app/page.js", "export default function Page() { return <p>Orders</p>; }");
  // As docs/toolchains.md has it.
  project.write(
    "app/orders/route.js",
    `import { snowlease } from "snowlease";

const ids = () => (globalThis.ids ??= snowlease());

export async function POST() {
  return Response.json({ id: await (await ids()).nextStringAsync() }, { status: 201 });
}
`,
  );
}, 5 * minutes);

/** The ID of one order, from a server that leases from this registry. */
async function orderFrom(registry: string): Promise<string> {
  const port = await freePort();
  const command = ["node_modules/next/dist/bin/next", "start", "-p", String(port), "-H", "127.0.0.1"];
  const server = new CliProcess(
    spawn(process.execPath, command, {
      cwd: project.folder,
      env: { ...process.env, SNOWLEASE_REGISTRY: registry, NEXT_TELEMETRY_DISABLED: "1", NODE_ENV: "production" },
    }),
  );
  const url = `http://127.0.0.1:${port}`;
  try {
    await until(
      async () =>
        server.isOver ||
        (await fetch(url).then(
          () => true,
          () => false,
        )),
    );
    const response = await fetch(`${url}/orders`, { method: "POST" });
    expect(response.status, server.stderr).toBe(201);
    return ((await response.json()) as { id: string }).id;
  } finally {
    server.signal("SIGTERM");
    await server.ended;
  }
}

async function withNamespace(program: Program<{ url(): string; remove(): Promise<void> }>): Promise<string> {
  const server = await program.start();
  onTestFinished(() => server.remove());
  expect(await new Sandbox().run(["init", "default", "--new", "--registry", server.url()])).toMatchObject({ code: 0 });
  return server.url();
}

const bundlers = ["turbopack", "webpack"];

test("docs/toolchains.md has a row of each", () => {
  const rows = toolchains("Bundlers").filter((row) => row.startsWith("Next.js"));
  expect(rows).toEqual(bundlers.map((bundler) => `Next.js | ${bundler}`));
});

describe.each(bundlers)("next build --%s", (bundler) => {
  beforeAll(async () => {
    rmSync(project.path(".next"), { recursive: true, force: true });
    const build = ["env", "NEXT_TELEMETRY_DISABLED=1", "npx", "next", "build", `--${bundler}`];
    const { code, stdout, stderr } = await project.run(...build);
    expect(code, stdout + stderr).toBe(0);
  }, 5 * minutes);

  test("a file, and a daemon", async () => {
    const file = `sqlite:${project.path(`${bundler}.db`)}`;
    expect(await orderFrom(file)).toMatch(/^\d{19}$/);
    const daemon = await startDaemonProcess(file);
    onTestFinished(async () => void (await daemon.end()));
    expect(await orderFrom(daemon.url)).toMatch(/^\d{19}$/);
  });

  test.skipIf(redisProgram.missing !== undefined)("Redis", async () => {
    expect(await orderFrom(await withNamespace(redisProgram))).toMatch(/^\d{19}$/);
  });

  test.skipIf(postgresProgram.missing !== undefined)("PostgreSQL", async () => {
    expect(await orderFrom(await withNamespace(postgresProgram))).toMatch(/^\d{19}$/);
  });
});
