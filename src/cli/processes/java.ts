import { configInvalid } from "../../id/errors.ts";

/** Variables with a JVM's options, the weakest first. The command line comes before the last one. */
const variables = ["JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS"] as const;
const [weakest, , strongest] = variables;

const property = /(?<![^\s"'])-Dwestid\.workerId(?:=([^\s"']*))?(?![^\s"'])/g;

/**
 * Variables for a JVM that set its system property to the leased worker ID, even against its own command line. A HotSpot JVM reads the
 * strongest variable last. Any other JVM knows at least the weakest one.
 */
export function javaOptions(env: NodeJS.ProcessEnv, workerId: number): NodeJS.ProcessEnv {
  const added = `-Dwestid.workerId=${workerId}`;
  return Object.fromEntries([weakest, strongest].map((name) => [name, `${env[name] ?? ""} ${added}`.trim()]));
}

/**
 * Refuses a program whose options for Java visibly name another worker ID than the leased one.
 * @param overridden whether `javaOptions` are added, which are stronger than the environment.
 */
export function checkJava(
  command: readonly string[],
  env: NodeJS.ProcessEnv,
  workerId: number,
  overridden: boolean,
): void {
  for (const word of command) checkText(word.startsWith("-D") ? word : "", "the program's command line", workerId);
  if (overridden) return;
  for (const name of variables) checkText(env[name] ?? "", `${name}, or override it with \`--java\``, workerId);
}

function checkText(text: string, place: string, workerId: number): void {
  for (const [found, number = ""] of text.matchAll(property)) {
    if (number === String(workerId)) continue;
    throw configInvalid(
      `The lease is worker ${workerId}, but the program would use another worker ID: \`${found}\`; remove that from ${place}, or lease that worker ID with \`--worker-id\`.`,
    );
  }
}
