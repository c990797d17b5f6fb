// A generator as many services have one: a worker ID of its own, the clock, and a sequence. In one process it never goes back; it has a bug.
export default function start() {
  let last = 0;
  let sequence = 0;
  return {
    next() {
      const now = Math.max(Date.now(), last);
      sequence = now === last ? sequence + 1 : 0;
      last = now;
      return (BigInt(now - 1_577_836_800_000) << 22n) | (7n << 12n) | BigInt(sequence);
    },
  };
}
