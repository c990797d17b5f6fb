/** An OpenAPI description with each named schema in the places that refer to it. */
// oxlint-disable-next-line typescript/no-explicit-any -- what it is made of is what tests are about.
export function inlined(description: any): any {
  const { schemas } = description.components;
  const inline = (value: unknown): unknown => {
    if (typeof value !== "object" || value === null) return value;
    if (Array.isArray(value)) return value.map(inline);
    const { $ref: name } = value as { $ref?: unknown };
    if (typeof name === "string") return inline(schemas[name.split("/").at(-1) ?? ""]);
    return Object.fromEntries(Object.entries(value).map(([key, part]) => [key, inline(part)]));
  };
  return inline(description);
}
