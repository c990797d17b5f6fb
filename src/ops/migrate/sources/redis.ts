import { openConnection } from "../../../registries/redis/connection.ts";
import type { IoredisClient, RedisCommand, RedisReply } from "../../../registries/redis/driver.ts";
import { isReply, replyError, silentError } from "../../../registries/redis/errors.ts";
import type { SourceRequest } from "../source.ts";

/** Read access to a Redis. */
export interface RedisSource {
  /** The URL for messages. */
  readonly where: string;
  /** Sends commands at once. The reply is undefined for a key of another type. */
  ask(...commands: readonly RedisCommand[]): Promise<readonly (RedisReply | undefined)[]>;
  /** The keys that match, one page at a time. In a cluster, the keys of all primaries. A key may occur twice. */
  scan(match: string): AsyncIterable<readonly string[]>;
}

/** Reads a Redis. */
export async function readRedis<Result>(
  { address, operationTimeout }: SourceRequest,
  read: (source: RedisSource) => Promise<Result>,
): Promise<Result> {
  const connection = await openConnection(address, operationTimeout);
  const { where } = connection;
  const ask: RedisSource["ask"] = async (...commands) => {
    const replies = await connection.send(connection.deadline(), ...commands);
    return replies.map((reply) => {
      if (!(reply instanceof Error)) return reply;
      if (reply.message.startsWith("WRONGTYPE")) return undefined;
      throw replyError(reply, where);
    });
  };
  async function* scan(match: string): AsyncGenerator<readonly string[]> {
    const client = connection.cluster ? await connection.client(connection.deadline()) : undefined;
    // Each node of a cluster knows only its own keys.
    for (const node of (client?.nodes?.("master") ?? [undefined]) as readonly (typeof client)[]) {
      let cursor = "0";
      do {
        const command = ["SCAN", cursor, "MATCH", match, "COUNT", 1000] as const;
        const [reply] =
          node === undefined ? await ask(command) : [await nodeReply(node, command, where, operationTimeout)];
        const [next, keys] = Array.isArray(reply) ? (reply as readonly RedisReply[]) : [];
        cursor = textOf(next) ?? "0";
        yield textsOf(keys);
      } while (cursor !== "0");
    }
  }
  try {
    return await read({ where, ask, scan });
  } finally {
    await connection.close();
  }
}

/** The reply of one node of a cluster. */
async function nodeReply(
  node: IoredisClient,
  command: RedisCommand,
  where: string,
  operationTimeout: number,
): Promise<RedisReply> {
  try {
    return (await node.callBuffer(...command)) as RedisReply;
  } catch (error) {
    throw isReply(error)
      ? replyError(error, where)
      : silentError(where, operationTimeout, { sent: false, tls: false }, error);
  }
}

/** The text of a reply. Undefined for a reply of another type. */
export function textOf(reply: RedisReply | undefined): string | undefined {
  return reply instanceof Uint8Array ? new TextDecoder().decode(reply) : undefined;
}

/** The texts of a list reply. */
export function textsOf(reply: RedisReply | undefined): readonly string[] {
  return Array.isArray(reply) ? (reply as readonly RedisReply[]).map((each) => textOf(each) ?? "") : [];
}
