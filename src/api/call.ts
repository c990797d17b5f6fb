import type { ErrorCode } from "../id/errors.ts";
import type { Schema } from "./schema.ts";

/** What a token permits. `worker`: leases and IDs. `read`: reading. `admin`: everything. */
export const roles = ["worker", "read", "admin"] as const;
export type Role = (typeof roles)[number];

/** The purpose of each role, for the API's description. */
export const roleTexts: Readonly<Record<Role, string>> = {
  worker: "leases, and IDs",
  read: "reading, and figures",
  admin: "everything",
};

/** The token that a call needs. `open`: none. `any`: any token. Otherwise a token of that role or of `admin`. */
export type Access = "open" | "any" | Role;

/**
 * The header of a receipt. In an answer, the receipt that the registry stored. In a request, the newest receipt that the client got for
 * this lease. In a claim, the receipt of a lease that the client did not release.
 */
export const receiptHeader: string = "snowlease-receipt";
/** The texts that a header can carry. */
export const receiptPattern: RegExp = /^[\x21-\x7e]{1,1024}$/;

/** One call of the HTTP API. Client, daemon and OpenAPI description use this definition. */
export interface Call<Answer = void, Body = undefined, Query = undefined> {
  readonly method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** `:namespace`, `:workerId` and `:id` are its parameters. */
  readonly path: string;
  /** Its name in the description. Generators of clients use it as a method name. */
  readonly operation: string;
  readonly summary: string;
  /** More facts that the author of a client must know. */
  readonly about?: string;
  readonly example?: { readonly body?: NoInfer<Body>; readonly answer?: NoInfer<Answer> };
  readonly access: Access;
  /** A browser that is signed in to the dashboard may make it, too. */
  readonly signedIn?: true;
  /** Counts as a claim of its client. */
  readonly claims?: true;
  /** Default 200. */
  readonly status?: 200 | 201 | 204;
  readonly body?: Schema<Body>;
  readonly query?: Schema<Query>;
  readonly answer?: Schema<Answer>;
  /** Type of an answer that is not JSON. Default application/json. */
  readonly media?: string;
  /** Both request and answer may have a receipt in the header `receiptHeader`. */
  readonly receipts?: true;
  /** Errors that only some calls have. */
  readonly problems?: readonly ErrorCode[];
}
