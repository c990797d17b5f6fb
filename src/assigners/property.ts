import { numberWithin, type WorkerIdAssigner } from "../lease/assigner.ts";
import { configInvalid } from "../id/errors.ts";

const names = ["snowlease.workerId", "westid.workerId"] as const;
const pattern = /^(?:-D(?:westid|snowlease)\.workerId|--snowlease\.workerId)(?==|$)/;

/**
 * The worker ID from a system property: the options' `properties`, or `-Dwestid.workerId=7`, `-Dsnowlease.workerId=7`,
 * `--snowlease.workerId=7` among the program's arguments. Node itself accepts no `-D`: it has to come after the script. CONFIG_INVALID for
 * a value that is no worker ID, and for arguments that contradict each other.
 * @param argv the program's arguments; default: this process's.
 */
export function propertyAssigner({
  argv = process.argv.slice(2),
}: { argv?: readonly string[] | undefined } = {}): WorkerIdAssigner {
  return {
    name: "property",
    async assign(request) {
      for (const name of names) {
        const value = request.options.properties?.[name];
        if (value !== undefined) return numberWithin(value, `the property \`${name}\``, request);
      }
      const given = argv.flatMap((argument) => {
        const [name] = pattern.exec(argument) ?? [];
        if (name === undefined) return [];
        return numberWithin(argument.slice(name.length + 1), `the argument \`${name}=NUMBER\``, request);
      });
      const [first] = given;
      if (given.some((workerId) => workerId !== first)) {
        throw configInvalid(`The program's arguments name the worker IDs ${given.join(", ")}; name one.`);
      }
      return first;
    },
  };
}
