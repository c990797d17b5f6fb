/** A request as far as a route looks at one, wherever it came from. */
export interface Asked {
  /** By its name in lower case. */
  header(name: string): string | null | undefined;
  /** A part of the path, decoded. */
  param(name: string): string | undefined;
  /** What may have a query. */
  readonly url: string;
  /** @throws SnowleaseError CONFIG_INVALID when it is too long, or breaks off. */
  body(): Promise<ArrayBuffer | Uint8Array>;
}

/** What a request is answered with, before it is sent. */
export interface Reply {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | null;
}

export function responseOf({ status, headers, body }: Reply): Response {
  return new Response(body, { status, headers });
}
