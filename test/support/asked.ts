import type { Registry } from "../../src/rule/registry.ts";

/** The same registry. It notes the name of each operation that it is asked for. */
export function askedBy(registry: Registry): { readonly registry: Registry; readonly asked: string[] } {
  const asked: string[] = [];
  const noting = Object.entries(registry).map(([name, operation]): [string, unknown] => {
    if (typeof operation !== "function") return [name, operation];
    return [
      name,
      (...args: readonly unknown[]) => {
        asked.push(name);
        return operation.apply(registry, args);
      },
    ];
  });
  return { registry: Object.fromEntries(noting) as unknown as Registry, asked };
}
