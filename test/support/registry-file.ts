import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Registry } from "../../src/rule/registry.ts";
import { sqliteRegistry } from "../../src/registries/sqlite/registry.ts";

/** An embedded registry in a folder of its own. */
export interface RegistryFile {
  readonly url: string;
  readonly registry: Registry;
  stop(): Promise<void>;
}

export async function newRegistryFile(): Promise<RegistryFile> {
  const folder = await mkdtemp(join(tmpdir(), "snowlease-registry-"));
  const path = join(folder, "registry.db");
  const registry = await sqliteRegistry({ path, operationTimeout: 5000 });
  return {
    url: `sqlite:${path}`,
    registry,
    async stop() {
      await registry.close();
      await rm(folder, { recursive: true });
    },
  };
}
