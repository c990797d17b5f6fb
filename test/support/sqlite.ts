import { createHash } from "node:crypto";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import { layouts } from "../../src/id/layout.ts";
import type { ClaimRequest, HolderLabel, Registry } from "../../src/rule/registry.ts";
import { type SqliteConnection, loadSqlite } from "../../src/registries/sqlite/driver.ts";
import { sqliteRegistry, type SqliteOptions } from "../../src/registries/sqlite/registry.ts";

export const layout: string = layouts.westid.fingerprint;
export const namespace = "orders";

/** A folder that is removed with the test. */
export function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "snowlease-sqlite-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** A registry that is closed with the test. */
export async function openSqlite(path: string, options: Partial<SqliteOptions> = {}): Promise<Registry> {
  const registry = await sqliteRegistry({ operationTimeout: 5000, ...options, path });
  onTestFinished(() => registry.close());
  return registry;
}

/** A connection of the test's own that bypasses the registry. */
export async function openRaw(path: string): Promise<SqliteConnection> {
  const connection = (await loadSqlite()).open(path);
  onTestFinished(() => {
    try {
      connection.close();
    } catch {
      // The test closed it.
    }
  });
  return connection;
}

/** Every file of a folder, with the size and hash of its bytes. */
export function contents(folder: string): ReadonlyMap<string, string> {
  const files = readdirSync(folder, { withFileTypes: true }).filter((entry) => entry.isFile());
  return new Map(
    files.map(({ name }) => {
      const bytes = readFileSync(join(folder, name));
      return [name, `${bytes.length} ${createHash("sha256").update(bytes).digest("hex")}`];
    }),
  );
}

export function on(host: string): HolderLabel {
  return { host, ip: "192.0.2.1", pid: 4711, instance: "" };
}

export function claimRequest(options: Partial<ClaimRequest> = {}): ClaimRequest {
  return {
    namespace,
    token: crypto.randomUUID().replaceAll("-", ""),
    pool: { first: 0, last: 1023 },
    holder: on("alpha"),
    clock: Date.now(),
    window: 60_000,
    layout,
    ...options,
  };
}
