import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import type { WorkerIdAssigner } from "../core/assigner.ts";
import { SnowleaseError } from "../core/errors.ts";

/**
 * An assigner of somebody's own: an object, or the path, from the current folder, of a module whose default export is one.
 * CONFIG_INVALID when the module cannot be loaded or exports something else. What its `assign` throws is passed on.
 */
export function customAssigner(custom: WorkerIdAssigner | string): WorkerIdAssigner {
  if (typeof custom !== "string") return checkShape(custom, "The assigner");
  const file = resolve(custom);
  return {
    name: custom,
    async assign(request, signal) {
      const loaded = checkShape(await load(file), `The default export of ${file}`);
      return loaded.assign(request, signal);
    },
  };
}

async function load(file: string): Promise<unknown> {
  try {
    const module = (await import(pathToFileURL(file).href)) as { readonly default?: unknown };
    return module.default;
  } catch (cause) {
    const said = cause instanceof Error ? cause.message : String(cause);
    throw new SnowleaseError(
      "CONFIG_INVALID",
      `The assigner ${file} cannot be loaded: ${said}; correct the path, or the module.`,
      {},
      { cause },
    );
  }
}

function checkShape(value: unknown, what: string): WorkerIdAssigner {
  const { name, assign } = (value ?? {}) as Partial<WorkerIdAssigner>;
  if (typeof name === "string" && typeof assign === "function") return value as WorkerIdAssigner;
  throw new SnowleaseError(
    "CONFIG_INVALID",
    `${what} is no WorkerIdAssigner: it has to be an object with a \`name\` and a function \`assign\`.`,
  );
}
