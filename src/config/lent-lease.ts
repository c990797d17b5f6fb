import { resolve } from "node:path";
import { pathAddress, type RegistryAddress } from "../registries/index.ts";
import { withSource } from "../id/errors.ts";
import { defaultLayout, type Layout } from "../id/layout.ts";
import type { Registry } from "../rule/registry.ts";
import { readOption } from "./options.ts";

type Environment = Readonly<Record<string, string | undefined>>;

/** A lease that another process lends, as the environment of the borrowing process describes it. */
export interface LentLease {
  /** The socket of the process that lends it. */
  readonly address: RegistryAddress;
  readonly namespace: string;
  readonly layout: Layout;
  /** `lentName` of the registry that the lease is from; undefined where that has no name. */
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

/** The lease that this environment lends; undefined where it lends none. @throws SnowleaseError CONFIG_INVALID */
export function lentLease(env: Environment): LentLease | undefined {
  const socket = env[names.socket];
  if (socket === undefined) return undefined;
  const layout = env[names.layout];
  return {
    address: withSource(names.socket, () => pathAddress("unix", socket)),
    namespace: readOption("namespace", env[names.namespace], names.namespace),
    layout: layout === undefined ? defaultLayout : readOption("layout", layout, names.layout),
    registry: env[names.registry] || undefined,
    workerId: env[names.workerId] || undefined,
  };
}

/**
 * The environment of a process that borrows a lease. It sets every variable: one that this process inherited from another lender must not
 * reach its children. The lease's namespace becomes the program's default.
 */
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

/** The same for a child of a borrower; undefined where this environment lends no lease of that namespace. */
export function passedOn(env: Environment, namespace: string): Readonly<Record<string, string>> | undefined {
  if (env[names.socket] === undefined || env[names.namespace] !== namespace) return undefined;
  const lent = Object.entries(env).filter((entry): entry is [string, string] => lentVariables.includes(entry[0]));
  return { ...Object.fromEntries(lent), SNOWLEASE_NAMESPACE: namespace };
}

/** The variables in which `snowlease exec` passes the worker ID. It stays the same as long as the program runs. */
export function workerIdVariables(workerId: number): Readonly<Record<string, string>> {
  const text = String(workerId);
  return { SNOWLEASE_WORKER_ID: text, WESTID_WORKERID: text, [names.workerId]: text };
}

/** This environment without the lease that it lends. */
export function withoutLent(env: Environment): Environment {
  return Object.fromEntries(Object.entries(env).filter(([name]) => !lentVariables.includes(name)));
}

/**
 * The environment, where it names a worker ID to claim: without the worker ID of the lender, which is leased already, and without the one
 * that a program under `lendLease` inherited, which the lease has already.
 */
export function ownWorkerId(env: Environment): Environment {
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

/** Whether a lent lease is from the registry that a program names; true where it names none. */
export function isFrom(lent: LentLease, registry: RegistryAddress | Registry | undefined): boolean {
  if (registry === undefined) return true;
  return !("claim" in registry) && lentName(registry) === lent.registry;
}

/** The name of a lease's registry for borrowers: without passwords, and the same from any folder. */
export function lentName(registry: RegistryAddress): string {
  const hasFile = "path" in registry && !("servers" in registry);
  return hasFile ? pathAddress(registry.kind, resolve(registry.path)).text : registry.redacted;
}
