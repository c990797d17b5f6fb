/** A write of a transaction, and what it expects to find. */
export type Write =
  | {
      readonly op: "create";
      readonly path: string;
      readonly data?: Uint8Array | undefined;
      /** The node ends with the session, and the server adds a sequence to its name. */
      readonly ephemeral?: true;
      /** If the node exists, another writer was faster. Without this flag, an existing node counts as created. */
      readonly contested?: true;
    }
  | { readonly op: "set"; readonly path: string; readonly data: Uint8Array; readonly version: number }
  | { readonly op: "remove"; readonly path: string; readonly version?: number | undefined }
  /** Changes nothing: expects this version of the node, or any. */
  | { readonly op: "check"; readonly path: string; readonly version?: number | undefined };

/** The content of a node. */
export interface Node {
  readonly data: Uint8Array;
  readonly version: number;
  /** How many nodes lie below it. */
  readonly children: number;
}

/** How many children a node has. */
interface ChildCounts {
  readonly present: number;
  /** How many were ever created. This is the sequence of the next sequential child. */
  readonly created: number;
}

/**
 * The result of a transaction: the paths of the created nodes, by the places of the writes, or the place of the write that did not find
 * what it expected.
 */
type Committed =
  | { readonly made: readonly (string | undefined)[]; readonly failed?: undefined; readonly code?: undefined }
  /** `code`: the server's error code. */
  | { readonly failed: number; readonly code: number };

/**
 * Calls over one connection. The server runs them in their order, so a read sees the writes before it. The answer for a missing node is
 * undefined.
 */
export interface ZooKeeperSession {
  /** Identifies the session. In a new session, the ephemeral nodes of the earlier one are gone. */
  readonly id: number;
  get(path: string): Promise<Node | undefined>;
  /** Names of the children. */
  list(path: string): Promise<readonly string[] | undefined>;
  count(path: string): Promise<ChildCounts | undefined>;
  /** Empties a node. Returns the leader's time of that write, Unix ms. */
  touch(path: string): Promise<number | undefined>;
  /** False if the node exists, or its parent is missing. */
  create(path: string): Promise<boolean>;
  /** False if the node does not exist, or has children. */
  remove(path: string): Promise<boolean>;
  /** All writes or none. */
  commit(writes: readonly Write[]): Promise<Committed>;
}

/** Makes calls within the deadline of an operation. */
export type Exchange = <Answer>(calls: (session: ZooKeeperSession) => Promise<Answer>) => Promise<Answer>;
