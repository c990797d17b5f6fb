import type { Layout } from "../../src/id/layout.ts";
import { loadSqlite } from "../../src/registries/sqlite/driver.ts";
import { sqliteRegistry } from "../../src/registries/sqlite/registry.ts";

/**
 * Fills a registry file. The first so many worker IDs of a namespace are held by 5,000 hosts then, as after claims, which would take
 * hours.
 */
export async function fillPool(
  path: string,
  { namespace, layout, rows }: { readonly namespace: string; readonly layout: Layout; readonly rows: number },
): Promise<void> {
  const registry = await sqliteRegistry({ path, operationTimeout: 5000 });
  await registry.init({ namespace, layout: layout.fingerprint });
  await registry.close();
  const connection = (await loadSqlite()).open(path);
  const now = Date.now();
  connection.exec(`
    BEGIN IMMEDIATE;
    INSERT INTO worker (namespace_id, worker_id, fence, token, from_ms, until_ms, seen_clock, clean, known_from_ms, host, ip, pid, instance, claimed_at)
    WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < ${rows - 1})
    SELECT 1, i, 1, printf('%032x', i + 1), ${now}, ${now + 600_000} + i % 1000, ${now}, 0, 0,
      'host-' || (i % 5000), '192.0.2.1', 4000 + i, '', ${now} FROM n;
    UPDATE gap SET first = ${rows};
    COMMIT`);
  connection.close();
}
