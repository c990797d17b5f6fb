import type { z } from "zod";
import { shown, SnowleaseError } from "../id/errors.ts";

/** The value as the schema has it. @throws SnowleaseError CONFIG_INVALID that names the field, the rule and what came. */
export function checked<Value>(schema: z.ZodType<Value>, value: unknown, whole: string): Value {
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  const [issue] = result.error.issues;
  throw new SnowleaseError(
    "CONFIG_INVALID",
    issue === undefined ? `Unusable ${whole}.` : complaint(issue, value, whole),
  );
}

function complaint(issue: z.core.$ZodIssue, value: unknown, whole: string): string {
  if (issue.code === "custom") return issue.message;
  const name = issue.path.join(".");
  if (issue.code === "unrecognized_keys") {
    const where = name === "" ? whole : `\`${name}\``;
    return `Expected ${where} to have only known fields, got ${shown(issue.keys[0])}; see /openapi.json.`;
  }
  const found = issue.path.reduce<unknown>((part, key) => (part as Record<PropertyKey, unknown>)[key], value);
  // What is nearly right may be a secret all the same: a token, or a whole body with one in it.
  if (name === "") return `Expected ${whole} to be a JSON object, got another ${typeof found}.`;
  return `Expected \`${name}\` ${issue.message}, got ${name === "token" ? `another ${typeof found}` : shown(found)}.`;
}
