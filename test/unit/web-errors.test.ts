// What web frameworks make of an error that a handler throws. The services in examples/ show it with real leases.

import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { createRequire } from "node:module";
import type { AddressInfo } from "node:net";
import Fastify from "fastify";
import { expect, onTestFinished, test, vi } from "vitest";
import { encodings } from "../../src/id/encodings.ts";
import { SnowleaseError } from "../../src/id/errors.ts";

const require = createRequire(import.meta.url);
type Handler = (request: { readonly body: unknown }, response: { json(value: unknown): void }) => void;
/** It has no types of its own. */
interface Express {
  (): ((request: IncomingMessage, response: ServerResponse) => void) & {
    set(name: string, value: unknown): void;
    use(...middleware: unknown[]): void;
    post(path: string, handler: Handler): void;
  };
  json(options: { reviver: (key: string, value: unknown) => unknown }): unknown;
}
const express = require("express") as Express;

const expired = new SnowleaseError("LEASE_EXPIRED", "The window of worker 7 ended.", { retryAfterMs: 1500 });
const idOf = (value: unknown): bigint => encodings.decimal.decode(value as string);

test("Express answers 503, and 400 for an ID in a body that is none", async () => {
  // It prints the error a moment after it has answered.
  vi.spyOn(console, "error").mockReturnValue();
  const app = express();
  app.set("env", "production");
  app.use(express.json({ reviver: (key, value) => (key === "id" ? idOf(value) : value) }));
  app.post("/orders", (_request, response) => response.json({ ok: true }));
  app.post("/ids", () => {
    throw expired;
  });
  const server = createServer(app).listen(0, "127.0.0.1");
  onTestFinished(() => void server.close());
  await once(server, "listening");
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const post = (path: string, body: string): Promise<Response> =>
    fetch(url + path, { method: "POST", body, headers: { "content-type": "application/json" } });
  expect((await post("/orders", '{"id":"abc"}')).status).toBe(400);
  expect((await post("/orders", '{"id":"1278549019894743041"}')).status).toBe(200);
  const answer = await post("/ids", "{}");
  expect([answer.status, answer.headers.get("retry-after")]).toEqual([503, "2"]);
  expect(await answer.text()).not.toContain("worker");
});

test("Fastify answers 503, and what a handler sets on an error", async () => {
  const app = Fastify();
  app.get("/ids", () => {
    throw expired;
  });
  app.get("/orders/:id", (request) => {
    try {
      return String(idOf((request.params as { id: string }).id));
    } catch (error) {
      throw Object.assign(error as Error, { statusCode: 400 });
    }
  });
  const answer = await app.inject("/ids");
  expect([answer.statusCode, answer.headers["retry-after"]]).toEqual([503, "2"]);
  expect((await app.inject("/orders/abc")).statusCode).toBe(400);
  expect((await app.inject("/orders/12")).statusCode).toBe(200);
  await app.close();
});

test("the package http-errors, on which others stand, gives an error the status that it is told", () => {
  const fromExpress = createRequire(require.resolve("express"));
  const createError = fromExpress("http-errors") as (
    status: number,
    error: Error,
  ) => { status: number; expose: boolean };
  expect(createError(400, new SnowleaseError("CONFIG_INVALID", "Expected an ID."))).toMatchObject({
    status: 400,
    expose: true,
  });
  expect(createError(500, new SnowleaseError("LEASE_EXPIRED", "It passed."))).toMatchObject({
    status: 503,
    expose: false,
  });
});
