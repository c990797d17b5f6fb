/** A write of a transaction, with what it expects to find. */
export type Write =
  | {
      readonly op: "create";
      readonly path: string;
      readonly data?: Uint8Array;
      /** The node ends with the session, and the server adds a sequence to its name. */
      readonly ephemeral?: true;
      /** Where the node exists, another writer was faster. Without this, an existing node is as good. */
      readonly contested?: true;
    }
  | { readonly op: "set"; readonly path: string; readonly data: Uint8Array; readonly version: number }
  | { readonly op: "remove"; readonly path: string; readonly version?: number };

/** What a node holds. */
export interface Node {
  readonly data: Uint8Array;
  readonly version: number;
}

/** Calls over one connection. The server does them in their order: a read sees the writes before it. */
export interface ZooKeeperSession {
  /** Tells sessions apart: in a new one, the ephemeral nodes of the one before are gone. */
  readonly id: number;
  get(path: string): Promise<Node | undefined>;
  /** Names of the children; undefined where there is no such node. */
  list(path: string): Promise<readonly string[] | undefined>;
  /** How many children a node has; undefined where there is no such node. */
  count(path: string): Promise<number | undefined>;
  /**
   * How many children were ever created below a node: the number of the next sequential one. Undefined where there is no such node.
   */
  created(path: string): Promise<number | undefined>;
  /** How many children of a node were ever removed; undefined where there is no such node. */
  removed(path: string): Promise<number | undefined>;
  /** Empties a node. Returns the leader's time of that write, Unix ms; undefined where there is no such node. */
  touch(path: string): Promise<number | undefined>;
  /** `orphan`: the parent is missing. */
  create(path: string, data?: Uint8Array): Promise<"made" | "exists" | "orphan">;
  /** False where the node has another version, or does not exist. */
  set(path: string, data: Uint8Array, version: number): Promise<boolean>;
  /** False where there is no such node, or it has children. */
  remove(path: string): Promise<boolean>;
  /** All writes or none. Undefined when they were done; otherwise the write that did not find what it expected, and the server's code. */
  commit(writes: readonly Write[]): Promise<{ readonly failed: number; readonly code: number } | undefined>;
}
