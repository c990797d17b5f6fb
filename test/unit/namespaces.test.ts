import { describe, expect, test } from "vitest";
import { layouts } from "../../src/id/layout.ts";
import { type ErrorCode, SnowleaseError } from "../../src/id/errors.ts";
import { listNamespaces } from "../../src/ops/namespaces.ts";
import { daemonRegistry } from "../../src/registries/daemon/registry.ts";
import { namespaceOf } from "../../src/registries/sql/statements.ts";
import { existingNamespaces } from "../../src/rule/namespace.ts";
import type { Registry } from "../../src/rule/registry.ts";
import { startDaemon } from "../../src/daemon.ts";
import { lossyRegistry, memoryRegistry } from "../../src/testing.ts";

const layout = layouts.westid.fingerprint;
const log = { info() {}, warn() {}, error() {} };
const listen = { host: "127.0.0.1", port: 0 };

async function* each(names: readonly string[]): AsyncGenerator<string> {
  yield* names;
}

/** Describes what exists, and fails with this code for the others. */
function describing(existing: readonly string[], code?: ErrorCode) {
  const asked: string[] = [];
  let running = 0;
  let most = 0;
  return {
    asked,
    most: () => most,
    async describe(name: string): Promise<unknown> {
      asked.push(name);
      most = Math.max(most, ++running);
      await Promise.resolve();
      running--;
      if (existing.includes(name)) return {};
      if (code === undefined) return undefined;
      throw new SnowleaseError(code, "It cannot be read.");
    },
  };
}

describe("the names that a store offers", () => {
  const names = Array.from({ length: 50 }, (_, i) => `n${String(i).padStart(2, "0")}`);

  test("are kept where they exist, and looked at several at a time", async () => {
    const existing = names.filter((_, i) => i % 3 === 0);
    const { describe, asked, most } = describing(existing);
    expect(await existingNamespaces(each(names), describe)).toEqual(existing);
    expect([asked, most()]).toEqual([names, 16]);
  });

  test("are read no further than a page goes", async () => {
    const { describe, asked } = describing(names);
    expect(await existingNamespaces(each(names), describe, { after: "n07", limit: 3 })).toEqual(["n08", "n09", "n10"]);
    expect(asked).toEqual(["n08", "n09", "n10"]);
    expect(await existingNamespaces(each(names), describe, { limit: 0 })).toEqual([]);
  });

  test("are left out where no namespace could be called so", async () => {
    const odd = ["", ".clock", "Orders", "a-b", "a".repeat(33), "0a", "_a", "a b", "a/b"];
    const { describe } = describing([...odd, "a"]);
    expect(await existingNamespaces(each([...odd, "a"]), describe)).toEqual(["a"]);
  });

  test("hide no other one where one of them is damaged or forbidden", async () => {
    for (const code of ["SCHEMA_INCOMPATIBLE", "FORBIDDEN"] as const) {
      expect(await existingNamespaces(each(["a", "b", "c"]), describing(["a", "c"], code).describe)).toHaveLength(3);
    }
    // Only a quarantine is noted under b.
    const { describe } = describing(["a", "c"], "QUARANTINE");
    expect(await existingNamespaces(each(["a", "b", "c"]), describe)).toEqual(["a", "c"]);
    const silent = describing(["a"], "REGISTRY_UNAVAILABLE");
    await expect(existingNamespaces(each(["a", "b"]), silent.describe)).rejects.toThrow("cannot be read");
  });
});

test("tables of other programs are of no namespace", () => {
  const named = {
    workerid_meta: "default",
    workerid_meta_orders: "orders",
    workerid_meta_default: undefined,
    workerid_metadata: undefined,
    workerid_meta_: undefined,
    workerid_meta__a: undefined,
    workerid_meta_Orders: undefined,
    workerid_window_orders: undefined,
    other_meta_orders: undefined,
  };
  for (const [table, namespace] of Object.entries(named))
    expect([table, namespaceOf(table)]).toEqual([table, namespace]);
});

test("a namespace that cannot be read is listed with its error, and one that goes meanwhile is not", async () => {
  const registry = memoryRegistry();
  for (const namespace of ["a", "b", "c"]) await registry.init({ namespace, layout });
  const spoilt: Registry = {
    ...registry,
    async describe(namespace) {
      if (namespace === "b") throw new SnowleaseError("SCHEMA_INCOMPATIBLE", "It is damaged.");
      return namespace === "c" ? undefined : registry.describe(namespace);
    },
  };
  const found = [];
  for await (const each of listNamespaces(spoilt)) found.push(each);
  expect(found).toMatchObject([
    { namespace: "a", info: { layout } },
    { namespace: "b", info: { code: "SCHEMA_INCOMPATIBLE" } },
  ]);
});

test("more names than one answer of a daemon has are read page by page", async () => {
  const registry = memoryRegistry();
  const names = Array.from({ length: 30 }, (_, i) => `n${String(i).padStart(2, "0")}`);
  for (const namespace of names) await registry.init({ namespace, layout });
  const asked: unknown[] = [];
  const daemon = await startDaemon({
    registry: {
      ...registry,
      async namespaces(page) {
        asked.push(page);
        return (await registry.namespaces?.(page)) ?? [];
      },
    },
    listen,
    log,
  });
  const client = daemonRegistry([daemon.url ?? ""]);
  try {
    expect(await client.namespaces?.()).toEqual(names);
    expect(await client.namespaces?.({ after: "n09", limit: 20 })).toEqual(names.slice(10));
    expect(await client.namespaces?.({ after: "a&limit=1 %" })).toEqual(names);
    expect(asked).toEqual([
      { after: undefined, limit: 1000 },
      { after: "n09", limit: 20 },
      { after: "a&limit=1 %", limit: 1000 },
    ]);
  } finally {
    await client.close();
    await daemon.close();
  }
});

test("a registry that cannot list is told so, also behind a daemon, as one of an earlier version is", async () => {
  const registry = lossyRegistry(memoryRegistry(), { lose: () => undefined });
  const list = async (of: Registry): Promise<void> => {
    for await (const _ of listNamespaces(of)) continue;
  };
  await expect(list(registry)).rejects.toMatchObject({
    code: "CONFIG_INVALID",
    message: expect.stringContaining("the kind `memory`, which cannot"),
  });
  const daemon = await startDaemon({ registry, listen, log });
  const client = daemonRegistry([daemon.url ?? ""]);
  try {
    await expect(list(client)).rejects.toMatchObject({
      code: "CONFIG_INVALID",
      message: expect.stringMatching(/^This daemon cannot list namespaces: it is of an earlier version, or /),
    });
  } finally {
    await client.close();
    await daemon.close();
  }
});
