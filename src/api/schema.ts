import { z } from "zod";
import { didYouMean } from "../id/did-you-mean.ts";
import { shown, SnowleaseError } from "../id/errors.ts";

/** The schema of a JSON value of the HTTP API. */
export type Schema<Value> = z.ZodType<Value>;

/** A schema for each field of a message. */
export type FieldSchemas<Message> = { readonly [Name in keyof Message]-?: Schema<Message[Name]> };

/** A message whose fields may all be left out. */
export type Optional<Message> = { readonly [Name in keyof Message]?: Message[Name] | undefined };

/** How many unknown fields of an object are compared with known ones. Each comparison takes time, and a body may have thousands. */
const mostCompared = 64;

/**
 * The body of a request, or an object in it. A newer client may send fields that this daemon does not know. They are left out. A
 * name that is close to a known name is refused as a typing error. So the name of a new field must not be close to another name of its
 * body. Otherwise older daemons refuse it. @param rule for a value that is not an object.
 */
export function request<Message>(fields: FieldSchemas<Message>, rule?: string): Schema<Message> {
  const known = Object.keys(fields);
  const names = new Set(known);
  const refuseMisspelt = (value: unknown, context: z.core.$RefinementCtx): unknown => {
    if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
    const unknown = Object.keys(value).filter((name) => !names.has(name));
    const misspelt = unknown.slice(0, mostCompared).find((name) => didYouMean(name, known) !== undefined);
    if (misspelt !== undefined) context.addIssue({ code: "unrecognized_keys", keys: [misspelt] });
    return value;
  };
  return z.preprocess(refuseMisspelt, z.object(fields, rule)) as unknown as Schema<Message>;
}

/** A message in which some fields need others. @param pairs such a field, and the field that it needs. */
export function withPairs<Message>(
  schema: Schema<Message>,
  pairs: { readonly [Name in keyof Message]?: keyof Message & string },
): Schema<Message> {
  const all = Object.entries(pairs) as [keyof Message & string, keyof Message & string][];
  const checked = all.reduce(
    (one, [name, other]) =>
      one.refine(
        (message) => message[name] === undefined || message[other] !== undefined,
        `Expected \`${other}\` next to \`${name}\`.`,
      ),
    schema,
  );
  return checked.meta({ dependentRequired: Object.fromEntries(all.map(([name, other]) => [name, [other]])) });
}

/** The parameters of a query or a path. An unknown one is refused. */
export function parameters<Message>(fields: FieldSchemas<Message>): Schema<Message> {
  return z.strictObject(fields) as unknown as Schema<Message>;
}

/** An answer. Unknown fields are left out, so that newer daemons may send more fields. */
export function answer<Message>(fields: FieldSchemas<Message>): Schema<Message> {
  return z.object(fields) as unknown as Schema<Message>;
}

/** Parses a value by a schema. @throws SnowleaseError CONFIG_INVALID that names the field, the rule and the value. */
export function checked<Value>(schema: Schema<Value>, value: unknown, whole: string): Value {
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  const [issue] = result.error.issues;
  throw new SnowleaseError(
    "CONFIG_INVALID",
    issue === undefined ? `Unusable ${whole}.` : complaint(issue, value, whole),
  );
}

type Json = Record<string, unknown>;

/** A JSON Schema of the input or the output. Objects may have more fields, for newer versions. */
export function jsonSchema(schema: Schema<unknown>, io: "input" | "output"): Json {
  const { $schema: _, ...rest } = z.toJSONSchema(schema, { io, override: adapt });
  return rest;
}

/** JSON Schemas by name. A schema inside another is a reference. @param uri of a name. */
export function jsonSchemas(
  named: ReadonlyMap<string, Schema<unknown>>,
  io: "input" | "output",
  uri: (name: string) => string,
): Readonly<Record<string, Json>> {
  const registry = z.registry<{ id: string }>();
  for (const [id, schema] of named) registry.add(schema, { id });
  const { schemas } = z.toJSONSchema(registry, { io, uri, override: adapt });
  return Object.fromEntries(
    Object.entries(schemas).map(([name, schema]) => {
      const { $schema: _, $id: __, ...rest } = schema as Json;
      return [name, rest];
    }),
  );
}

function adapt({ jsonSchema }: { readonly jsonSchema: z.core.JSONSchema.BaseSchema }): void {
  if (jsonSchema.additionalProperties === false) delete jsonSchema.additionalProperties;
  // zod's `readOnly` means that the program does not change a list. In JSON Schema it means that requests leave the field out.
  delete jsonSchema.readOnly;
  if (jsonSchema.type === "integer") jsonSchema.format = isInt32(jsonSchema) ? "int32" : "int64";
}

/** Whether an integer fits 32 bits. Without a format, generated clients in Java or Go use 32 bits, too few for a time. */
function isInt32({ minimum = -Infinity, maximum = Infinity }: { minimum?: number; maximum?: number }): boolean {
  return minimum >= -(2 ** 31) && maximum < 2 ** 31;
}

function complaint(issue: z.core.$ZodIssue, value: unknown, whole: string): string {
  if (issue.code === "custom") return issue.message;
  const name = issue.path.join(".");
  if (issue.code === "unrecognized_keys") {
    const where = name === "" ? whole : `\`${name}\``;
    return `Expected ${where} to have only known fields, got ${shown(issue.keys[0])}; see /openapi.json.`;
  }
  const found = issue.path.reduce<unknown>((part, key) => (part as Record<PropertyKey, unknown>)[key], value);
  // The message quotes neither a token nor a whole body, which may contain one.
  if (name === "")
    return `Expected ${whole} to be a JSON object, got ${Array.isArray(found) ? "a list" : `another ${typeof found}`}.`;
  if (found === undefined) return `Expected \`${name}\` ${issue.message}, got none.`;
  return `Expected \`${name}\` ${issue.message}, got ${name === "token" ? `another ${typeof found}` : shown(found)}.`;
}
