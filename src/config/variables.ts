import { configInvalid } from "../id/errors.ts";
import { didYouMean, misspelt } from "../id/did-you-mean.ts";
import { lentVariables } from "./lent-lease.ts";
import { optionTable } from "./options.ts";

const prefix = "SNOWLEASE_";

const optionVariables = optionTable.flatMap(({ env = [] }) => env);
const optionWords = optionVariables.map((variable) => variable.slice(prefix.length));
/** Also a variable that `snowlease exec` writes for programs without Snowlease. */
const knownVariables: ReadonlySet<string> = new Set([...optionVariables, ...lentVariables, "SNOWLEASE_DATACENTER_ID"]);

/** Kubernetes adds these to every container of a namespace with a service `snowlease` or `snowlease-NAME`. */
const serviceLink = /^SNOWLEASE_(?:\w+_)?(?:SERVICE_HOST|SERVICE_PORT(?:_\w+)?|PORT(?:_[0-9]+_[A-Z]+(?:_\w+)?)?)$/;

const warned = new Set<string>();

/**
 * Checks the names of variables that begin with `SNOWLEASE_`. A misspelt option would silently be ignored, so it is refused. Any other
 * unknown variable causes one process warning.
 * @throws SnowleaseError CONFIG_INVALID with the most similar variable.
 */
export function checkVariables(env: Readonly<Record<string, string | undefined>>): void {
  const given = Object.keys(env).filter((name) => name.startsWith(prefix) && env[name] !== undefined);
  for (const name of given.filter((name) => !knownVariables.has(name) && !serviceLink.test(name))) {
    const meant = similarVariable(name);
    if (meant !== undefined) {
      throw configInvalid(`There is no variable \`${name}\`; did you mean \`${meant}\`? Correct the environment.`);
    }
    if (warned.has(name)) continue;
    warned.add(name);
    // A program may read it itself, or a platform set it.
    const other = didYouMean(name.slice(prefix.length), optionWords);
    const advice = other === undefined ? "" : `use \`${prefix}${other}\`, if that is meant; else `;
    process.emitWarning(
      `Snowlease ignores the unknown variable \`${name}\`; ${advice}remove it, or give it another prefix.`,
      { type: "SnowleaseWarning", code: "SNOWLEASE_UNKNOWN_VARIABLE" },
    );
  }
}

/** The most similar variable: misspelt, or with more or fewer words (`SNOWLEASE_REGISTRY_URL`, `SNOWLEASE_WORKER`). */
function similarVariable(name: string): string | undefined {
  const meant = misspelt(name.slice(prefix.length), optionWords);
  if (meant !== undefined) return `${prefix}${meant}`;
  return optionVariables.find((variable) => name.startsWith(`${variable}_`) || variable.startsWith(`${name}_`));
}
