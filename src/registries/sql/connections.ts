import { type Clock, monotonic } from "../../lease/clock.ts";
import { SnowleaseError } from "../../id/errors.ts";
import { TooLate, within } from "../deadline.ts";
import type { Connecting, SqlConnection } from "./dialect.ts";

/** How long an idle connection stays open, ms. Short: processes that start together queue for the connections of a server. */
const idle = 100;

/** The server did not answer while this tried to connect. */
export class Unheard extends Error {}

/** A bounded number of connections. An idle one does not keep the process alive, and closes soon. */
export class SqlConnections {
  readonly #connect: () => Connecting;
  /** How long connecting may take, ms: at first, and now. In a crowd, clients that give up early only connect more often. */
  readonly #firstPatience: number;
  #patience: number;
  readonly #clock: Clock;
  readonly #free = new Map<SqlConnection, NodeJS.Timeout>();
  readonly #busy = new Set<{ destroy(): void }>();
  readonly #waiting: (() => void)[] = [];
  #places: number;
  #closed = false;

  constructor(connect: () => Connecting, size: number, patience: number, clock: Clock) {
    this.#connect = connect;
    this.#places = size;
    this.#firstPatience = patience;
    this.#patience = patience;
    this.#clock = clock;
  }

  /**
   * Runs `work` with a connection of its own. A connection that is not `settled` afterwards is destroyed.
   * @throws TooLate at `deadline`, on the monotonic clock, ms; and the errors of connecting and of `work`.
   */
  async use<Answer>(
    deadline: number,
    work: (session: SqlConnection) => Promise<Answer>,
    settled: () => boolean,
  ): Promise<Answer> {
    await this.#place(deadline);
    let session: SqlConnection | undefined;
    try {
      session = this.#takeFree() ?? (await this.#open(deadline));
      this.#busy.add(session);
      return await this.#until(deadline, work(session));
    } finally {
      if (session !== undefined) this.#putBack(session, settled());
      const next = this.#waiting.shift();
      if (next === undefined) this.#places++;
      else next();
    }
  }

  close(): void {
    this.#closed = true;
    for (const [session, timer] of this.#free) {
      clearTimeout(timer);
      session.destroy();
    }
    this.#free.clear();
    for (const one of this.#busy) one.destroy();
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

  #takeFree(): SqlConnection | undefined {
    this.#check();
    for (const [session, timer] of this.#free) {
      clearTimeout(timer);
      this.#free.delete(session);
      if (session.usable) {
        session.hold(true);
        return session;
      }
      session.destroy();
    }
    return undefined;
  }

  async #open(deadline: number): Promise<SqlConnection> {
    const connecting = this.#connect();
    this.#busy.add(connecting);
    try {
      const session = await this.#until(Math.min(deadline, monotonic(this.#clock) + this.#patience), connecting.ready);
      this.#patience = this.#firstPatience;
      return session;
    } catch (error) {
      connecting.destroy();
      if (!(error instanceof TooLate)) throw error;
      this.#patience *= 2;
      throw new Unheard("it accepted no connection", { cause: error });
    } finally {
      this.#busy.delete(connecting);
    }
  }

  #putBack(session: SqlConnection, settled: boolean): void {
    this.#busy.delete(session);
    if (!settled || this.#closed || !session.usable) {
      session.destroy();
      return;
    }
    session.hold(false);
    const timer = setTimeout(() => {
      this.#free.delete(session);
      session.destroy();
    }, idle);
    timer.unref();
    this.#free.set(session, timer);
  }

  #check(): void {
    if (this.#closed) throw new SnowleaseError("REGISTRY_UNAVAILABLE", "This registry was closed; open it again.");
  }

  /** @throws TooLate at `deadline`. */
  #until<Value>(deadline: number, promise: Promise<Value>): Promise<Value> {
    return within(Math.max(1, deadline - monotonic(this.#clock)), promise);
  }
}
