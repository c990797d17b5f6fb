import { createHash } from "node:crypto";
import { readSql } from "../sql-files.ts";
import { lengthText } from "../../id/duration.ts";
import { SnowleaseError, timeText } from "../../id/errors.ts";
import { assumedLimits } from "../../rule/limits.ts";
import { isSealed } from "../../rule/era.ts";
import { sealedError, waysOut } from "../../rule/quarantine.ts";
import { numberOf, ScriptAnswer, textOf } from "./answers.ts";
import type { RedisConnection } from "./connection.ts";
import type { RedisCommand, RedisReply } from "./driver.ts";
import { checkEviction } from "./durability.ts";
import { isUnknownScript, replyError } from "./errors.ts";

/** The arguments of a script, under the names that its first lines give to ARGV. An argument that is undefined is left out. */
type ScriptArguments = Readonly<Record<string, string | number | boolean | Uint8Array | undefined>>;

interface RunOptions {
  /** On the monotonic clock, ms. Default: the deadline of an operation that begins now. */
  readonly deadline?: number;
  /**
   * Takes back a grant that too few replicas confirmed. Given for a claim or a renewal, which waits for as many replicas as `wait` asks
   * for. The answer that the server forgot a claim needs these replicas, too. An old primary whose data no replica has proves nothing.
   */
  readonly undo?: (answer: ScriptAnswer) => Promise<unknown>;
}

/** The scripts of `sql/redis`, on a server that does not delete records by itself. */
export interface RedisScripts {
  /** The prefix of the keys of a namespace. */
  prefixOf(namespace: string): string;
  /** Runs a script. @throws SnowleaseError REGISTRY_UNAVAILABLE also if too few replicas confirmed. */
  run(name: string, namespace: string, args: ScriptArguments, options?: RunOptions): Promise<ScriptAnswer>;
  /** The server's clock, the replies to CONFIG GET about persistence and replicas, and the reply to `login`, if it is given. */
  ping(login?: RedisCommand): Promise<{
    readonly answer: ScriptAnswer;
    readonly config: readonly (RedisReply | Error)[];
    readonly login: RedisReply | Error | undefined;
  }>;
}

export function scriptsOn(connection: RedisConnection): RedisScripts {
  const { where, operationTimeout } = connection;
  const { wait, maxLag } = connection.settings;
  const loaded = new Map<string, ReturnType<typeof readScript>>();
  // A server that lacks the script gets two requests, and waits for replicas at each of them.
  const confirmTime = Math.max(1, Math.floor(operationTimeout / 3));
  let eviction: Promise<void> | undefined;

  function prefixOf(namespace: string): string {
    const prefix = namespace === "default" ? "workerId" : `workerId/${namespace}`;
    // On a cluster, the braces put all keys of a namespace on one node.
    return connection.cluster ? `{${prefix}}` : prefix;
  }

  /** Checks once in the life of a connection. */
  function checkedEviction(deadline: number): Promise<void> {
    eviction ??= checkEviction(connection, deadline).catch((error: unknown) => {
      eviction = undefined;
      throw error;
    });
    return eviction;
  }

  /** Runs a script, then other commands directly after it over the same connection. */
  async function runWith(
    name: string,
    namespace: string,
    args: ScriptArguments,
    deadline: number,
    behind: readonly RedisCommand[],
  ): Promise<readonly [ScriptAnswer, ...(RedisReply | Error)[]]> {
    const script = loaded.get(name) ?? readScript(name, Object.keys(args));
    loaded.set(name, script);
    const { text, sha, names } = script;
    const list = [1, prefixOf(namespace), ...names.map((each) => argumentOf(args[each]))];
    let replies = await connection.send(deadline, ["EVALSHA", sha, ...list], ...behind);
    // The server did not run the script, so the registry may send its text.
    if (isUnknownScript(replies[0])) replies = await connection.send(deadline, ["EVAL", text, ...list], ...behind);
    const [reply, ...others] = replies;
    if (reply instanceof Error) throw replyError(reply, where);
    const answer = new ScriptAnswer(reply, name, where);
    if (answer.outcome === "quarantine") throw quarantineError(answer, namespace, where, maxLag);
    return [answer, ...others];
  }

  return {
    prefixOf,

    async run(name, namespace, args, { deadline = connection.deadline(), undo } = {}) {
      await checkedEviction(deadline);
      const needed = undo === undefined ? 0 : wait;
      const behind: readonly RedisCommand[] = needed === 0 ? [] : [["WAIT", needed, confirmTime]];
      const [answer, replicas] = await runWith(name, namespace, args, deadline, behind);
      const confirming = typeof replicas === "number" ? replicas : 0;
      const isGiven = answer.outcome === "granted" || answer.outcome === "renewed";
      if (confirming >= needed || !(isGiven || isForgotten(answer))) return answer;
      if (isGiven) await undo?.(answer);
      throw new SnowleaseError(
        "REGISTRY_UNAVAILABLE",
        `Redis ${where} had ${confirming} of ${wait} replicas confirm within ${confirmTime} ms (\`wait\`): look at its replicas.`,
      );
    },

    async ping(login) {
      const reads: RedisCommand[] = ["append*", "min-replicas-*"].map((names) => ["CONFIG", "GET", names]);
      const behind = login === undefined ? reads : [...reads, login];
      const [answer, ...replies] = await runWith("ping", "default", {}, connection.deadline(), behind);
      return { answer, config: replies.slice(0, reads.length), login: replies[reads.length] };
    },
  };
}

