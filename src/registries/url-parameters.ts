import { readFileSync } from "node:fs";
import { durationOf } from "../id/duration.ts";
import { shown, SnowleaseError } from "../id/errors.ts";

/** What docs and messages say of a parameter. */
interface ParameterNotes {
  /** As written in a URL. */
  readonly default?: string;
  /** One sentence or more, for docs/registries. */
  readonly meaning: string;
  /** No message shows the value. */
  readonly secret?: true;
  /** A ready client of the driver has its own setting for it. */
  readonly clientHas?: true;
  /** It says which registry is meant, as a path does. So it is part of the text that messages show of the URL. */
  readonly isPlace?: true;
}

/** A parameter of registry URLs that one kind of store has. */
export interface StoreParameter<Value = unknown> extends ParameterNotes {
  /** The value of a text. Undefined if the text is not valid. */
  readonly read: (text: string) => Value | undefined;
  /** The rule for the text. It follows "Expected `name`". */
  readonly rule: string;
  /** The unit of a number that a program gives together with a ready client. */
  readonly unit?: "ms";
}

/** The parameters of a kind of store, by name. If the URL omits a parameter without a default, its value is undefined. */
export type StoreParameters<Values = Readonly<Record<string, unknown>>> = {
  readonly [Name in keyof Values]: StoreParameter<Values[Name]>;
};

/** An integer in a range. */
export function integer(least: number, most: number, notes: ParameterNotes): StoreParameter<number> {
  const read = (text: string): number | undefined =>
    /^\d{1,7}$/.test(text) && Number(text) >= least && Number(text) <= most ? Number(text) : undefined;
  return { ...notes, rule: `to be an integer from ${least} to ${most}`, read };
}

/** A time in ms. */
export function time(least: string, most: string, notes: ParameterNotes): StoreParameter<number> {
  const [from = 0, to = 0] = [least, most].map(durationOf);
  const read = (text: string): number | undefined => {
    const ms = durationOf(text);
    return ms !== undefined && ms >= from && ms <= to ? ms : undefined;
  };
  return { ...notes, rule: `to be a time from ${least} to ${most} with its unit, such as 10s`, unit: "ms", read };
}

export function truth(notes: ParameterNotes): StoreParameter<boolean> {
  const read = (text: string): boolean | undefined => (/^(true|false)$/.test(text) ? text === "true" : undefined);
  return { ...notes, rule: "to be true or false", read };
}

export function anyText(notes: ParameterNotes): StoreParameter<string> {
  return { ...notes, rule: "to be a text", read: (text) => text };
}

export const beside: StoreParameter<"westid"> = {
  meaning: "`westid`: Java processes that keep no window take numbers here, too.",
  rule: "to be westid",
  read: (text) => (text === "westid" ? text : undefined),
};

/** The values of all parameters. @throws SnowleaseError CONFIG_INVALID */
export function readParameters<Values extends object>(
  parameters: StoreParameters<Values>,
  settings: Readonly<Record<string, string>>,
): Values {
  const values = Object.entries<StoreParameter>(parameters).map(([name, parameter]) => {
    const text = settings[name] ?? parameter.default;
    const value = text === undefined ? undefined : parameter.read(text);
    if (text !== undefined && value === undefined) {
      refuse(`\`${name}\``, parameter.rule, parameter.secret ? "***" : text);
    }
    return [name, value];
  });
  return Object.fromEntries(values) as Values;
}

/** The text of a file that a parameter names. @throws SnowleaseError CONFIG_INVALID */
export function readParameterFile(name: string, file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return refuse(`\`${name}\``, "to name a file that can be read", file);
  }
}

/** Refuses a part of a registry URL: "Expected `wait` to be …, got …". The name of a parameter is in backticks. */
export function refuse(name: string, rule: string, got: unknown): never {
  throw new SnowleaseError("CONFIG_INVALID", `Expected ${name} ${rule}, got ${shown(got)}; correct the registry URL.`);
}
