/** A write of a transaction, with what it expects to find. */
export type Write =
  | {
      readonly op: "create";
      readonly path: string;
      readonly data?: Uint8Array | undefined;
      /** The node ends with the session, and the server adds a sequence to its name. */
      readonly ephemeral?: true;
      /** Where the node exists, another writer was faster. Without this, an existing node is as good. */
      readonly contested?: true;
    }
  | { readonly op: "set"; readonly path: string; readonly data: Uint8Array; readonly version: number }
  | { readonly op: "remove"; readonly path: string; readonly version?: number | undefined }
  /** Changes nothing: expects this version of the node, or any. */
  | { readonly op: "check"; readonly path: string; readonly version?: number | undefined };

/** What a node holds. */
export interface Node {
  readonly data: Uint8Array;
  readonly version: number;
  /** How many nodes lie below it. */
  readonly children: number;
}

/** How many children a node has. */
interface ChildCounts {
  readonly present: number;
  /** How many there ever were: the number of the next sequential one. */
  readonly created: number;
}

/** What became of a transaction: the paths that its creations made, by the places of the writes; or the write that did not find what it expected. */
type Committed =
  | { readonly made: readonly (string | undefined)[]; readonly failed?: undefined; readonly code?: undefined }
  /** `code`: the server's. */
  | { readonly failed: number; readonly code: number };

/** Calls over one connection. The server does them in their order: a read sees the writes before it. A missing node is undefined. */
export interface ZooKeeperSession {
  /** Tells sessions apart: in a new one, the ephemeral nodes of the one before are gone. */
  readonly id: number;
  get(path: string): Promise<Node | undefined>;
  /** Names of the children. */
  list(path: string): Promise<readonly string[] | undefined>;
  count(path: string): Promise<ChildCounts | undefined>;
  /** Empties a node. Returns the leader's time of that write, Unix ms. */
  touch(path: string): Promise<number | undefined>;
  /** False where the node exists, or its parent is missing. */
  create(path: string): Promise<boolean>;
  /** False where there is no such node, or it has children. */
  remove(path: string): Promise<boolean>;
  /** All writes or none. */
  commit(writes: readonly Write[]): Promise<Committed>;
}

/** Makes calls within an operation's deadline. */
export type Exchange = <Answer>(calls: (session: ZooKeeperSession) => Promise<Answer>) => Promise<Answer>;
