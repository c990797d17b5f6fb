import { type Clock, monotonic } from "../../clock.ts";
import { SnowleaseError } from "../../id/errors.ts";
import { TooLate, within } from "../deadline.ts";
import type { SqlConnection } from "./dialect.ts";

/**
 * How long an idle connection stays open, ms. This is short because processes that start together queue for the connections of a server.
 */
const idle = 100;

/** A limited number of connections. An idle connection does not keep the process alive, and closes soon. */
export class SqlConnections {
  readonly #make: () => SqlConnection;
  /** How long connecting may take, ms: at first, and now. If many clients connect, short limits only make them connect more often. */
  readonly #firstPatience: number;
  #patience: number;
  readonly #clock: Clock;
  readonly #free = new Map<SqlConnection, NodeJS.Timeout>();
  readonly #busy = new Set<SqlConnection>();
  readonly #waiting: (() => void)[] = [];
  #places: number;
  #closed = false;

  constructor(make: () => SqlConnection, size: number, patience: number, clock: Clock) {
    this.#make = make;
    this.#places = size;
    this.#firstPatience = patience;
    this.#patience = patience;
    this.#clock = clock;
  }

  /**
   * Takes a connection: waits until one is allowed, and opens one if none is idle.
   * @throws TooLate at `deadline`, on the monotonic clock, ms. The error of a driver that cannot connect.
   */
  async take(deadline: number): Promise<SqlConnection> {
    await this.#place(deadline);
    try {
      const connection = this.#takeFree() ?? (await this.#open(deadline));
      this.#busy.add(connection);
      return connection;
    } catch (error) {
      this.#leavePlace();
      throw error;
    }
  }

  /** Gives a connection back. If it is not `settled`, a statement may still run on it, and it is destroyed. */
  giveBack(connection: SqlConnection, settled: boolean): void {
    this.#busy.delete(connection);
    if (settled && !this.#closed && connection.usable) this.#keep(connection);
    else connection.destroy();
    this.#leavePlace();
  }

  close(): void {
    this.#closed = true;
    for (const timer of this.#free.values()) clearTimeout(timer);
    for (const connection of [...this.#free.keys(), ...this.#busy]) connection.destroy();
    this.#free.clear();
  }

  /** Waits until one more connection is allowed. */
  async #place(deadline: number): Promise<void> {
    this.#check();
    if (this.#places > 0) {
      this.#places--;
      return;
    }
    let mine = (): void => undefined;
    const turn = new Promise<void>((resolve) => (mine = resolve));
    this.#waiting.push(mine);
    try {
      await this.#until(deadline, turn);
    } catch (error) {
      const at = this.#waiting.indexOf(mine);
      if (at >= 0) this.#waiting.splice(at, 1);
      throw error;
    }
  }

  #leavePlace(): void {
    const next = this.#waiting.shift();
    if (next === undefined) this.#places++;
    else next();
  }

  #takeFree(): SqlConnection | undefined {
    this.#check();
    for (const [connection, timer] of this.#free) {
      clearTimeout(timer);
      this.#free.delete(connection);
      if (connection.usable) {
        connection.hold(true);
        return connection;
      }
      connection.destroy();
    }
    return undefined;
  }

  async #open(deadline: number): Promise<SqlConnection> {
    const connection = this.#make();
    this.#busy.add(connection);
    try {
      await this.#until(Math.min(deadline, monotonic(this.#clock) + this.#patience), connection.open());
      this.#patience = this.#firstPatience;
      return connection;
    } catch (error) {
      this.#busy.delete(connection);
      connection.destroy();
      if (!(error instanceof TooLate)) throw error;
      this.#patience *= 2;
      throw new Error("it accepted no connection", { cause: error });
    }
  }

  #keep(connection: SqlConnection): void {
    connection.hold(false);
    const timer = setTimeout(() => {
      this.#free.delete(connection);
      connection.destroy();
    }, idle);
    timer.unref();
    this.#free.set(connection, timer);
  }

  #check(): void {
    if (this.#closed) throw new SnowleaseError("REGISTRY_UNAVAILABLE", "This registry was closed; open it again.");
  }

  /** @throws TooLate at `deadline`. */
  #until<Value>(deadline: number, promise: Promise<Value>): Promise<Value> {
    return within(Math.max(1, deadline - monotonic(this.#clock)), promise);
  }
}
