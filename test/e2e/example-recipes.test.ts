import { execFile } from "node:child_process";
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { example } from "../support/examples.ts";
import { mariadbMissing, MariadbServer } from "../support/mariadb.ts";
import { root } from "../support/markdown.ts";
import { postgresMissing, PostgresServer } from "../support/postgres.ts";

const run = promisify(execFile);

describe.skipIf((postgresMissing ?? mariadbMissing) !== undefined)(
  postgresMissing ?? mariadbMissing ?? "recipes",
  () => {
    const folder = mkdtempSync(join(tmpdir(), "snowlease-recipes-"));
    let postgres: PostgresServer;
    let mariadb: MariadbServer;

    beforeAll(async () => {
      cpSync(example("recipes"), folder, { recursive: true });
      const file = join(folder, "package.json");
      writeFileSync(file, readFileSync(file, "utf8").replace("file:../..", `file:${root}`));
      const quiet = ["--ignore-scripts", "--prefer-offline", "--no-audit", "--no-fund", "--loglevel=error"];
      await run("npm", ["install", ...quiet], { cwd: folder });
      // Prisma would download a program that only its migrations need.
      const env = { ...process.env, PRISMA_SCHEMA_ENGINE_BINARY: "/usr/bin/true", CHECKPOINT_DISABLE: "1" };
      await run("npx", ["--no-install", "prisma", "generate"], { cwd: folder, env });
      await run("npx", ["--no-install", "tsc"], { cwd: folder });
      postgres = await PostgresServer.start();
      mariadb = await MariadbServer.start();
    }, 600_000);
    afterAll(async () => {
      await postgres?.remove();
      await mariadb?.remove();
      rmSync(folder, { recursive: true, force: true });
    });

    test.each([
      ["drivers", 3],
      ["drizzle", 1],
      ["json", 1],
      ["mongoose", 1],
      ["prisma", 1],
      ["sequelize", 1],
      ["typeorm", 1],
    ])("%s: an ID comes back as it was stored", async (name, count) => {
      const urls = { POSTGRES_URL: postgres.url(), MYSQL_URL: mariadb.url() };
      const isMysql = ["sequelize", "typeorm"].includes(name);
      const env = { ...process.env, ...urls, DATABASE_URL: isMysql ? urls.MYSQL_URL : urls.POSTGRES_URL };
      const { stdout } = await run(process.execPath, [`out/${name}.js`], { cwd: folder, env });
      const pairs = stdout.trimEnd().split("\n");
      expect(pairs).toHaveLength(count);
      for (const pair of pairs) expect(pair).toMatch(/^(\d{19}) \1$/);
    });
  },
);
