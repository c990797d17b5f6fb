import { chmodSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Sandbox } from "../support/cli.ts";
import { mariadbMissing, MariadbServer } from "../support/mariadb.ts";
import { postgresMissing, PostgresServer } from "../support/postgres.ts";
import { durable, redisMissing, RedisServer } from "../support/redis.ts";

const folder = mkdtempSync(join(tmpdir(), "snowlease-socket-"));
// Also for the user as whom PostgreSQL runs.
beforeAll(() => chmodSync(folder, 0o777));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const encoded = encodeURIComponent(folder);
const socket = (name: string): string => join(folder, name);

const stores: readonly {
  readonly name: string;
  readonly missing: string | undefined;
  start(): Promise<PostgresServer | MariadbServer | RedisServer>;
  /** All lead to one registry; of the first one, what messages show. */
  urls(server: { readonly port: number }): readonly string[];
}[] = [
  {
    name: "PostgreSQL",
    missing: postgresMissing,
    start: () => PostgresServer.start({ unix_socket_directories: folder }),
    urls: ({ port }) => [
      `postgres://postgres@${encoded}:${port}/postgres`,
      `postgresql://postgres@localhost:${port}/postgres?host=${folder}`,
      `postgres://postgres@:${port}/postgres?host=${encoded}`,
    ],
  },
  {
    name: "MariaDB",
    missing: mariadbMissing,
    start: () => MariadbServer.start([`--socket=${socket("m.sock")}`]),
    urls: () => [
      `mysql://root@${encoded}%2Fm.sock/snowlease`,
      `mysql://root@localhost/snowlease?socketPath=${socket("m.sock")}`,
      `mariadb://root@/snowlease?unix_socket=${socket("m.sock")}`,
    ],
  },
  {
    name: "Redis",
    missing: redisMissing,
    start: () => RedisServer.start([...durable, "--unixsocket", socket("r.sock")], "pass"),
    urls: () => [`redis+unix://:pass@${socket("r.sock")}?db=2`, `redis+unix://default:pass@${encoded}/r.sock?db=2`],
  },
];

describe.each(stores)("$name by its socket", ({ missing, start, urls }) => {
  describe.skipIf(missing !== undefined)(missing ?? "in the file system", () => {
    let server: PostgresServer | MariadbServer | RedisServer;

    beforeAll(async () => {
      server = await start();
    });
    afterAll(() => server.remove());

    test("the command line leases there, whichever way the URL names it", async () => {
      const sandbox = new Sandbox();
      const [url = "", ...others] = urls(server);
      const made = await sandbox.read(["init", "orders", "--new", "--registry", url]);
      expect(made).toMatch(/^Namespace orders is ready in /);
      expect(made).toContain(url.replace(/(?<=:)pass@|(?<=\/\/)\w+@/, "***@").replace(/\?.*/, ""));
      for (const each of [url, ...others]) {
        const id = await sandbox.read(["id", "-n", "1", "--registry", each, "--namespace", "orders"]);
        expect(id).toMatch(/^\d+\n$/);
      }
      const workers = await sandbox.read(["workers", "--registry", url, "--namespace", "orders", "--json"]);
      const fences = (JSON.parse(workers) as { fence: number }[]).map(({ fence }) => fence);
      expect(fences.reduce((sum, fence) => sum + fence, 0)).toBe(1 + others.length);
    });

    test("a socket that is not there is named", async () => {
      const sandbox = new Sandbox();
      const url = urls(server)[0]?.replace("snowlease-socket-", "snowlease-none-") ?? "";
      const args = ["workers", "--registry", url, "--namespace", "orders", "--operation-timeout", "500ms"];
      const { code, stderr } = await sandbox.run(args);
      expect([code, stderr]).toEqual([5, expect.stringContaining("snowlease-none-")]);
      expect(stderr).not.toContain("pass");
    });
  });
});
