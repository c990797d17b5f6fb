import { SnowleaseError } from "../../../core/errors.ts";
import { type Command, openConnection, type Reply } from "../../../registries/redis/connection.ts";
import { replyError } from "../../../registries/redis/errors.ts";
import { parseSettings } from "../../../registries/redis/settings.ts";
import type { SourceRequest } from "../source.ts";

/** A Redis that is only read. */
export interface RedisSource {
  /** For messages. */
  readonly where: string;
  /** Asks for several things at once; what is of another type than the command reads is undefined. */
  ask(...commands: readonly Command[]): Promise<readonly (Reply | undefined)[]>;
}

/** Reads a Redis. */
export async function readRedis<Result>(
  { address, operationTimeout }: SourceRequest,
  read: (source: RedisSource) => Promise<Result>,
): Promise<Result> {
  const connection = await openConnection(address, parseSettings(address), { operationTimeout });
  const { where } = connection;
  const ask: RedisSource["ask"] = async (...commands) => {
    const replies = await connection.send(connection.deadline(), ...commands);
    return replies.map((reply) => {
      if (!(reply instanceof Error)) return reply;
      if (reply.message.startsWith("WRONGTYPE")) return undefined;
      throw replyError(reply, where);
    });
  };
  try {
    return await read({ where, ask });
  } finally {
    await connection.close();
  }
}

/** Text of a reply that is one. */
export function textOf(reply: Reply | undefined): string | undefined {
  return reply instanceof Uint8Array ? new TextDecoder().decode(reply) : undefined;
}

/** Texts of a reply that is a list. */
export function textsOf(reply: Reply | undefined): readonly string[] {
  return Array.isArray(reply) ? (reply as readonly Reply[]).map((each) => textOf(each) ?? "") : [];
}

/** For a source that does not hold what it should. */
export function nothingThere(what: string, where: string, advice: string): SnowleaseError {
  return new SnowleaseError("NOT_FOUND", `There is no ${what} at ${where}; ${advice}.`);
}
