import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { defaultLayout } from "../../src/core/layout.ts";
import type { Registry } from "../../src/core/registry.ts";
import { Sandbox } from "../support/cli.ts";
import { type DaemonProcess, startDaemonProcess } from "../support/daemon-process.ts";
import { blackHole, FaultProxy } from "../support/fault-proxy.ts";
import { postgresMissing, PostgresServer } from "../support/postgres.ts";
import { openRedis, redisMissing, RedisServer } from "../support/redis.ts";
import { openSql } from "../support/sql.ts";
import { namespace } from "../support/subject.ts";

/** A store, and how to hurt it. */
interface Patient {
  readonly port: number;
  url(): string;
  remove(): Promise<void>;
}

interface Store<Server extends Patient> {
  readonly name: string;
  readonly missing: string | undefined;
  readonly start: () => Promise<Server>;
  readonly open: (url: string) => Promise<Registry>;
  readonly setReadOnly: (server: Server, to: boolean) => Promise<unknown>;
  readonly setSchema: (server: Server, version: number) => Promise<unknown>;
}

interface Found {
  readonly healthy: boolean;
  readonly findings: readonly { readonly check: string; readonly status: string; readonly detail: string }[];
}

const redis: Store<RedisServer> = {
  name: "Redis",
  missing: redisMissing,
  start: () => RedisServer.start(),
  open: openRedis,
  // A replica of nobody who is there.
  setReadOnly: (server, to) =>
    to ? server.client().replicaof("127.0.0.1", 1) : server.client().replicaof("NO", "ONE"),
  setSchema: (server, version) => server.client().hset(`workerId/${namespace}:meta`, "schema", version),
};

const postgres: Store<PostgresServer> = {
  name: "PostgreSQL",
  missing: postgresMissing,
  start: () => PostgresServer.start(),
  open: openSql,
  // A standby of nobody who is there.
  async setReadOnly(server, to) {
    await server.kill();
    const signal = join(server.data, "standby.signal");
    if (to) writeFileSync(signal, "", { mode: 0o600 });
    else rmSync(signal);
    await server.start();
  },
  setSchema: (server, version) =>
    server.query(`UPDATE workerid_meta_${namespace} SET value = '${version}' WHERE name = 'schema'`),
};

function examinations<Server extends Patient>({ missing, start, open, setReadOnly, setSchema }: Store<Server>): void {
  describe.skipIf(missing !== undefined)(missing ?? "doctor", () => {
    let server: Server;
    let proxy: FaultProxy;
    let registry: Registry;
    let daemon: DaemonProcess;
    /** Where the doctor is sent: to the store, and to a daemon on it; both by way of the same network. */
    let ways: readonly string[];
    let sandbox: Sandbox;

    beforeAll(async () => {
      server = await start();
      proxy = await FaultProxy.start(server.port);
      registry = await open(server.url());
      await registry.init({ namespace, layout: defaultLayout.fingerprint });
      const far = server.url().replace(`:${server.port}`, `:${proxy.port}`);
      daemon = await startDaemonProcess(far);
      ways = [far, daemon.url];
    });
    afterAll(async () => {
      await daemon.end("SIGKILL");
      await proxy.stop();
      await registry.close();
      await server.remove();
    });
    beforeEach(() => {
      sandbox = new Sandbox();
    });
    afterEach(() => proxy.heal());

    async function examined(way: string): Promise<Found & { readonly code: number }> {
      const args = ["doctor", "--json", "--registry", way, "--namespace", namespace];
      const { code, stdout, stderr } = await sandbox.run(args);
      expect(stderr).toBe("");
      const found = JSON.parse(stdout) as Found;
      for (const { detail } of found.findings) expect(detail).toMatch(/^[^\r\n]+[.)]$/);
      expect(code).toBe(found.healthy ? 0 : 1);
      return { ...found, code };
    }

    /** At once: each waits in vain for some seconds. */
    const allExamined = (): Promise<Found[]> => Promise.all(ways.map(examined));

    const failures = ({ findings }: Found): string[] =>
      findings.filter(({ status }) => status === "fail").map(({ detail }) => detail);

    test("nothing is wrong", async () => {
      for (const way of ways) {
        const { code, findings } = await examined(way);
        const checks = findings.map(({ check }) => check);
        const all = ["registry", "promise", "clock", "namespace", "renewal", "layout", "pool", "clock-sync", "process"];
        expect(checks).toEqual(expect.arrayContaining(all));
        expect(code).toBe(0);
      }
    });

    test("it is far away", async () => {
      proxy.set({ delay: 130 });
      for (const way of ways) {
        const { code, findings } = await examined(way);
        expect(findings.find(({ check }) => check === "registry")).toMatchObject({
          status: "warn",
          detail: expect.stringMatching(/answers in \d+\.\d\d ms\. Look at/) as string,
        });
        expect(code).toBe(0);
      }
    });

    test("it keeps silent", async () => {
      proxy.set(blackHole);
      for (const found of await allExamined()) {
        expect(failures(found)).toEqual([expect.stringContaining("REGISTRY_UNAVAILABLE: ")]);
      }
    });

    test("it is gone", async () => {
      proxy.set({ refuse: true });
      proxy.reset();
      for (const found of await allExamined()) {
        expect(failures(found)).toEqual([expect.stringContaining("REGISTRY_UNAVAILABLE: ")]);
      }
    });

    test("it is of a newer schema", async () => {
      await setSchema(server, 2);
      try {
        for (const found of await allExamined()) {
          const told = failures(found);
          expect(told.length).toBeGreaterThan(0);
          for (const detail of told) expect(detail).toMatch(/^SCHEMA_INCOMPATIBLE: .*version 2/);
        }
      } finally {
        await setSchema(server, 1);
      }
    });

    // Behind this, a Redis is in quarantine.
    test("it lets itself be read only", async () => {
      await setReadOnly(server, true);
      try {
        proxy.reset();
        for (const found of await allExamined()) {
          const told = failures(found);
          expect(told.length).toBeGreaterThan(0);
          for (const detail of told)
            expect(detail).toMatch(/^REGISTRY_UNAVAILABLE: .*(?:standby|replica|behind this daemon)/);
        }
      } finally {
        await setReadOnly(server, false);
      }
    });
  });
}

describe(redis.name, () => examinations(redis));
describe(postgres.name, () => examinations(postgres));
