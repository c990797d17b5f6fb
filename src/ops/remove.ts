import { configInvalid, SnowleaseError, timeText } from "../id/errors.ts";
import { presentNamespace } from "../rule/namespace.ts";
import { checkEra } from "../rule/quarantine.ts";
import type { Registry, RemoveRequest } from "../rule/registry.ts";
import { checkUnheld } from "./unheld.ts";

/**
 * Removes a namespace that no process uses. `where`: the registry for people.
 * @throws SnowleaseError NOT_FOUND for an unknown namespace; CONFIG_INVALID for another era than the present one, and for a registry that
 * cannot remove namespaces; WORKER_ID_HELD while a window is open, or a program without windows has a worker ID.
 */
export async function removeNamespace(registry: Registry, request: RemoveRequest, where: string): Promise<void> {
  const { namespace, era } = request;
  if (registry.remove === undefined) {
    throw configInvalid(
      `Expected a registry that can remove namespaces, got one of the kind \`${registry.kind}\`, which cannot; name another one with \`--registry\`.`,
    );
  }
  const before = await presentNamespace(registry, namespace);
  checkEra({ namespace, era }, before.era ?? "");
  const advice = "Stop each process that uses this namespace, and repeat this after that time.";
  await checkUnheld(registry, namespace, where, advice);
  await checkPassed(registry, namespace, where);
  await checkNoForeign(registry, namespace, where);
  await registry.remove(request);
}

/** Refuses if a window is open although its claim has ended. Its holder may still use it, and programs without windows do not see that. */
async function checkPassed(registry: Registry, namespace: string, where: string): Promise<void> {
  const page = { limit: 10_000 };
  const ended = [
    ...(await registry.workers(namespace, { state: "resting", ...page })),
    ...(await registry.workers(namespace, { state: "pinned", ...page })),
  ];
  const { clock } = await registry.ping();
  const open = ended.filter((record) => record.until > clock);
  if (open.length === 0) return;
  const until = Math.max(...open.map((record) => record.until));
  throw new SnowleaseError(
    "WORKER_ID_HELD",
    `Windows of namespace \`${namespace}\` in the registry ${where} have not passed, although their claims have ended: ${open.length} of them, the last one until ${timeText(until)}; nothing was changed. Repeat this after that time.`,
    { namespace, until },
  );
}

async function checkNoForeign(registry: Registry, namespace: string, where: string): Promise<void> {
  const [first] = await registry.workers(namespace, { state: "foreign", limit: 1 });
  if (first === undefined) return;
  throw new SnowleaseError(
    "WORKER_ID_HELD",
    `A program without windows (westid) has worker ${first.workerId} of namespace \`${namespace}\` in the registry ${where}; nothing was changed. Stop it, and free what it left with \`snowlease release\`.`,
    { namespace },
  );
}
