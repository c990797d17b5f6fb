import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Ajv2020 } from "ajv/dist/2020.js";
import { expect } from "vitest";
import { commands } from "../../src/cli/commands.ts";
import { root } from "./markdown.ts";

/** The part of JSON Schema that the shapes use. */
interface ShapeNode {
  readonly $ref?: string;
  readonly description?: string;
  readonly properties?: Readonly<Record<string, ShapeNode>>;
  readonly items?: ShapeNode;
  readonly oneOf?: readonly ShapeNode[];
  readonly const?: unknown;
}

const [ownFile, apiFile] = ["cli-json.schema.json", "openapi.json"];
const componentPrefix = `${apiFile}#/components/schemas/`;
const read = (file: string): unknown => JSON.parse(readFileSync(join(root, "docs", file), "utf8"));

/** Compares the output of commands with docs/cli-json.schema.json, and notes which shapes and fields it has seen. */
export class CliShapes {
  /** The shapes of commands, such as `migrate plan`. */
  readonly names: readonly string[];
  readonly checked: Set<string> = new Set();
  readonly #ajv: Ajv2020;
  readonly #defs: Readonly<Record<string, ShapeNode>>;
  readonly #components: Readonly<Record<string, ShapeNode>>;
  readonly #seen = new Set<ShapeNode>();

  constructor() {
    const own = read(ownFile) as { $defs: Record<string, ShapeNode> };
    const { components } = read(apiFile) as { components: { schemas: Record<string, ShapeNode> } };
    this.#defs = own.$defs;
    this.#components = components.schemas;
    this.names = Object.keys(own.$defs).filter((name) => Object.hasOwn(commands, name.split(" ")[0] ?? ""));
    this.#ajv = new Ajv2020({ strict: true, validateFormats: false });
    this.#ajv.addVocabulary(["components"]).addSchema({ components }, apiFile).addSchema(own, ownFile);
  }

  /** Checks that a value that a command printed has its shape. */
  check(name: string, value: unknown): void {
    const fits = this.#ajv.getSchema(`${ownFile}#/$defs/${encodeURIComponent(name)}`);
    if (fits === undefined) throw new Error(`${ownFile} has no shape of ${name}.`);
    expect([name, fits(value), fits.errors ?? []]).toEqual([name, true, []]);
    this.checked.add(name);
    this.#visit({ $ref: `#/$defs/${name}` }, value);
  }

  /** The fields that no value had. It leaves out fields inside of these. Fails if a field has no meaning. */
  unseen(): readonly string[] {
    const used = new Set<string>();
    const [seen, found] = [new Set<string>(), new Set<string>()];
    const walk = (node: ShapeNode | undefined, path: string): void => {
      if (node === undefined) return;
      const { $ref = "" } = node;
      if (!$ref.startsWith(componentPrefix)) walk(this.#target(node), path);
      else if (!$ref.includes("/properties/")) used.add($ref);
      for (const [name, field] of Object.entries(node.properties ?? {})) {
        const place = `${path}${path.endsWith(" ") ? "" : "."}${name}`;
        expect(this.#meaning(field), `the meaning of ${place}`).toMatch(/^\S.*\.$/);
        const isSeen = this.#seen.has(field);
        (isSeen ? seen : found).add(place);
        if (isSeen) walk(field, place);
      }
      if (node.items !== undefined) walk(node.items, `${path}[]`);
      for (const branch of node.oneOf ?? []) walk(branch, path);
    };
    for (const name of this.names) walk(this.#defs[name], `${name} `);
    for (const $ref of used) walk(this.#target({ $ref }), `${$ref.slice(componentPrefix.length)} `);
    // A field counts as seen if one of several kinds had it.
    return [...found].filter((place) => !seen.has(place)).toSorted();
  }

  /** Marks the fields that a value has. */
  #visit(node: ShapeNode, value: unknown): void {
    if (typeof value !== "object" || value === null) return;
    const target = this.#target(node);
    if (target !== undefined) this.#visit(target, value);
    for (const [name, field] of Object.entries(node.properties ?? {})) {
      const inside = (value as Readonly<Record<string, unknown>>)[name];
      if (inside === undefined) continue;
      this.#seen.add(field);
      this.#visit(field, inside);
    }
    if (node.items !== undefined && Array.isArray(value)) for (const item of value) this.#visit(node.items, item);
    const kind = "kind" in value ? value.kind : undefined;
    const branch = node.oneOf?.find(({ properties }) => properties?.["kind"]?.const === kind);
    if (branch !== undefined) this.#visit(branch, value);
  }

  #meaning(node: ShapeNode): string | undefined {
    const target = this.#target(node);
    return node.description ?? (target && this.#meaning(target));
  }

  #target({ $ref }: ShapeNode): ShapeNode | undefined {
    const [, pointer = ""] = $ref?.split("#/") ?? [];
    const [place = "", ...steps] = pointer.replace(/^components\//, "").split("/");
    const all: unknown = { $defs: this.#defs, schemas: this.#components }[place];
    return steps.reduce((part, step) => (part as Record<string, unknown>)[step], all) as ShapeNode | undefined;
  }
}
