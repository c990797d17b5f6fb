import type { Clock } from "../clock.ts";
import type { Registry } from "../rule/registry.ts";
import type { Grammar, Scheme, ServerParts } from "./url.ts";
import type { StoreParameters } from "./url-parameters.ts";

/** The options with which every kind of store is opened. */
export interface RegistryOptions {
  /** Deadline of one operation, ms. */
  readonly operationTimeout: number;
  /** Default: the machine's clock. */
  readonly clock?: Clock | undefined;
}

/** Whether others on the network can read what is sent to a registry. */
export type Encryption =
  | { readonly is: "encrypted" }
  /** Everything is sent through a socket or the loopback interface of this host. */
  | { readonly is: "local" }
  /** TLS, but to any server that answers. `setting`: the setting that causes this. */
  | { readonly is: "unchecked"; readonly setting: string }
  /** `addresses`: the addresses that are reached without TLS, for people. `remedy`: which setting to change, and where. */
  | { readonly is: "plain"; readonly addresses: readonly string[]; readonly remedy: string };

/** What a kind of store reports about itself before its driver is loaded. `Parts`: what its grammar reads. */
export interface StoreKind<Kind extends string = string, Parts extends object = object> {
  readonly kind: Kind;
  readonly schemes: Readonly<Record<string, Scheme>>;
  /** How other programs spell some of these schemes. */
  readonly aliases?: Readonly<Record<string, string>>;
  readonly grammar: Grammar<Omit<Parts, "settings">>;
  /** The parameters that only this kind of store has. Its address then has `settings`. */
  readonly parameters?: StoreParameters;
  /** The kind of its registries. Default: `kind`. */
  readonly registryKind?: string;
  /** Its registries return receipts that are already signed. */
  readonly signsReceipts?: true;
  /** The store itself deletes claims that were kept long enough. */
  readonly prunes?: true;
  /** Its registries use the clock of this host. */
  readonly usesHostClock?: true;
  /**
   * How a claim makes a namespace that does not exist: at once, or in quarantine, because the store may have forgotten the namespace.
   * Default: the claim is refused.
   */
  readonly claimMakesNamespace?: "at once" | "in quarantine";
  /** Parts of the contract that its registries lack, each with the reason: `Capability` of `snowlease/conformance`. Default: none. */
  readonly lacks?: Readonly<Record<string, string>>;
  /** Whether nothing is stored there yet. Absent: to open the registry makes no file. */
  isEmpty?(address: AddressOf<Kind, Parts>): boolean;
  /** The encryption, if something other than the address defines it. Rejects if that cannot be read. */
  encryption?(address: AddressOf<Kind, Parts>, operationTimeout: number): Promise<Encryption>;
  /** The statements with which an operator prepares the store for a namespace. Absent: it needs none. */
  schema?(address: AddressOf<Kind, Parts>, namespace: string): Promise<string>;
  /**
   * The target to which a ready client of its driver connects. Undefined for any other object.
   * @throws SnowleaseError CONFIG_INVALID for a client that cannot be used.
   */
  clientTarget?(client: object): ClientTarget | undefined;
  /** Loads the driver. Rejects with the error of the store. */
  open(address: AddressOf<Kind, Parts>, options: RegistryOptions & { readonly clock: Clock }): Promise<Registry>;
}

/** Where a registry is, read from a registry URL. */
export type AddressOf<Kind extends string, Parts extends object> = Parts & {
  readonly kind: Kind;
  /** Without the query, as it was given: it may hold a password. */
  readonly text: string;
  /** `text` for people: no password, no token. */
  readonly redacted: string;
  /** The query, decoded, without the store's own parameters. */
  readonly parameters: Readonly<Record<string, string>>;
};

/** The target to which a ready client connects. */
export interface ClientTarget extends Pick<ServerParts, "scheme" | "servers" | "path"> {
  readonly user: string | undefined;
}
