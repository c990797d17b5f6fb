/**
 * Snowflake generators of npm. `make` answers one as its README makes it: with its defaults, or with the worker ID `id`. `workerId`: the
 * default. `isRequired`: there is none. `hasNone`: it knows no worker IDs. `pids`: what `process.pid` is in two processes, where the package
 * puts it into its IDs.
 */
export const generators = {
  "@sapphire/snowflake": {
    workerId: "worker 0, process 1 (5 + 5 bits)",
    async make(id) {
      const { Snowflake } = await import("@sapphire/snowflake");
      const generator = new Snowflake(Date.UTC(2020, 0, 1));
      if (id !== undefined) generator.workerId = id;
      return { next: () => generator.generate() };
    },
  },
  "@akashrajpurohit/snowflake-id": {
    workerId: "0 (10 bits)",
    async make(id) {
      const { SnowflakeId } = await import("@akashrajpurohit/snowflake-id");
      const generator = SnowflakeId(id === undefined ? {} : { workerId: id });
      return { next: () => generator.generate() };
    },
  },
  "flake-idgen": {
    workerId: "0 (10 bits)",
    async make(id) {
      const { default: FlakeId } = await import("flake-idgen");
      const generator = new FlakeId(id === undefined ? {} : { id });
      return { next: () => generator.next().readBigUInt64BE() };
    },
  },
  "nodejs-snowflake": {
    workerId: "random (12 bits)",
    async make(id) {
      const { Snowflake } = await import("nodejs-snowflake");
      // Without an epoch of one's own, it is the time at which the process started.
      const options = { custom_epoch: Date.UTC(2020, 0, 1), ...(id !== undefined && { instance_id: id }) };
      const generator = new Snowflake(options);
      return { next: () => generator.getUniqueID() };
    },
  },
  "@skorotkiewicz/snowflake-id": {
    workerId: "none: required (10 bits)",
    isRequired: true,
    async make(id) {
      const { Snowflake } = await import("@skorotkiewicz/snowflake-id");
      const generator = new Snowflake(id);
      return { next: () => generator.generate() };
    },
  },
  "simple-flakeid": {
    workerId: "none: required (6 bits)",
    isRequired: true,
    async make(id) {
      const { SnowflakeIdv1 } = await import("simple-flakeid");
      const generator = new SnowflakeIdv1({ workerId: id });
      return { next: () => generator.NextBigId() };
    },
  },
  snowyflake: {
    workerId: "worker 0, process 0 (5 + 5 bits)",
    async make(id) {
      const { Snowyflake } = await import("snowyflake");
      const generator = new Snowyflake(id === undefined ? {} : { workerId: BigInt(id) });
      return { next: () => generator.nextId() };
    },
  },
  "snowflake-id": {
    workerId: "1 (10 bits)",
    async make(id) {
      const { default: SnowflakeId } = await import("snowflake-id");
      const generator = new SnowflakeId.default(id === undefined ? {} : { mid: id });
      return { next: () => generator.generate() };
    },
  },
  "@nocobase/snowflake-id": {
    workerId: "0 (5 bits)",
    async make(id) {
      const { Snowflake } = await import("@nocobase/snowflake-id");
      const generator = new Snowflake(id === undefined ? {} : { workerId: id });
      return { next: () => generator.generate() };
    },
  },
  "snowflakify, pids 1001 and 1002": {
    package: "snowflakify",
    workerId: "thread or cluster worker, end of the pid (5 + 5 bits)",
    pids: [1001, 1002],
    make: makeSnowflakify,
  },
  "snowflakify, pid 1 in two containers": {
    package: "snowflakify",
    workerId: "thread or cluster worker, end of the pid (5 + 5 bits)",
    pids: [1, 1],
    make: makeSnowflakify,
  },
  "snowflake-uuid": {
    workerId: "worker 0, datacenter 0 (5 + 5 bits)",
    async make(id) {
      const { Worker } = await import("snowflake-uuid");
      const generator = new Worker(id);
      return { next: () => generator.nextId() };
    },
  },
  "tsid-ts": {
    workerId: "random (10 bits)",
    async make(id) {
      const { TSIDGenerator, getTsid } = await import("tsid-ts");
      if (id === undefined) return { next: () => getTsid().toBigInt() };
      const generator = new TSIDGenerator(id);
      return { next: () => generator.create().toBigInt() };
    },
  },
  flakeid: {
    workerId: "1 (10 bits)",
    async make(id) {
      const { default: FlakeId } = await import("flakeid");
      const generator = new FlakeId(id === undefined ? {} : { mid: id });
      return { next: () => generator.gen() };
    },
  },
  "@theinternetfolks/snowflake": {
    workerId: "random for each ID (10 bits, and 12 random bits for a sequence)",
    async make(id) {
      const { Snowflake } = await import("@theinternetfolks/snowflake");
      if (id !== undefined) Snowflake.SHARD_ID = id;
      return { next: () => Snowflake.generate() };
    },
  },
  "node-snowflake": {
    workerId: "worker 1, datacenter 1 (5 + 5 bits)",
    async make(id) {
      const { Snowflake } = await import("node-snowflake");
      if (id !== undefined) Snowflake.init({ worker_id: id });
      return { next: () => Snowflake.nextId() };
    },
  },
  simpleflakes: {
    workerId: "none: 23 random bits for each ID",
    hasNone: true,
    async make() {
      const { default: simpleflakes } = await import("simpleflakes");
      return { next: () => simpleflakes.simpleflake() };
    },
  },
  "snowflake-generator": {
    workerId: "1 (13 bits)",
    async make(id) {
      const { Generator } = await import("snowflake-generator");
      const generator = new Generator(Date.UTC(2020, 0, 1), id);
      return { next: () => generator.generate() };
    },
  },
  "@green-auth/snowflake-unique-id": {
    workerId: "none: required (10 bits)",
    isRequired: true,
    async make(id) {
      const { SnowflakeIdGenerator } = await import("@green-auth/snowflake-unique-id");
      const generator = new SnowflakeIdGenerator({ nodeId: id });
      return { next: () => generator.nextId() };
    },
  },
};

async function makeSnowflakify(id) {
  const { default: Snowflakify, TimestampFragment, WorkerFragment, SequenceFragment } = await import("snowflakify");
  // A preset takes no worker ID; by hand, it is a layout of one's own.
  const fragments = () => [new TimestampFragment(42), new WorkerFragment(10, id), new SequenceFragment(12)];
  const generator = new Snowflakify(id === undefined ? {} : { fragmentArray: fragments() });
  return { next: () => generator.nextId() };
}
