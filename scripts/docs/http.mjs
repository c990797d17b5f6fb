import { createApp } from "../../dist/http/app.js";
import { memoryRegistry } from "../../dist/testing.js";
import { table } from "./table.mjs";

/** The answer of a daemon with tokens and `--lend` at /openapi.json. */
export async function description() {
  const unused = {};
  const made = { tokens: unused, ids: unused, streams: unused, metrics: unused };
  const app = createApp({ registry: memoryRegistry(), takeBlocks: unused, ...made });
  return (await app.fetch(new Request("http://127.0.0.1/openapi.json"))).json();
}

/** Every call, according to the daemon's own description. */
export async function calls() {
  const { paths, components } = await description();
  const named = ({ schema }) => components.schemas[schema.$ref?.split("/").at(-1)] ?? schema;
  const operations = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ path, method: method.toUpperCase(), ...operation })),
  );
  const rows = operations.map((operation) => [
    `\`${operation.method} ${operation.path}\``,
    operation.summary,
    role(operation),
    taken(operation, named),
    answers(operation, named),
  ]);
  return table([["call", "does", "role", "takes", "answers"], ...rows]);
}

function role({ security }) {
  if (security === undefined) return "open";
  const [role = "any"] = Object.values(security[0])[0];
  return role;
}

/** The names of the fields in body and query. An optional field has a `?`. */
function taken({ requestBody, parameters = [] }, named) {
  const { properties = {}, required = [] } = requestBody ? named(requestBody.content["application/json"]) : {};
  const body = Object.keys(properties).map((name) => `\`${name}${required.includes(name) ? "" : "?"}\``);
  const query = parameters.filter((one) => one.in === "query").map(({ name }) => `\`?${name}\``);
  return [...body, ...query].join(" ");
}

function answers({ responses }, named) {
  const [status, { content = {} }] = Object.entries(responses).find(([status]) => status.startsWith("2"));
  const [[media, described] = ["", { schema: {} }]] = Object.entries(content);
  const names = Object.keys(named(described).properties ?? {}).map((name) => `\`${name}\``);
  return [status, names.length > 0 ? names.join(" ") : media === "application/json" ? "" : media].join(" ").trim();
}
