import { SnowleaseError } from "./id/errors.ts";
import { didYouMean } from "./id/did-you-mean.ts";
import { lentVariables } from "./lent.ts";
import { optionTable } from "./options.ts";

const prefix = "SNOWLEASE_";

const optionVariables = optionTable.flatMap(({ env }) => (env === undefined ? [] : [env]));
/** Also what `snowlease exec` writes for programs that know no Snowlease. */
const known: ReadonlySet<string> = new Set([...optionVariables, ...lentVariables, "SNOWLEASE_DATACENTER_ID"]);

/** What Kubernetes adds to every container of a namespace that has a service called `snowlease` or `snowlease-NAME`. */
const serviceLink = /^SNOWLEASE_(?:\w+_)?(?:SERVICE_HOST|SERVICE_PORT(?:_\w+)?|PORT(?:_[0-9]+_[A-Z]+(?:_\w+)?)?)$/;

const warned = new Set<string>();

/**
 * Examines the variables that begin with `SNOWLEASE_`: one that is nearly an option's would leave that option out without a word, such
 * as the registry; of any other that is unknown the process is warned, once.
 * @throws SnowleaseError CONFIG_INVALID that names the variable that was probably meant.
 */
export function checkVariables(env: Readonly<Record<string, string | undefined>>): void {
  for (const name of Object.keys(env)) {
    if (!name.startsWith(prefix) || known.has(name) || serviceLink.test(name) || env[name] === undefined) continue;
    const meant = nearestVariable(name);
    if (meant !== undefined) {
      throw new SnowleaseError(
        "CONFIG_INVALID",
        `There is no variable \`${name}\`, the nearest is \`${meant}\`; correct the environment.`,
      );
    }
    if (warned.has(name)) continue;
    warned.add(name);
    process.emitWarning(
      `Snowlease knows no variable \`${name}\` and ignores it; remove it, or give it another prefix.`,
      {
        type: "SnowleaseWarning",
        code: "SNOWLEASE_UNKNOWN_VARIABLE",
      },
    );
  }
}

/** The variable that was probably meant: misspelt, or with words too many or too few (`SNOWLEASE_REGISTRY_URL`, `SNOWLEASE_WORKER`). */
function nearestVariable(name: string): string | undefined {
  const word = name.slice(prefix.length);
  const misspelt = didYouMean(
    word,
    optionVariables.map((variable) => variable.slice(prefix.length)),
  );
  if (misspelt !== undefined) return `${prefix}${misspelt}`;
  return optionVariables.find((variable) => name.startsWith(`${variable}_`) || variable.startsWith(`${name}_`));
}
