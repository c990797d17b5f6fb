/** A write of a transaction. Nothing is ever written without saying what is expected to be there. */
export type Write =
  | {
      readonly op: "create";
      readonly path: string;
      readonly data?: Uint8Array;
      /** It goes with the session, and the server adds a sequence to its name. */
      readonly ephemeral?: true;
      /** Where it exists, somebody else was faster. Elsewhere that only means that it is there already. */
      readonly contested?: true;
    }
  | { readonly op: "set"; readonly path: string; readonly data: Uint8Array; readonly version: number }
  | { readonly op: "remove"; readonly path: string; readonly version?: number };

/** What a node holds. */
export interface Node {
  readonly data: Uint8Array;
  readonly version: number;
}

/** Calls over one connection. They are sent at once and done in order: a read sees what the writes before it have written. */
export interface ZooKeeperSession {
  /** Another number for another session: the nodes that went with the one before are gone. */
  readonly id: number;
  get(path: string): Promise<Node | undefined>;
  /** Names of the children; undefined where there is no such node. */
  list(path: string): Promise<readonly string[] | undefined>;
  /** How many children a node has; undefined where there is no such node. */
  count(path: string): Promise<number | undefined>;
  /**
   * How many children were ever created below a node, which is the number that the next sequential one gets; undefined where there is no
   * such node.
   */
  created(path: string): Promise<number | undefined>;
  /** How many children of a node have gone; undefined where there is no such node. */
  removed(path: string): Promise<number | undefined>;
  /** Writes nothing into a node: the leader's clock when it did, Unix ms; undefined where there is no such node. */
  touch(path: string): Promise<number | undefined>;
  /** `orphan`: the node above is missing. */
  create(path: string, data?: Uint8Array): Promise<"made" | "exists" | "orphan">;
  /** False where another version stands there, or none. */
  set(path: string, data: Uint8Array, version: number): Promise<boolean>;
  /** False where there is no such node, or nodes are below it. */
  remove(path: string): Promise<boolean>;
  /** All of it or nothing: undefined when it was done, else which write did not find what it expected, and the server's code. */
  commit(writes: readonly Write[]): Promise<{ readonly failed: number; readonly code: number } | undefined>;
}
