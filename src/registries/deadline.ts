/** The deadline passed before the answer came. This error has no message: the store says which server it asked. */
export class TooLate extends Error {}

/**
 * The outcome of a promise, if it comes within `ms`. The timer keeps the process alive meanwhile. A later outcome is ignored.
 * @throws TooLate
 */
export function within<Value>(ms: number, promise: Promise<Value>): Promise<Value> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new TooLate()), ms);
    const stop = (): void => clearTimeout(timer);
    promise.then(resolve, reject);
    promise.then(stop, stop);
  });
}
