import { type AppOptions, createApp } from "../../src/http/app.ts";
import { ownLeases } from "../../src/ops/ids.ts";
import { defaultLayout } from "../../src/id/layout.ts";
import type { Registry } from "../../src/rule/registry.ts";
import { type FakeClock, fakeClock, memoryRegistry } from "../../src/testing.ts";

/** A parsed answer of the HTTP API. */
interface Reply {
  readonly status: number;
  readonly headers: Headers;
  // oxlint-disable-next-line typescript/no-explicit-any -- what it is made of is what tests are about.
  readonly body: any;
}

/** The HTTP API without sockets, over a registry in memory, with a clock that stands still. */
export interface Api {
  readonly clock: FakeClock;
  readonly registry: Registry;
  /** Log lines: level, fields, message. */
  readonly lines: unknown[];
  /** `body`: an object is sent as JSON, a string or bytes as they are. */
  call(method: string, path: string, body?: unknown, headers?: Record<string, string>): Promise<Reply>;
}

export function makeApi(options: Partial<AppOptions> = {}): Api {
  const clock = fakeClock();
  const registry = options.registry ?? memoryRegistry({ clock });
  const lines: unknown[] = [];
  const write =
    (level: string) =>
    (...line: unknown[]): void =>
      void lines.push([level, ...line]);
  const ids = ownLeases(
    { registry, clock, makeToken: () => crypto.randomUUID().replaceAll("-", "") },
    {
      layout: defaultLayout,
      window: 60_000,
      operationTimeout: 1000,
      claimTimeout: 0,
      maxWait: 500,
      reuse: "any",
      holder: { host: "here", ip: "127.0.0.1", pid: 1, instance: "daemon" },
    },
  );
  const log = { info: write("info"), warn: write("warn"), error: write("error") };
  const app = createApp({ registry, clock, ids, log, ...options });

  return {
    clock,
    registry,
    lines,
    async call(method, path, body, headers = {}) {
      const raw = typeof body === "string" || body instanceof Uint8Array || body instanceof ReadableStream;
      const init = {
        method,
        headers: { ...(body !== undefined && { "content-type": "application/json" }), ...headers },
        ...(body !== undefined && { body: raw ? (body as string) : JSON.stringify(body) }),
        duplex: "half" as const,
      };
      const response = await app.fetch(new Request(`http://localhost${path}`, init));
      const text = await response.text();
      return { status: response.status, headers: response.headers, body: text === "" ? undefined : JSON.parse(text) };
    },
  };
}
