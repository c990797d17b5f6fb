/** Limits of what one client may use of a server. Times in ms. */
export interface ServerLimits {
  /** For a TLS handshake. */
  readonly handshakeTimeout: number;
  /** For the headers of an HTTP request. In the Redis protocol, for a token. */
  readonly headersTimeout: number;
  readonly requestTimeout: number;
  /** How long an HTTP connection may be idle between two requests. */
  readonly keepAliveTimeout: number;
  /** How long a connection may stand still within a request or an answer. */
  readonly idleTimeout: number;
}

export const usualLimits: ServerLimits = {
  handshakeTimeout: 10_000,
  headersTimeout: 10_000,
  requestTimeout: 20_000,
  keepAliveTimeout: 30_000,
  idleTimeout: 60_000,
};
