// A lint rule: imports inside src/ run in one direction. `no-restricted-imports` compares the text of an import and overlooks `import()`.
// This rule looks at where the imported file is.

import { dirname, join, relative, resolve } from "node:path";

const src = resolve(import.meta.dirname, "../src");

/** What every part except the rooms of an ID's life may use. */
const rooms = ["id/", "rule/", "clock.ts", "lease/", "generator/", "sharing/"];
/** What every store may use. */
const store = ["id/", "rule/", "clock.ts", "registries/*.ts", "registries/engine/", "store-file.ts", "node:", "npm:"];
const machinery = [
  ...rooms,
  "api/",
  "assets.ts",
  "store-file.ts",
  "registries/",
  "assigners/",
  "config/",
  "node:",
  "npm:",
];

/** What every room of http/ may use. */
const httpBase = ["http/problem.ts", "http/request.ts", "registries/bounded-map.ts", "serving/"];

/*
 * A part of src/, and what it may import besides itself. A file belongs to the first part that fits. `*` is one name, a trailing `/` or
 * `:` is everything below, `npm:` is any package.
 */
const layers = {
  "id/": [],
  "rule/": ["id/duration.ts", "id/errors.ts", "id/pool-bounds.ts", "id/shell-word.ts", "node:crypto"],
  "clock.ts": ["node:timers/promises"],
  "lease/": ["id/", "rule/", "clock.ts", "node:crypto"],
  "generator/": ["id/", "rule/", "clock.ts", "lease/"],
  "sharing/": [
    "id/",
    "rule/",
    "clock.ts",
    "lease/",
    "generator/",
    "registries/bounded-map.ts",
    "store-file.ts",
    "node:",
  ],
  "api/": ["id/", "rule/", "node:", "npm:zod"],
  "assets.ts": ["node:"],
  "store-file.ts": ["id/", "rule/", "node:"],
  "registries/daemon/": ["api/", "id/", "rule/", "clock.ts", "registries/*.ts", "store-file.ts", "node:"],
  "registries/engine/": ["id/", "rule/", "clock.ts", "registries/together.ts", "node:"],
  "registries/*/": store,
  "registries/": ["id/", "rule/", "clock.ts", "node:", "npm:zod"],
  "assigners/": ["id/", "rule/", "lease/", "registries/", "node:"],
  "config/": [...rooms, "registries/", "node:"],
  "snowlease.ts": [...rooms, "registries/", "assigners/", "config/", "node:"],
  "lend.ts": [...rooms, "registries/", "serving/", "http/", "config/", "node:"],
  "conformance/": ["id/", "rule/", "generator/recent-ticks.ts"],
  "conformance.ts": ["rule/", "conformance/"],
  "store.ts": ["rule/", "registries/engine/"],
  "testing/": [
    "id/",
    "rule/",
    "clock.ts",
    "lease/",
    "registries/deadline.ts",
    "registries/index.ts",
    "registries/wrap.ts",
    "snowlease.ts",
    "node:",
  ],
  "verify/": [
    "id/",
    "rule/",
    "registries/deadline.ts",
    "registries/encryption.ts",
    "registries/index.ts",
    "conformance.ts",
    "testing/",
    "snowlease.ts",
    "node:",
  ],
  "testing.ts": ["testing/", "registries/memory/"],
  "index.ts": [...rooms, "registries/", "assigners/", "config/", "snowlease.ts", "lend.ts"],
  "ops/": machinery,
  "serving/": [
    "id/",
    "rule/",
    "clock.ts",
    "api/",
    "registries/bounded-map.ts",
    "registries/daemon/address.ts",
    "node:",
  ],
  "resp/": ["id/", "api/ids.ts", "generator/decimal-writer.ts", "ops/ids.ts", "serving/", "node:"],
  "http/access/": ["id/", "rule/", "clock.ts", "api/call.ts", ...httpBase, "node:"],
  "http/server/": ["id/", "http/access/", ...httpBase, "http/app.ts", "node:", "npm:"],
  "http/monitoring/": [...machinery, "ops/", ...httpBase],
  "http/routes/": [
    ...machinery,
    "ops/",
    "http/access/",
    "http/monitoring/",
    ...httpBase,
    "http/body.ts",
    "http/visit.ts",
  ],
  "http/dashboard/": [
    ...machinery,
    "ops/",
    "http/access/",
    "http/monitoring/",
    "http/routes/route.ts",
    ...httpBase,
    "http/body.ts",
  ],
  "http/": [...machinery, "ops/", "serving/"],
  "daemon.ts": [...machinery, "snowlease.ts", "ops/", "serving/", "http/", "resp/"],
  "cli/terminal/": [
    "id/",
    "rule/",
    "ops/",
    "config/",
    "verify/verify.ts",
    "assets.ts",
    "cli/command.ts",
    "cli/exit-codes.ts",
    "node:",
  ],
  "cli/": [...machinery, "snowlease.ts", "lend.ts", "ops/", "serving/", "http/", "verify/", "daemon.ts"],
};

const pattern = (part) =>
  new RegExp(`^${part.replaceAll(".", "\\.").replaceAll("*", "[^/]+")}${/[/:]$/.test(part) ? "" : "$"}`);
const rules = Object.entries(layers).map(([part, allowed]) => ({ part: pattern(part), allowed: allowed.map(pattern) }));

/** The name of an import in the table: `lease/lease.ts`, `node:fs`, `npm:zod`. */
function nameOf(specifier, file) {
  if (specifier.startsWith(".")) return relative(src, join(src, dirname(file), specifier));
  return specifier.startsWith("node:") ? specifier : `npm:${specifier}`;
}

function create(context) {
  const file = relative(src, context.filename);
  if (file.startsWith("..")) return {};

  const rule = rules.find(({ part }) => part.test(file));
  if (!rule) {
    const message = `src/${file} is in no layer; give it one in scripts/layers.mjs`;
    return { Program: (node) => context.report({ node, message }) };
  }

  const [own] = file.match(rule.part);
  const check = ({ source }) => {
    if (typeof source?.value !== "string") return;
    const name = nameOf(source.value, file);
    // `address.ts` loads the store when a registry is opened. The lint rule about import cycles does not see that.
    if (name === join(own, "address.ts")) {
      return context.report({
        node: source,
        message: `${own} may not import its address.ts, which imports the store`,
      });
    }
    if (name.startsWith(own) || rule.allowed.some((allowed) => allowed.test(name))) return;
    context.report({ node: source, message: `${own} may not import ${name}; see the layers in scripts/layers.mjs` });
  };
  return {
    ImportDeclaration: check,
    ImportExpression: check,
    TSImportType: check,
    ExportNamedDeclaration: check,
    ExportAllDeclaration: check,
  };
}

export default { meta: { name: "snowlease" }, rules: { layers: { create } } };
