/** A wall clock that differs from the machine's: for the program in this process. */
export interface ShiftedDate {
  /** Sets it to a time, Unix ms; it runs on from there. */
  set(wall: number): void;
}

/** Puts a shifted clock in the place of `Date`. Timers and monotonic clocks stay. */
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
