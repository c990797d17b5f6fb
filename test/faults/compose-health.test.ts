import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import { parse } from "yaml";
import { Etcd, etcdMissing } from "../support/etcd.ts";
import { mariadbMissing, MariadbServer } from "../support/mariadb.ts";
import { postgresMissing, PostgresServer } from "../support/postgres.ts";
import { redisMissing, RedisServer } from "../support/redis.ts";
import { isProgram } from "../support/servers.ts";

const { services } = parse(readFileSync(join(import.meta.dirname, "../../docker-compose.yml"), "utf8")) as {
  readonly services: Readonly<Record<string, { readonly healthcheck: { readonly test: readonly string[] } }>>;
};

/** Whether the health check of a store in docker-compose.yml calls it healthy. `port`: arguments that name a server of this machine. */
function isHealthy(store: string, ...port: readonly string[]): boolean {
  const [kind, program = "", ...args] = services[store]?.healthcheck.test ?? [];
  expect(kind).toBe("CMD");
  // Later than Docker gives up, which is an answer, too: this machine may be busy.
  const { status, error } = spawnSync(program, [...port, ...args], { stdio: "ignore", timeout: 10_000 });
  expect(Object(error).code).not.toBe("ENOENT");
  return status === 0;
}

const ends: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0)) await end();
});

describe("docker-compose.yml calls a store healthy only where it answers", () => {
  test.skipIf(redisMissing !== undefined)("redis: not where it is away, silent, or refuses", async () => {
    const server = await RedisServer.start();
    ends.push(() => server.remove());
    const port = ["-p", String(server.port)];
    expect(isHealthy("redis", ...port)).toBe(true);
    server.process.signal("SIGSTOP");
    expect(isHealthy("redis", ...port)).toBe(false);
    await server.kill();
    expect(isHealthy("redis", ...port)).toBe(false);
    // It answers NOAUTH, with which redis-cli alone is content.
    const closed = await RedisServer.start([], "secret");
    ends.push(() => closed.remove());
    expect(isHealthy("redis", "-p", String(closed.port))).toBe(false);
  });

  test.skipIf(postgresMissing !== undefined)("postgres: not where it is away, or silent", async () => {
    const server = await PostgresServer.start();
    ends.push(() => server.remove());
    const port = `--port=${server.port}`;
    expect(isHealthy("postgres", port)).toBe(true);
    server.process.signal("SIGSTOP");
    expect(isHealthy("postgres", port)).toBe(false);
    await server.process.kill();
    expect(isHealthy("postgres", port)).toBe(false);
  });

  describe.each(["mysql", "mariadb"])("%s", (store) => {
    test.skipIf(mariadbMissing !== undefined || !isProgram(store))(
      "not where it is away, or refuses the login",
      async () => {
        const server = await MariadbServer.start();
        ends.push(() => server.remove());
        const port = ["--no-defaults", `--port=${server.port}`];
        expect(isHealthy(store, ...port)).toBe(false);
        await server.query("CREATE USER snowlease@'127.0.0.1' IDENTIFIED BY 'snowlease'");
        await server.query("GRANT ALL ON snowlease.* TO snowlease@'127.0.0.1'");
        expect(isHealthy(store, ...port)).toBe(true);
        await server.process.kill();
        expect(isHealthy(store, ...port)).toBe(false);
      },
    );
  });

  test.skipIf(etcdMissing !== undefined)("etcd: not where it is away, or has lost its majority", async () => {
    const etcd = await Etcd.start(3);
    ends.push(() => etcd.remove());
    await etcd.leader();
    const [first, ...others] = etcd.members;
    const endpoint = `--endpoints=${first?.client}`;
    expect(isHealthy("etcd", endpoint)).toBe(true);
    for (const member of others) member.process.signal("SIGSTOP");
    expect(isHealthy("etcd", endpoint)).toBe(false);
    for (const member of others) member.process.signal("SIGCONT");
    await first?.process.kill();
    expect(isHealthy("etcd", endpoint)).toBe(false);
  });
});
