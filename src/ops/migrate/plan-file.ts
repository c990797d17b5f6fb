import { z } from "zod";
import { configInvalid, shown } from "../../id/errors.ts";
import { Layout } from "../../id/layout.ts";
import { namespaceForm, namespacePattern } from "../../id/namespace.ts";
import { plainAddress } from "./addresses.ts";
import { hostText, pinsOf, type Plan, type PlannedHost } from "./plan.ts";
import { sourceKinds } from "./source.ts";

const text = z
  .string()
  .regex(/^[^\u0000-\u001f\u007f]{1,300}$/, "has to be 1 to 300 characters without control characters");
const integer = z.int().max(2 ** 31 - 1);
const workerId = integer.min(0);
const time = z.int().min(0).max(8.64e15);

const schema: z.ZodType<Plan> = z.strictObject({
  snowlease: z.literal("migration plan"),
  version: z.literal(1),
  createdAt: time,
  namespace: z.string().regex(namespacePattern, `has to match ${namespaceForm}`),
  layout: text,
  from: z.enum(sourceKinds),
  source: text,
  sourceLayout: text,
  numbers: integer.min(1),
  highest: integer.min(-1),
  sharesStore: z.boolean(),
  leased: z
    .strictObject({ first: workerId, last: workerId })
    .refine(({ first, last }) => first <= last, "has to have `first` <= `last`"),
  hosts: z.array(
    z.strictObject({
      workerId,
      name: text,
      address: z
        .string()
        .refine((address) => plainAddress(address) === address, "has to be an address")
        .exactOptional(),
      usedUntil: time.exactOptional(),
      renumbered: text.exactOptional(),
    }),
  ),
  retired: z.array(
    z
      .strictObject({ first: workerId, last: workerId, why: text, forGood: z.boolean().exactOptional() })
      .refine(({ first, last }) => first <= last, "has to have `first` <= `last`"),
  ),
});

/** A plan as the text of its file. People can read it, and commit it to a repository. */
export function planText(plan: Plan): string {
  return `${JSON.stringify(plan, undefined, 2)}\n`;
}

/**
 * Reads a plan back.
 * @param file for messages.
 * @throws SnowleaseError CONFIG_INVALID that names the field.
 */
export function readPlan(content: string, file: string): Plan {
  const refuse = (rule: string, got: string): never => {
    throw configInvalid(`Expected ${rule}, got ${got}; correct ${file}, or make a new plan.`);
  };
  let json: unknown;
  try {
    json = JSON.parse(content);
  } catch {
    return refuse("a migration plan (JSON)", shown(content.slice(0, 40)));
  }
  const { success, data, error } = schema.safeParse(json);
  if (!success) {
    const [issue] = error.issues;
    return refuse(
      "a migration plan as `snowlease migrate plan` writes it",
      `${pathText(issue?.path)}: ${issue?.message}`,
    );
  }
  const { pool } = Layout.parse(data.layout);
  const old = Layout.parse(data.sourceLayout).pool;
  const users = new Map<number, PlannedHost>();
  for (const [i, host] of data.hosts.entries()) {
    const { workerId, address, renumbered } = host;
    if (workerId > old.last) {
      refuse(`\`hosts[${i}].workerId\` from 0 to ${old.last} (\`sourceLayout\`)`, String(workerId));
    }
    const other = users.get(workerId);
    if (other !== undefined && (renumbered === undefined || other.renumbered === undefined)) {
      refuse(`\`hosts[${i}].renumbered\` for worker ${workerId}, which ${hostText(other)} has too`, "nothing");
    }
    if (address === undefined && renumbered === undefined) refuse(`\`hosts[${i}].address\``, "nothing");
    users.set(workerId, host);
  }
  for (const [i, { last }] of data.retired.entries()) {
    if (last > pool.last) refuse(`\`retired[${i}].last\` from 0 to ${pool.last} (the layout)`, String(last));
  }
  const { leased } = data;
  if (leased.last > pool.last) refuse(`\`leased.last\` from 0 to ${pool.last} (the layout)`, String(leased.last));
  const pins = pinsOf(data);
  for (let workerId = 0; workerId < leased.first; workerId++) {
    if (!pins.has(workerId)) refuse("`retired` with each worker ID below `leased.first`", `none with ${workerId}`);
  }
  return data;
}

/** A field: `hosts[3].address`. */
function pathText(path: readonly PropertyKey[] = []): string {
  const parts = path.map((part) => (typeof part === "number" ? `[${part}]` : `.${String(part)}`));
  return path.length === 0 ? "the whole" : `\`${parts.join("").replace(/^\./, "")}\``;
}
