import { readFileSync } from "node:fs";
import { commands } from "../../dist/cli/commands.js";
import { table } from "./table.mjs";

const own = JSON.parse(readFileSync("docs/cli-json.schema.json", "utf8"));

/** Tables of the fields of all commands. @param api the description of the HTTP API, to which the schema refers. */
export function shapesOf(api) {
  const page = new Page(api);
  const shapes = Object.entries(own.$defs).filter(([name]) => Object.hasOwn(commands, name.split(" ")[0]));
  return shapes.map(([name, schema]) => page.section(name, schema)).join("\n\n");
}

class Page {
  #api;
  /** Maps a component of the HTTP API to the command that shows its fields. */
  #shown = new Map();
  #command;

  constructor(api) {
    this.#api = api;
  }

  section(name, schema) {
    this.#command = name;
    const { description, type, items } = this.#resolved(schema);
    if (type === "array") this.#note(items);
    const rows = type === "array" ? this.#items("[]", items, true) : this.#fields("", schema);
    const shape = type === undefined ? [] : [type === "array" ? "Prints an array." : "Prints an object."];
    return [
      `## ${name}`,
      [...shape, description].join(" "),
      ...(rows.length === 0 ? [] : [table([["field", "type", "meaning"], ...rows])]),
    ].join("\n\n");
  }

  #note({ $ref }) {
    if ($ref !== undefined && !this.#shown.has($ref)) this.#shown.set($ref, this.#command);
  }

  /** The rows of an array's items. If the items are not objects, there is a row only if no other row describes them. */
  #items(path, schema, isWhole) {
    const item = this.#resolved(schema);
    if (item.properties !== undefined) return this.#fields(`${path}.`, schema);
    return isWhole ? [[`\`${path}\``, typeOf(item), item.description]] : [];
  }

  #fields(prefix, schema) {
    const { properties = {}, required = [] } = this.#resolved(schema);
    return Object.entries(properties).flatMap(([name, field]) => {
      const path = `${prefix}${name}`;
      const { description, ...rest } = this.#resolved(field);
      const item = rest.items && this.#resolved(rest.items);
      const { $ref } = rest.items ?? field;
      const elsewhere = this.#shown.get($ref);
      const link =
        elsewhere && `The fields of each are those of [\`${elsewhere}\`](#${elsewhere.replaceAll(" ", "-")}).`;
      const row = [
        `\`${path}${required.includes(name) ? "" : "?"}\``,
        item === undefined ? typeOf(rest) : `array of ${typeOf(item)}s`,
        [description, link].filter(Boolean).join(" "),
      ];
      if (link !== undefined) return [row];
      const inside = item === undefined ? this.#fields(`${path}.`, field) : this.#items(`${path}[]`, rest.items, false);
      return [row, ...inside];
    });
  }

  /** A schema with the contents of its references, and with the fields of all its alternatives. */
  #resolved({ $ref, oneOf, ...schema }) {
    if (oneOf !== undefined) return merged(oneOf.map((each) => this.#resolved(each)));
    if ($ref === undefined) return schema;
    const [file, pointer] = $ref.split("#");
    const steps = pointer.split("/").slice(1);
    // A component of the HTTP API refers to other components in its own document.
    const document = file === "" && steps[0] === "$defs" ? own : this.#api;
    const target = this.#resolved(steps.reduce((part, step) => part[step], document));
    return {
      ...target,
      ...schema,
      ...(target.properties && { properties: { ...target.properties, ...schema.properties } }),
      required: [...(target.required ?? []), ...(schema.required ?? [])],
    };
  }
}

/** The alternatives as one object. A field is required if each alternative requires it. */
function merged(alternatives) {
  const [first, ...others] = alternatives;
  const names = alternatives.flatMap(({ properties }) => Object.keys(properties));
  const fieldOf = (name) => alternatives.find(({ properties }) => Object.hasOwn(properties, name)).properties[name];
  const { const: _, ...kind } = fieldOf("kind");
  const kinds = { ...kind, enum: alternatives.map(({ properties }) => properties.kind.const) };
  return {
    type: "object",
    properties: { ...Object.fromEntries(names.map((name) => [name, fieldOf(name)])), kind: kinds },
    required: first.required.filter((name) => others.every(({ required }) => required.includes(name))),
  };
}

function typeOf({ type, const: only, enum: values, anyOf, properties, additionalProperties }) {
  if (only !== undefined) return `\`${only}\``;
  if (values !== undefined) return values.map((value) => `\`${value}\``).join(", ");
  if (anyOf !== undefined) return anyOf.map(typeOf).join(" or ");
  if (Array.isArray(type)) return type.join(" or ");
  if (type !== "object" || properties !== undefined) return type;
  const { items, ...inside } = additionalProperties;
  return `object of ${items === undefined ? typeOf(inside) : `arrays of ${typeOf(items)}`}s`;
}
