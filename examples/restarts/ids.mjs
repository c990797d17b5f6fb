// A generator as many services have one: seconds, a worker ID of its own, and a sequence. In one process it never goes back; it has a bug.
export default function start() {
  let last = 0;
  let sequence = 0;
  return {
    next() {
      const now = Math.max(Math.floor(Date.now() / 1000), last);
      sequence = now === last ? sequence + 1 : 0;
      last = now;
      return (BigInt(now) << 32n) | (7n << 20n) | BigInt(sequence);
    },
  };
}
