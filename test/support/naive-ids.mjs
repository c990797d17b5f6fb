// A naive maker of `prove` as a module for `snowlease verify`. NAIVE names it.

const { open } = await import(`../../prove/naive/${process.env.NAIVE}.mjs`);

export default async function start({ registry, namespace }) {
  const maker = await open(
    {
      registry,
      namespace,
      pool: "0-0",
      window: 1000,
      operationTimeout: 1000,
      maxWait: 200,
      claimTimeout: 3000,
      mode: "wall",
      host: process.env.NAIVE_HOST,
    },
    () => undefined,
  );
  const one = new BigUint64Array(1);
  return {
    next() {
      if (maker.fill(one) === 1) return one[0];
      throw Object.assign(new Error("It makes none now."), { code: "LEASE_EXPIRED" });
    },
    close: () => maker.close(),
  };
}
