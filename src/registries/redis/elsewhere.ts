import type { SnowleaseError } from "../../id/errors.ts";
import { existsElsewhere } from "../../rule/scope.ts";
import { type AnswerFields, textOf } from "./answers.ts";
import type { RedisConnection } from "./connection.ts";

/** The database of a connection, for scripts that look at the other databases; undefined for a cluster, which has only one. */
export function ownDatabase({ cluster, settings }: RedisConnection): number | undefined {
  return cluster ? undefined : settings.database;
}

/** The place of a registry, as a phrase for messages. */
export function placeOf({ cluster, settings, where }: RedisConnection): string {
  if (cluster) return `the Redis cluster ${where}`;
  const { database, primary } = settings;
  // One group of sentinels may watch several primaries.
  return `database ${database} of ${primary === undefined ? "" : `the primary \`${primary}\` of `}Redis ${where}`;
}

/** The databases that a script found, as phrases for messages. */
export function databasesIn(fields: AnswerFields): readonly string[] {
  return textOf(fields, "databases")
    .split(" ")
    .filter((number) => number !== "")
    .map((number) => `database ${number}`);
}

/** The error for a script that refused to make a namespace. */
export function elsewhereError(connection: RedisConnection, namespace: string, fields: AnswerFields): SnowleaseError {
  const naming = "name its number at the end of the registry URL in every program";
  return existsElsewhere({ namespace, here: placeOf(connection), others: databasesIn(fields), naming });
}
