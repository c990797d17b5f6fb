import { withStray } from "../id/stray.ts";
import { numberWithin, type WorkerIdAssigner } from "../lease/assigner.ts";

/**
 * The worker ID from the environment: `SNOWLEASE_WORKER_ID`, then `WESTID_WORKERID`; or only the variable that `name`, or the
 * option `env`, names. CONFIG_INVALID for a value that is no worker ID, an empty one included.
 * @param env default: this process's.
 */
export function envAssigner({
  name,
  env = process.env,
}: { name?: string; env?: Readonly<Record<string, string | undefined>> } = {}): WorkerIdAssigner {
  return {
    name: "environment",
    async assign(request) {
      const named = name ?? request.options.env;
      for (const variable of named === undefined ? ["SNOWLEASE_WORKER_ID", "WESTID_WORKERID"] : [named]) {
        const value = env[variable];
        if (value !== undefined) return numberWithin(value, withStray(variable, value), request);
      }
      return undefined;
    },
  };
}
