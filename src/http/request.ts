/** As much of a request as the API looks at: a `Request` is one. */
export interface ApiRequest {
  readonly method: string;
  readonly url: string;
  readonly headers: { get(name: string): string | null };
  /** The body as it comes, of whatever length. */
  readonly body: Request["body"];
  /** The whole body. */
  arrayBuffer(): Promise<ArrayBuffer | Uint8Array>;
}
