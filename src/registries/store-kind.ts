import type { Clock } from "../clock.ts";
import type { Registry } from "../rule/registry.ts";
import type { Grammar, Scheme, ServerParts } from "./url.ts";
import type { StoreParameters } from "./url-parameters.ts";

/** What every kind of store is opened with. */
export interface RegistryOptions {
  /** Deadline of one operation, ms. */
  readonly operationTimeout: number;
  /** Default: the machine's. */
  readonly clock?: Clock | undefined;
}

/** Whether a network sees what is sent to a registry. */
export type Encryption =
  | { readonly is: "encrypted" }
  /** It is sent through a socket or the loopback interface of this host. */
  | { readonly is: "local" }
  /** With TLS, but to any server that answers. `setting`: what says so. */
  | { readonly is: "unchecked"; readonly setting: string }
  /** `addresses`: those that are reached without TLS, for people. `remedy`: what has to stand where. */
  | { readonly is: "plain"; readonly addresses: readonly string[]; readonly remedy: string };

/** What a kind of store says of itself before its driver is loaded. `Parts`: what its grammar reads. */
export interface StoreKind<Kind extends string = string, Parts extends object = object> {
  readonly kind: Kind;
  readonly schemes: Readonly<Record<string, Scheme>>;
  /** How other programs spell some of these schemes. */
  readonly aliases?: Readonly<Record<string, string>>;
  readonly grammar: Grammar<Omit<Parts, "settings">>;
  /** The parameters that this kind of store alone has; its address has `settings` then. */
  readonly parameters?: StoreParameters;
  /** The kind of its registries. Default: `kind`. */
  readonly registryKind?: string;
  /** Its receipts are signed when they come. */
  readonly signsReceipts?: true;
  /** It forgets by itself the claims that were kept long enough. */
  readonly prunes?: true;
  /** Its registries use the clock of this host. */
  readonly usesHostClock?: true;
  /**
   * What a claim does with a namespace that does not exist: makes it, in quarantine where the store may have forgotten it. Default:
   * the claim is refused.
   */
  readonly claimMakesNamespace?: "at once" | "in quarantine";
  /** What its registries lack of the contract, each with the reason: `Capability` of `snowlease/conformance`. Default: nothing. */
  readonly lacks?: Readonly<Record<string, string>>;
  /** Whether nothing is stored there yet. Absent: opening makes no file. */
  isEmpty?(address: AddressOf<Kind, Parts>): boolean;
  /** Where another place than the address tells it. Rejects where that cannot be read. */
  encryption?(address: AddressOf<Kind, Parts>, operationTimeout: number): Promise<Encryption>;
  /** The statements with which an operator sets it up for a namespace. Absent: it needs none. */
  schema?(address: AddressOf<Kind, Parts>, namespace: string): Promise<string>;
  /**
   * Where a ready client of its driver connects to; undefined for any other object.
   * @throws SnowleaseError CONFIG_INVALID for a client that cannot serve.
   */
  clientTarget?(client: object): ClientTarget | undefined;
  /** Loads the driver. Rejects with what the store refuses with. */
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

/** Where a ready client connects to. */
export interface ClientTarget extends Pick<ServerParts, "scheme" | "servers" | "path"> {
  readonly user: string | undefined;
}
