import { SnowleaseError, timeText } from "../id/errors.ts";
import type { Registry } from "../rule/registry.ts";

/**
 * Refuses an action on a whole namespace while a holder's window is open. Otherwise an operator with a wrong address could stop a
 * fleet. No ID depends on it. `where`: the registry for people. `advice`: a sentence.
 * @throws SnowleaseError WORKER_ID_HELD
 */
export async function checkUnheld(registry: Registry, namespace: string, where: string, advice: string): Promise<void> {
  const held = await registry.workers(namespace, { state: "live", limit: 10_000 });
  const [first] = held;
  if (first === undefined) return;
  const { workerId, holder } = first;
  const until = Math.max(...held.map((record) => record.until));
  const by = holder === undefined ? "" : `, ${holder.host} (${holder.ip}), pid ${holder.pid}`;
  const who = held.length === 1 ? "a holder has" : `${held.length} holders have`;
  throw new SnowleaseError(
    "WORKER_ID_HELD",
    `The registry ${where} is in use: ${who} a worker ID of namespace \`${namespace}\` (worker ${workerId}${by}), and the last window ends at ${timeText(until)}; nothing was changed. ${advice}`,
    { namespace, until },
  );
}
