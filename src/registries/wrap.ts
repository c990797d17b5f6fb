import type { Registry } from "../rule/registry.ts";

/** An operation of a registry. */
export type OperationName = Exclude<keyof Registry, "kind" | "close">;

/** The operations that every registry has. */
export const requiredOperations = [
  "init",
  "describe",
  "claim",
  "renew",
  "release",
  "workers",
  "worker",
  "history",
  "forceRelease",
  "pin",
  "unpin",
  "prune",
  "ping",
] as const;

/** A call of a registry: the operation and its arguments. */
export type OperationCall<Name extends OperationName = OperationName> = {
  readonly [Each in Name]: { readonly method: Each; readonly args: Parameters<NonNullable<Registry[Each]>> };
}[Name];

type AnyOperation = (...args: readonly unknown[]) => Promise<unknown>;

/** These operations. `answer` answers each of them. */
export function operationsBy<const Name extends OperationName>(
  names: readonly Name[],
  answer: (call: OperationCall<Name>) => Promise<unknown>,
): Pick<Registry, Name> {
  const entries = names.map((method): [Name, AnyOperation] => [
    method,
    (...args) => answer({ method, args } as unknown as OperationCall<Name>),
  ]);
  return Object.fromEntries(entries) as unknown as Pick<Registry, Name>;
}

/** Calls an operation of a registry. Undefined if the registry does not have it. */
export async function ask(registry: Registry, { method, args }: OperationCall): Promise<unknown> {
  return (registry as Partial<Record<OperationName, AnyOperation>>)[method]?.(...args);
}

/** The same registry, but `around` answers these operations. An operation that the registry does not have stays absent. */
export function wrapRegistry<Wrapped extends Registry, const Name extends OperationName>(
  registry: Wrapped,
  names: readonly Name[],
  around: (call: OperationCall<Name>, run: () => Promise<unknown>) => Promise<unknown>,
): Wrapped {
  const there = names.filter((name) => registry[name] !== undefined);
  return {
    ...registry,
    ...operationsBy(there, (call) => around(call, () => ask(registry, call as unknown as OperationCall))),
  };
}
