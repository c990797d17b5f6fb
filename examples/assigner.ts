// Where a worker ID comes from, when no registry is to pick it: an assigner turns configuration or surroundings into a number. Whatever
// names it, the number is claimed before it is used, so that a second process with the same number is told who has it.
//
//   npx tsx examples/assigner.ts
//   SNOWLEASE_ASSIGNER=./examples/assigner.ts npx tsx -e 'import("snowlease").then(async ({ snowlease }) => …)'
import {
  type AssignOptions,
  type AssignRequest,
  customAssigner,
  envAssigner,
  firstOf,
  ipAssigner,
  Lease,
  type LeaseHost,
  type LeaseOptions,
  ordinalAssigner,
  propertyAssigner,
  registryAssigner,
  snowlease,
  type WorkerIdAssigner,
} from "snowlease";
import { memoryRegistry } from "snowlease/testing";

/** Racks of 32 machines: `r3-m7` is worker 103. `undefined` means: not mine, ask the next one. */
const rackAssigner: WorkerIdAssigner = {
  name: "rack",
  async assign({ host, pool }: AssignRequest): Promise<number | undefined> {
    const [, rack, machine] = /^r(\d+)-m(\d+)$/.exec(host) ?? [];
    return rack === undefined ? undefined : pool.first + Number(rack) * 32 + Number(machine);
  },
};

/** The same as a lease, for a program that decides how it is claimed: here with a window of its own. */
const patientAssigner: WorkerIdAssigner = {
  name: "patient",
  async assign({ registry, options }, signal): Promise<Lease | undefined> {
    if (registry === undefined) return undefined;
    const { clock, makeToken, lease }: AssignOptions = options;
    const host: LeaseHost = { registry, clock, makeToken };
    const how: LeaseOptions = { ...lease, window: 120_000 };
    return Lease.claim(host, how, signal);
  },
};

/** The usual order, written out, with the rack where a plan of the data centre would be: the first that has an answer wins. */
const assigner = firstOf(
  propertyAssigner(), // -Dwestid.workerId=7 among the program's arguments
  envAssigner({ name: "RACK_WORKER_ID" }),
  customAssigner(rackAssigner), // an object, or the path of a module
  ordinalAssigner(), // orders-3, as a StatefulSet names its pods; without a number at the end it refuses
  registryAssigner("memory:"),
  ipAssigner(),
);

const registry = memoryRegistry();
for (const [host, by] of [
  ["r3-m7", assigner],
  ["orders-3", assigner],
  ["somewhere", patientAssigner],
] as const) {
  const ids = await snowlease({ registry, host, assigner: by });
  console.log(
    `${host}: worker ${ids.lease.workerId}, ${ids.lease.until - ids.lease.from >= 120_000 ? "long" : "usual"} window`,
  );
  await ids.close();
}

export default assigner;
