/** The part of a request that the API reads. A `Request` has it. */
export interface ApiRequest {
  readonly method: string;
  readonly url: string;
  readonly headers: { get(name: string): string | null };
  /** The body as a stream, of any length. */
  readonly body: Request["body"];
  /** The whole body. */
  arrayBuffer(): Promise<ArrayBuffer | Uint8Array>;
}
