import { resolve } from "node:path";
import { pathAddress, type RegistryAddress } from "../registries/index.ts";
import { withSource } from "../id/errors.ts";
import { defaultLayout, type Layout } from "../id/layout.ts";
import type { Registry } from "../rule/registry.ts";
import { readOption } from "./options.ts";

/** A lease that another process lends, as the environment of the borrower describes it. */
export interface LentLease {
  /** The lender's socket. */
  readonly address: RegistryAddress;
  readonly namespace: string;
  readonly layout: Layout;
  /** `lentName` of the registry that the lease is from; undefined if that has no name. */
  readonly registry: string | undefined;
  /** The value of SNOWLEASE_WORKER_ID and WESTID_WORKERID that `snowlease exec` set; undefined under `lendLease`. */
  readonly workerId: string | undefined;
}

const names = {
  socket: "SNOWLEASE_LEASE_SOCKET",
  namespace: "SNOWLEASE_LEASE_NAMESPACE",
  layout: "SNOWLEASE_LEASE_LAYOUT",
  registry: "SNOWLEASE_LEASE_REGISTRY",
  workerId: "SNOWLEASE_LEASE_WORKER_ID",
} as const;

/** The variables that describe a lent lease. */
export const lentVariables: readonly string[] = Object.values(names);

/** The lease that this environment lends; undefined if it lends none. @throws SnowleaseError CONFIG_INVALID */
export function lentLease(env: NodeJS.ProcessEnv): LentLease | undefined {
  const socket = env[names.socket];
  if (socket === undefined) return undefined;
  return {
    address: withSource(names.socket, () => pathAddress("unix", socket)),
    namespace: readOption("namespace", env[names.namespace], names.namespace),
    layout: readOption("layout", env[names.layout] ?? defaultLayout, names.layout),
    registry: env[names.registry] || undefined,
    workerId: env[names.workerId] || undefined,
  };
}

/** The environment of a borrower. Every variable is set, so that no variable of another lender reaches the borrower. */
export function lendingEnvironment(
  socket: string,
  { namespace, layout }: { readonly namespace: string; readonly layout: Layout },
  registry: string | undefined,
): Readonly<Record<string, string>> {
  return {
    [names.socket]: socket,
    [names.namespace]: namespace,
    [names.layout]: layout.fingerprint,
    [names.registry]: registry ?? "",
    [names.workerId]: "",
    SNOWLEASE_NAMESPACE: namespace,
  };
}

/** The same for a child of a borrower; undefined if this environment lends no lease of that namespace. */
export function passedOn(env: NodeJS.ProcessEnv, namespace: string): Readonly<Record<string, string>> | undefined {
  if (env[names.socket] === undefined || env[names.namespace] !== namespace) return undefined;
  const lent = Object.entries(env).filter((entry): entry is [string, string] => lentVariables.includes(entry[0]));
  return { ...Object.fromEntries(lent), SNOWLEASE_NAMESPACE: namespace };
}

/** The variables in which `snowlease exec` passes the worker ID. */
export function workerIdVariables(workerId: number): Readonly<Record<string, string>> {
  const text = String(workerId);
  return { SNOWLEASE_WORKER_ID: text, WESTID_WORKERID: text, [names.workerId]: text };
}

/** This environment without the lease that it lends. */
export function withoutLent(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(env).filter(([name]) => !lentVariables.includes(name)));
}

/** The environment without the worker IDs that the lent lease has already: the lender's, and one that was inherited. */
export function ownWorkerId(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  if (env[names.socket] === undefined) return env;
  const told = env[names.workerId] || undefined;
  const left = (name: string): string | undefined => (told === undefined || env[name] === told ? undefined : env[name]);
  return {
    ...env,
    // It may be only a part of the worker ID.
    WORKER_ID: undefined,
    SNOWLEASE_WORKER_ID: left("SNOWLEASE_WORKER_ID"),
    WESTID_WORKERID: left("WESTID_WORKERID"),
  };
}

/** Whether a lent lease is from the registry that a program names; true if it names none. */
export function isFrom(lent: LentLease, registry: RegistryAddress | Registry | undefined): boolean {
  return registry === undefined || (!("claim" in registry) && lentName(registry) === lent.registry);
}

/** The name of a lease's registry for borrowers: without passwords, and the same from any folder. */
export function lentName(registry: RegistryAddress): string {
  const hasFile = "path" in registry && !("servers" in registry);
  return hasFile ? pathAddress(registry.kind, resolve(registry.path)).text : registry.redacted;
}
