/** A wall clock for the program in this process that differs from the machine's clock. */
export interface ShiftedDate {
  /** Sets the clock to a time, Unix ms. It runs on from there. */
  set(wall: number): void;
}

/** Replaces `Date` by a shifted clock. Timers and monotonic clocks stay. */
export function shiftDate(): ShiftedDate {
  const Real = Date;
  let shift = 0;
  const now = (): number => Real.now() + shift;
  globalThis.Date = new Proxy(Real, {
    construct: (target, args: readonly unknown[], created: NewableFunction) =>
      Reflect.construct(target, args.length === 0 ? [now()] : args, created) as Date,
    apply: () => new Real(now()).toString(),
    get: (target, name, receiver) => (name === "now" ? now : (Reflect.get(target, name, receiver) as unknown)),
  });
  return { set: (wall) => (shift = wall - Real.now()) };
}
