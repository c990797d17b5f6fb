export { getRequestListener, type HttpBindings } from "@hono/node-server";
export { Hono } from "hono";
export { html, raw } from "hono/html";
