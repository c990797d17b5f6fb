import { createApp } from "../../dist/http/app.js";
import { memoryRegistry } from "../../dist/testing.js";
import { table } from "./table.mjs";

const open = { admit: () => "" };

/** Every call, as the daemon's own description has it. */
export async function calls() {
  const unused = {};
  const app = createApp({ registry: memoryRegistry(), tokens: open, ids: unused, streams: unused, metrics: unused });
  const { paths } = await (await app.fetch(new Request("http://127.0.0.1/openapi.json"))).json();
  const operations = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ path, method: method.toUpperCase(), ...operation })),
  );
  const rows = operations.map((operation) => [
    `\`${operation.method} ${operation.path}\``,
    operation.summary,
    role(operation),
    taken(operation),
    answers(operation),
  ]);
  return table([["call", "does", "role", "takes", "answers"], ...rows]);
}

function role({ security }) {
  if (security === undefined) return "open";
  const [role = "any"] = Object.values(security[0])[0];
  return role;
}

/** Names of what stands in body and query; what may be left out has a `?`. */
function taken({ requestBody, parameters = [] }) {
  const { properties = {}, required = [] } = requestBody?.content["application/json"].schema ?? {};
  const body = Object.keys(properties).map((name) => `\`${name}${required.includes(name) ? "" : "?"}\``);
  const query = parameters.filter((one) => one.in === "query").map(({ name }) => `\`?${name}\``);
  return [...body, ...query].join(" ");
}

function answers({ responses }) {
  const [status, { content = {} }] = Object.entries(responses).find(([status]) => status.startsWith("2"));
  const [[media, { schema }] = ["", {}]] = Object.entries(content);
  const names = Object.keys(schema?.properties ?? {}).map((name) => `\`${name}\``);
  return [status, names.length > 0 ? names.join(" ") : media === "application/json" ? "" : media].join(" ").trim();
}
