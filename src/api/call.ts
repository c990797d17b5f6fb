import type { ErrorCode } from "../id/errors.ts";
import type { Schema } from "./schema.ts";

/** What a token permits. `worker`: leases and IDs. `read`: reading. `admin`: everything. */
export const roles = ["worker", "read", "admin"] as const;
export type Role = (typeof roles)[number];

/** What each role is for, in the words of the description. */
export const roleTexts: Readonly<Record<Role, string>> = {
  worker: "leases, and IDs",
  read: "reading, and figures",
  admin: "everything",
};

/** What a call asks for. `open`: nothing. `any`: any token. Else a token of that role, or of `admin`. */
export type Access = "open" | "any" | Role;

/**
 * The header of a receipt. In an answer: what the registry stored. In a request: the newest one that the client got for this lease, or for
 * a claim, of a lease that it did not give back.
 */
export const receiptHeader: string = "snowlease-receipt";
/** What a header can carry. */
export const receiptPattern: RegExp = /^[\x21-\x7e]{1,1024}$/;

/** One call of the HTTP API: client, daemon and OpenAPI description read it here. */
export interface Call<Answer = void, Body = undefined, Query = undefined> {
  readonly method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** `:namespace`, `:workerId` and `:id` are its parameters. */
  readonly path: string;
  /** Its name in the description, by which generators of clients call it. */
  readonly operation: string;
  readonly summary: string;
  /** What the author of a client has to know of it besides. */
  readonly about?: string;
  readonly example?: { readonly body?: NoInfer<Body>; readonly answer?: NoInfer<Answer> };
  readonly access: Access;
  /** A browser that is signed in to the dashboard may also make it. */
  readonly signedIn?: true;
  /** Counts as a claim of its client. */
  readonly claims?: true;
  /** Default 200. */
  readonly status?: 200 | 201 | 204;
  readonly body?: Schema<Body>;
  readonly query?: Schema<Query>;
  readonly answer?: Schema<Answer>;
  /** Of an answer that is no JSON. Default application/json. */
  readonly media?: string;
  /** A request may bear a receipt in the header `receiptHeader`, and an answer may. */
  readonly receipts?: true;
  /** Errors that only some calls have. */
  readonly problems?: readonly ErrorCode[];
}
