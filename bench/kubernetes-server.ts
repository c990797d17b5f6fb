// An API server of Kubernetes for the bench, until stdin ends. Prints where it is, and how to log in to a namespace for each name of argv: by
// way of a proxy that counts requests. To each line of stdin it answers how many there were so far.

import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { ApiProxy } from "../test/support/api-proxy.ts";
import { Kubernetes } from "../test/support/kubernetes.ts";

const server = await Kubernetes.start();
const proxy = await ApiProxy.start(server);
const verbs = ["get", "list", "create", "patch", "update", "delete"];
const names = process.argv.slice(2);
server.allow(names.map((name) => ({ token: `token-of-${name}`, name, namespace: name, verbs })));
const urlOf = (name: string, port: number): string =>
  server.url(port, { token: `token-of-${name}` }).replace("kubernetes:", `kubernetes://${name}`);
const urls = (port: number): object => Object.fromEntries(names.map((name) => [name, urlOf(name, port)]));
const ca = readFileSync(server.certificates.authority, "utf8");
console.log(JSON.stringify({ port: server.port, ca, urls: urls(server.port), counted: urls(proxy.port) }));
for await (const _ of createInterface({ input: process.stdin })) console.log(proxy.asked.length);
await proxy.stop();
await server.remove();