/**
 * Reads a script, with the files that its line `-- include: NAME NAME` names. `given`: the arguments of its first call. The returned names
 * have the order of ARGV.
 */
function readScript(name: string, given: readonly string[]) {
  const own = readSql(`redis/${name}.lua`);
  const whole = own.replace(/^-- include: (.*)$/m, (_, files: string) =>
    files
      .split(" ")
      .map((file) => readSql(`redis/includes/${file}.lua`))
      .join("\n"),
  );
  const text = withoutUnused(whole.replace(/^ *--.*\n/gm, ""));
  const names = [...own.matchAll(/^local (\w+) = .*ARGV/gm)].map(([, argument = ""]) => argument);
  if (names.toSorted().join() !== given.toSorted().join()) {
    throw new TypeError(`The script ${name} takes ${names.join(", ")}, and was given ${given.join(", ")}.`);
  }
  return { text, sha: createHash("sha1").update(text).digest("hex"), names };
}

/**
 * A script without the functions that nothing in it calls. Each run creates all functions again, which takes a large part of the time of a
 * short script.
 */
function withoutUnused(script: string): string {
  const words = new Map<string, number>();
  for (const [word] of script.matchAll(/\w+/g)) words.set(word, (words.get(word) ?? 0) + 1);
  const rest = script.replace(/^local function (\w+)[^]*?^end\n/gm, (made, name: string) =>
    words.get(name) === 1 ? "" : made,
  );
  return rest === script ? script : withoutUnused(rest);
}

/** Whether the answer says to a holder that the server forgot its claim. */
function isForgotten(answer: ScriptAnswer): boolean {
  return answer.outcome === "lost" && textOf(answer.fields, "reason") === "forgotten";
}

function argumentOf(value: ScriptArguments[string]): string | Uint8Array {
  if (value === undefined) return "";
  if (typeof value === "boolean") return value ? "1" : "0";
  // The driver accepts bytes only in a Buffer.
  return typeof value === "object" ? Buffer.from(value) : String(value);
}

function quarantineError({ fields }: ScriptAnswer, namespace: string, where: string, maxLag: number): SnowleaseError {
  const number = (name: string): number => numberOf(fields, name);
  const [until, clock, quarantineEnd] = [number("until"), number("clock"), number("quarantineEnd")];
  const [era, found] = [textOf(fields, "era"), textOf(fields, "namespace")];
  const retryAfterMs = Math.max(1, until - clock);
  const maxClockSkew = number("maxClockSkew");
  const refusal = { namespace, era, clock, opensAt: until, maxClockSkew };
  if (isSealed(refusal)) return sealedError(`Redis ${where}`, refusal);
  const longest = assumedLimits.maxWindow + 2 * assumedLimits.maxClockSkew + maxLag;
  const named = `namespace \`${namespace}\``;
  const causes: Readonly<Record<string, string>> = {
    here: `was restarted, promoted or flushed, and may have forgotten windows of ${named}`,
    proved: `has no ${named}, and a holder proves that it had one: it may have forgotten windows`,
    unknown: `holds nothing of ${named}: it is new, or Redis has forgotten it and windows that it granted`,
  };
  // The forgotten windows may reach as far as the quarantine, so no clock shortens it.
  const lasts =
    retryAfterMs <= longest
      ? `nothing is granted or renewed for ${lengthText(retryAfterMs)}, until such windows have passed.`
      : `nothing is granted or renewed until its clock shows ${timeText(until)}. It shows ${timeText(clock)}, which is ${lengthText(retryAfterMs)} earlier, and a quarantine lasts ${lengthText(longest)}: its clock was ahead when the quarantine began, or is behind now. Set it right if it is behind.`;
  // No operator can end this quarantine, and no wrong clock made it long.
  const removed = `removed ${named} for an operator, and windows that it granted may still be used; nothing is granted in one of this name for ${lengthText(retryAfterMs)}. Wait until ${timeText(until)}, or use another namespace.`;
  const usual = `${causes[found] ?? causes["here"]}; ${lasts} ${waysOut(refusal, found === "unknown")}`;
  const message = `Redis ${where} ${found === "removed" || found === "remade" ? removed : usual}`;
  return new SnowleaseError("QUARANTINE", message, {
    namespace,
    era,
    retryAfterMs,
    until,
    quarantineEnd,
    maxClockSkew,
    clock,
  });
}
