import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import type { AssignRequest, WorkerIdAssigner } from "../lease/assigner.ts";
import { configInvalid, shown, SnowleaseError } from "../id/errors.ts";
import { Lease } from "../lease/lease.ts";

type AssignerAnswer = number | Lease | undefined;

/**
 * A user's own assigner: an object, or the path, from the current folder, of a module whose default export is one. CONFIG_INVALID when the
 * module cannot be loaded or exports something else, and when its `assign` throws anything but a SnowleaseError. REGISTRY_UNAVAILABLE when
 * it has not answered after `operationTimeout` plus `claimTimeout`: its signal is then aborted, and a lease that it returns later is given
 * back.
 */
export function customAssigner(custom: WorkerIdAssigner | string): WorkerIdAssigner {
  const isPath = typeof custom === "string";
  const name = isPath ? resolve(custom) : checkShape(custom, "The assigner").name;

  async function ask(request: AssignRequest, signal: AbortSignal): Promise<AssignerAnswer> {
    const own = isPath ? checkShape(await load(name), `The default export of ${name}`) : custom;
    try {
      return await own.assign(request, signal);
    } catch (cause) {
      signal.throwIfAborted();
      if (cause instanceof SnowleaseError) throw cause;
      throw configInvalid(`The assigner \`${name}\` failed: ${saidBy(cause)}; correct it, or leave it out.`, cause);
    }
  }

  return {
    name: isPath ? custom : name,
    assign: (request, signal) => inTime(name, request, signal, (until) => ask(request, until)),
  };
}

/** The timeout also keeps the process alive. A process that waits for nothing else would end silently. */
async function inTime(
  name: string,
  { options: { clock, lease } }: AssignRequest,
  signal: AbortSignal,
  ask: (signal: AbortSignal) => Promise<AssignerAnswer>,
): Promise<AssignerAnswer> {
  const timeout = lease.operationTimeout + lease.claimTimeout;
  const over = new AbortController();
  const either = AbortSignal.any([signal, over.signal]);
  const answer = ask(either);
  const deadline = clock.sleep(timeout, { signal: either }).then(() => {
    signal.throwIfAborted();
    throw new SnowleaseError(
      "REGISTRY_UNAVAILABLE",
      `The assigner \`${name}\` did not answer within ${timeout} ms (operationTimeout and claimTimeout); correct it, or give it more time.`,
    );
  });
  try {
    return await Promise.race([answer, deadline]);
  } catch (error) {
    answer.then((late) => (late instanceof Lease ? late.close() : undefined)).catch(() => undefined);
    throw error;
  } finally {
    over.abort();
  }
}

async function load(file: string): Promise<unknown> {
  try {
    return (await importFile(file)).default;
  } catch (cause) {
    if (!existsSync(file)) {
      throw configInvalid(
        `The assigner ${file} does not exist; name the path of a module, or use one of the options \`env\`, \`ordinal\` and \`ip\`, which need none.`,
        cause,
      );
    }
    const message = `The assigner ${file} cannot be loaded: ${saidBy(cause)}; correct the path, or the module.`;
    throw configInvalid(message, cause);
  }
}

async function importFile(file: string): Promise<{ readonly default?: unknown }> {
  try {
    return (await import(/* webpackIgnore: true */ pathToFileURL(file).href)) as { readonly default?: unknown };
  } catch (cause) {
    // Jest has no `import()`, but a `require` of its own.
    if (!String((cause as NodeJS.ErrnoException).code).startsWith("ERR_VM_DYNAMIC_IMPORT_CALLBACK_MISSING"))
      throw cause;
    const loaded: unknown = createRequire(file)(file);
    return Object(loaded).__esModule === true ? (loaded as { readonly default?: unknown }) : { default: loaded };
  }
}

function saidBy(cause: unknown): string {
  return cause instanceof Error ? cause.message || cause.name : shown(cause);
}

function checkShape(value: unknown, what: string): WorkerIdAssigner {
  const { name, assign } = (value ?? {}) as Partial<WorkerIdAssigner>;
  if (typeof name === "string" && typeof assign === "function") return value as WorkerIdAssigner;
  const rule = "it has to be an object with a `name` and a function `assign`";
  throw configInvalid(`${what} is no WorkerIdAssigner; ${rule}.`);
}
