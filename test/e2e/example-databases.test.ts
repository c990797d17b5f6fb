// The recipes of docs/databases.md, each with the packages of its user and a real server: examples/databases.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { chromiumMissing, startChromium } from "../support/chromium.ts";
import { mariadbProgram, mysqlProgram, postgresProgram } from "../support/databases.ts";
import { example } from "../support/examples.ts";
import { mongoProgram } from "../support/mongo.ts";
import type { Program } from "../support/store-server.ts";
import { asTested, pack, UserProject } from "../support/user-project.ts";

const minutes = 60_000;
/** IDs that no number holds: they end with the worker ID. Those of an idle service end with many zero bits in most layouts. */
const env = {
  SNOWLEASE_REGISTRY: "memory:",
  SNOWLEASE_LAYOUT: "timestamp:41,sequence:12,worker:10@1490346283706/1",
  SNOWLEASE_WORKER_ID: "7",
};
const folder = example("databases");

interface Recipe {
  readonly file: string;
  /** What the recipe is about: without it, other IDs come back, or IDs of another type. */
  readonly point?: string;
}

interface Server {
  url(): string;
  remove(): Promise<void>;
}

interface Group {
  readonly name: string;
  readonly program: Program<Server>;
  readonly recipes: readonly Recipe[];
}

const ofMysql: readonly Recipe[] = [
  { file: "mysql2.mjs", point: ", ...big" },
  { file: "drizzle-mysql2.mjs", point: ", supportBigNumbers: true, bigNumberStrings: true" },
  { file: "sequelize.mjs" },
];
const groups: readonly Group[] = [
  {
    name: "PostgreSQL",
    program: postgresProgram,
    recipes: [
      { file: "pg.mjs", point: ", types" },
      { file: "postgres.mjs", point: "types: { bigint: postgres.BigInt }," },
      { file: "text-column.mjs" },
      { file: "drizzle.mjs", point: '{ mode: "bigint" }' },
      { file: "typeorm.mjs", point: ", transformer" },
      { file: "sequelize.mjs", point: "return value === undefined ? undefined : BigInt(value)" },
    ],
  },
  { name: "MariaDB", program: mariadbProgram, recipes: ofMysql },
  { name: "MySQL", program: mysqlProgram, recipes: ofMysql },
  {
    name: "MongoDB's protocol",
    program: mongoProgram,
    recipes: [{ file: "mongoose.mjs", point: "{ useBigInt64: true }" }],
  },
];
const alone: readonly Recipe[] = [{ file: "json.mjs" }, { file: "prefix.mjs" }];

/** A folder in which somebody has installed these packages beside Snowlease. */
async function projectWith(...packages: readonly string[]): Promise<UserProject> {
  const project = new UserProject(env);
  const { file } = await pack();
  await project.install(file, ...packages);
  project.copy(folder, ".");
  return project;
}

/** Runs a recipe, and then without its point, which has to fail: else the recipe would be a habit. */
async function follow(
  project: UserProject,
  { file, point }: Recipe,
  url = "",
  node: readonly string[] = ["node"],
): Promise<void> {
  const command = ["env", `DATABASE_URL=${url}`, ...node];
  const name = file.replace(".mjs", "");
  expect(await project.read(...command, file)).toMatch(new RegExp(`^${name}: (ord_)?\\d{19} came back as it was\\n$`));
  if (point === undefined) return;
  const text = readFileSync(join(folder, file), "utf8");
  expect(text.split(point).length, `${file} has its point once`).toBe(2);
  const { code, stderr } = await project.run(...command, project.write(`without-${file}`, text.replace(point, "")));
  expect(code, stderr).not.toBe(0);
}

describe("databases", () => {
  let project: UserProject;
  beforeAll(async () => {
    const orms = ["drizzle-orm@0.45.4", "typeorm@1.1.1", "sequelize@6.37.8", "mongoose@9.12.1", "postgres@3.4.9"];
    project = await projectWith("--legacy-peer-deps", asTested("pg"), asTested("mysql2"), ...orms);
  }, 5 * minutes);

  describe.each(groups)("$name", ({ program, recipes }) => {
    let server: Server;
    beforeAll(async () => {
      if (program.missing === undefined) server = await program.start();
    }, 2 * minutes);
    afterAll(() => server?.remove());

    test.skipIf(program.missing !== undefined).each(recipes)("$file", (recipe) =>
      follow(project, recipe, server.url()),
    );
  });

  test.each(alone)("$file", (recipe) => follow(project, recipe));
});

describe("SQLite", () => {
  let project: UserProject;
  beforeAll(async () => {
    project = await projectWith("node@22", "better-sqlite3@13.2.0", asTested("libsql"));
  }, 5 * minutes);

  test.each<Recipe>([
    { file: "node-sqlite.mjs", point: "one.setReadBigInts(true);" },
    { file: "better-sqlite3.mjs", point: "db.defaultSafeIntegers();" },
  ])("$file", async (recipe) => {
    const node22 = [project.path("node_modules/.bin/node"), "--disable-warning=ExperimentalWarning"];
    await follow(project, recipe, project.path("orders.db"), node22);
  });

  test("better-sqlite3.mjs with libsql", async () => {
    const text = readFileSync(join(folder, "better-sqlite3.mjs"), "utf8").replace(
      'from "better-sqlite3"',
      'from "libsql"',
    );
    const file = project.write("libsql.mjs", text);
    expect(await project.read("env", `DATABASE_URL=${project.path("libsql.db")}`, "node", file)).toMatch(
      /came back as it was/,
    );
  });
});

test.skipIf(chromiumMissing !== undefined)("a browser reads the text, and rounds the number", async () => {
  const browser = await startChromium();
  try {
    const page = await browser.newPage();
    const id = "1278549019894743041";
    const seen = await page.evaluate(`(() => {
      const { text, bare } = JSON.parse('{"text":"${id}","bare":${id}}');
      const digits = JSON.parse('{"id":${id}}', (key, value, { source }) => (key === "id" ? source : value));
      return [String(BigInt(text)), String(bare), digits.id];
    })()`);
    expect(seen).toEqual([id, "1278549019894743000", id]);
  } finally {
    await browser.close();
  }
});

test.skipIf(postgresProgram.missing !== undefined)(
  "prisma.mjs",
  async () => {
    const project = await projectWith(
      "prisma@7.10.1",
      "@prisma/client@7.10.0",
      "@prisma/adapter-pg@7.10.1",
      asTested("tsx"),
    );
    // `generate` fetches an engine for migrations that it does not use, from where there are no packages. Any file will do.
    const generate = ["npx", "prisma", "generate", "--schema", "schema.prisma"];
    const generated = await project.run("env", "PRISMA_SCHEMA_ENGINE_BINARY=/bin/true", ...generate);
    expect(generated.code, generated.stderr).toBe(0);
    const server = await postgresProgram.start();
    try {
      await follow(project, { file: "prisma.mjs" }, server.url(), ["node", "--import", "tsx"]);
    } finally {
      await server.remove();
    }
  },
  5 * minutes,
);
