import { SnowleaseError } from "../../id/errors.ts";
import type { Command, Connection, Reply } from "./connection.ts";
import { checkEviction } from "./durability.ts";
import { type Answer, type Arguments, scriptsOn } from "./scripts.ts";

interface CallOptions {
  /** How many replicas have to confirm what is granted; 0: none. */
  readonly wait: number;
  /** Deadline of one operation, ms. */
  readonly operationTimeout: number;
}

/** The scripts of `sql/redis` on the keys of a namespace, on a server that was found fit to keep windows. */
export interface Calls {
  /** What the names of a namespace's keys begin with. */
  prefixOf(namespace: string): string;
  /** Runs a script. `deadline`: on the monotonic clock, ms; by default that of an operation which begins now. */
  run(name: string, namespace: string, args: Arguments, deadline?: number): Promise<Answer>;
  /**
   * The same where replicas may have to confirm what was granted. `undo`: what they did not confirm.
   * @throws SnowleaseError REGISTRY_UNAVAILABLE when too few of them did.
   */
  runConfirmed(
    name: string,
    namespace: string,
    args: Arguments,
    undo: (answer: Answer) => Promise<unknown>,
    deadline?: number,
  ): Promise<Answer>;
  /** The server's clock, and what CONFIG GET tells about its persistence and its replicas. */
  ping(): Promise<{ readonly answer: Answer; readonly config: readonly (Reply | Error)[] }>;
}

export function callsOn(connection: Connection, { wait, operationTimeout }: CallOptions): Calls {
  const scripts = scriptsOn(connection);
  // A script that is not known there is sent twice, and each time waited for.
  const patience = Math.max(1, Math.floor(operationTimeout / 3));
  let checking: Promise<void> | undefined;
  let checked = false;

  function prefixOf(namespace: string): string {
    const prefix = namespace === "default" ? "workerId" : `workerId/${namespace}`;
    // On a cluster they have to lie together.
    return connection.cluster ? `{${prefix}}` : prefix;
  }

  async function run(
    name: string,
    namespace: string,
    args: Arguments,
    deadline: number = connection.deadline(),
  ): Promise<Answer> {
    if (!checked) await check(deadline);
    return scripts.run(deadline, name, prefixOf(namespace), args);
  }

  /** A server that deletes keys as it likes forgets windows without anybody noticing. */
  async function check(deadline: number): Promise<void> {
    checking ??= checkEviction(connection, deadline);
    try {
      await checking;
      checked = true;
    } finally {
      checking = undefined;
    }
  }

  async function confirmed(
    name: string,
    namespace: string,
    args: Arguments,
    undo: (answer: Answer) => Promise<unknown>,
    deadline: number,
  ): Promise<Answer> {
    if (!checked) await check(deadline);
    const waiting = ["WAIT", wait, patience] as const;
    const [answer, replicas] = await scripts.runWith(deadline, name, prefixOf(namespace), args, waiting);
    if (answer.outcome !== "granted" && answer.outcome !== "renewed") return answer;
    const confirming = typeof replicas === "number" ? replicas : 0;
    if (confirming >= wait) return answer;
    await undo(answer);
    throw new SnowleaseError(
      "REGISTRY_UNAVAILABLE",
      `Redis ${connection.where} had ${confirming} of ${wait} replicas confirm within ${patience} ms (\`wait\`): look at its replicas.`,
    );
  }

  return {
    prefixOf,
    run,
    runConfirmed: (name, namespace, args, undo, deadline = connection.deadline()) =>
      wait === 0 ? run(name, namespace, args, deadline) : confirmed(name, namespace, args, undo, deadline),
    async ping() {
      const told = ["CONFIG", "GET"] as const;
      const commands: readonly Command[] = [
        [...told, "append*"],
        [...told, "min-replicas-*"],
      ];
      const [answer, ...config] = await scripts.runWith(
        connection.deadline(),
        "ping",
        prefixOf("default"),
        {},
        ...commands,
      );
      return { answer, config };
    },
  };
}
