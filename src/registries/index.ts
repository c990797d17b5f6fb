import { systemClock } from "../clock.ts";
import { configInvalid } from "../id/errors.ts";
import type { Registry } from "../rule/registry.ts";
import { autoPruned } from "./auto-prune.ts";
import { classText, clientAddress } from "./driver-client.ts";
import type { AddressOf, RegistryOptions, StoreKind } from "./store-kind.ts";
import * as list from "./stores.ts";
import { type AddressList, listedRegistry } from "./mixed-list.ts";
import { readUrl } from "./read-url.ts";
import { shownUrl, whereOf } from "./url.ts";

/** Where a registry is, read from a registry URL. */
export type RegistryAddress = {
  [Name in keyof typeof list]: (typeof list)[Name] extends StoreKind<infer Kind, infer Parts>
    ? AddressOf<Kind, Parts>
    : never;
}[keyof typeof list];

/** Messages first name the stores that need no server. */
const stores: readonly StoreKind[] = [...new Set<StoreKind>([list.sqlite, list.memory, ...Object.values(list)])];

/** The store at an address. */
export function storeOf({ kind }: RegistryAddress): StoreKind {
  const store = stores.find((store) => store.kind === kind);
  if (store === undefined) throw new TypeError(`There is no store \`${kind}\`.`);
  return store;
}

/**
 * Reads a registry URL, such as `sqlite:PATH`.
 * @throws SnowleaseError CONFIG_INVALID, never with a password in it.
 */
export function parseAddress(text: string): RegistryAddress {
  return readUrl(text, stores) as RegistryAddress;
}

/** The address of a file or socket by its path. Nothing in the path needs encoding. */
export function pathAddress(kind: RegistryAddress["kind"], path: string): RegistryAddress {
  const encoded = path
    // Two slashes would start a host name.
    .replace(/^\/{2,}/, "/")
    .replace(/[%?#,]|(?<=^\/?)~|\s$/g, (one) => (one === "~" ? "%7E" : encodeURIComponent(one)));
  return parseAddress(`${kind}:${encoded}`);
}

/** The store whose registries have this kind. Undefined for a registry that the program made itself. */
export function storeOfRegistry(kind: string): StoreKind | undefined {
  return stores.find((store) => (store.registryKind ?? store.kind) === kind);
}

/** Whether opening the registry at an address makes a file. */
export function isEmpty(address: RegistryAddress): boolean {
  return storeOf(address).isEmpty?.(address) ?? false;
}

/**
 * Opens the registry at an address. This loads the store and its driver. Rejects with the error of the store. If there are several
 * addresses, all must lead to one registry: see `listedRegistry`.
 */
export async function openRegistry(address: RegistryAddress, options: RegistryOptions): Promise<Registry> {
  const { operationTimeout, clock = systemClock } = options;
  const store = storeOf(address);
  const opened = await store.open(address, { operationTimeout, clock });
  const list = listOf(address, options);
  const registry = list === undefined ? opened : listedRegistry(opened, list, clock);
  return store.prunes ? registry : autoPruned(registry);
}

/** The addresses in an address. Undefined if it names only one. */
export function listOf(address: RegistryAddress, options: RegistryOptions): AddressList | undefined {
  const names = storeOf(address).schemes["scheme" in address ? address.scheme : address.kind]?.list;
  const each = eachOf(address);
  if (names === undefined || each.length < 2) return undefined;
  const all = each.map(([shown, one]) => ({ address: shown, open: () => openRegistry(one, options) }));
  return { names, all };
}

/** The addresses one by one, each with its text for people. */
function eachOf(address: RegistryAddress): readonly (readonly [string, RegistryAddress])[] {
  if ("urls" in address) return address.urls.map((url) => [shownUrl(new URL(url)), { ...address, urls: [url] }]);
  if ("servers" in address) return address.servers.map((one) => [whereOf([one]), { ...address, servers: [one] }]);
  return [];
}

/**
 * The address of a driver's ready client, or of a client with settings: `{ client, ...settings }`.
 * @throws SnowleaseError CONFIG_INVALID for anything else. The error does not show its contents.
 */
export function addressOfClient(given: object): RegistryAddress {
  const { client = given, ...settings } = given as { readonly client?: unknown };
  const address = clientAddress(given, {}, stores) ?? clientAddress(client, settings, stores);
  if (address !== undefined) return address as RegistryAddress;
  throw configInvalid(
    `Expected a registry, or a ready client (of ioredis, or a pool of pg or mysql2), got ${classText(client)}; name the registry by its URL.`,
  );
}
