// Ours, with a record of all that comes to a lease from outside: what the registry answers, and what its secrets are drawn from. Where a
// process is given the record of another one, it builds the same lease from it: same token, same turns, same receipt, same window.

import { randomBytes } from "node:crypto";
import { Lease, layouts, Snowflake, systemClock } from "../dist/index.js";
import { freshToken } from "../dist/lease/turns.js";
import { openRegistry, parseAddress } from "../dist/registries/index.js";
import { noteWindows } from "./leased.mjs";

const layout = layouts.westid;
/** A claim that waits for a worker ID looks often, ms: faster than a holder renews. */
const claimTimeout = 2000;

export async function open(options, note, image) {
  return openOn((registry) => registry, options, note, image);
}

/** `mistakes`: makes another registry of the real one. */
export async function openOn(mistakes, options, note, image) {
  const { registry: url, operationTimeout, namespace, pool, window, maxWait, mode, host } = options;
  const registry = await openRegistry(parseAddress(url), { operationTimeout });
  const [first, last] = pool.split("-").map(Number);
  const draws = new Draws(image?.draws);
  const record = new Record(mistakes(registry), note, image);
  const terms = { namespace, layout, pool: { first, last }, window, maxWait, operationTimeout };
  const surroundings = { registry: record.registry, clock: draws.clock, makeToken: draws.makeToken };
  const holder = { host, ip: "127.0.0.1", pid: process.pid, instance: "" };
  let lease;
  try {
    const wait = image === undefined ? claimTimeout : 0;
    const more = { claimTimeout: wait, reuse: "any", onLost: "switch", leads: mode === "lead", holder };
    lease = await Lease.claim({ ...surroundings, onEnd: () => registry.close() }, { ...terms, ...more });
  } catch (error) {
    await registry.close();
    throw error;
  }
  // The answered renewal of the record, then the one that has no answer yet.
  for (let i = 0; i < (image?.renewals ?? 0); i++) await lease.renew();
  record.isCopied = true;
  if (image !== undefined) setTimeout(() => void lease.renew(), image.renewsIn);
  const ids = new Snowflake(lease, { mode, rollback: { maxWait } });
  noteWindows(lease, note);
  return {
    fill: (target) => ids.fill(target),
    renew: () => lease.renew(),
    close: () => ids.close(),
    image: () => record.image(lease, ids, draws),
    get isOver() {
      return lease.signal.aborted;
    },
  };
}

/** Random bits and clocks, as a lease draws its secrets from them; drawn once more from a record, they are the same. */
class Draws {
  #again;
  #present;
  #known = new Map();

  constructor(again = []) {
    this.#again = [...again];
  }

  makeToken = () => {
    this.#present = this.#again.shift() ?? { random: randomBytes(16).toString("hex") };
    return this.#present.random;
  };

  clock = {
    ...systemClock,
    nanos: () => {
      const present = this.#present;
      if (present === undefined || present.isTimed) return systemClock.nanos();
      present.nanos ??= String(systemClock.nanos());
      present.isTimed = true;
      return BigInt(present.nanos);
    },
    now: () => {
      const present = this.#present;
      if (!present?.isTimed) return systemClock.now();
      this.#present = undefined;
      const { random, nanos, now = systemClock.now() } = present;
      const text = freshToken({ nanos: () => BigInt(nanos), now: () => now }, random);
      this.#known.set(text, { random, nanos, now });
      return now;
    },
  };

  of(text) {
    return this.#known.get(text);
  }
}

/** What a lease and its registry have said to each other. */
class Record {
  /** Whether the record of another process has been gone through. */
  isCopied;
  #registry;
  #note;
  #image;
  /** Of the present claim. */
  #claim;
  /** The token of the last request for a worker ID. */
  #asked;

  constructor(registry, note, image) {
    [this.#registry, this.#note, this.#image, this.isCopied] = [registry, note, image, image === undefined];
  }

  get registry() {
    const { claim, renew, release } = this;
    const own = { claim, renew, release };
    return new Proxy(this.#registry, { get: (real, name) => own[name] ?? real[name]?.bind?.(real) ?? real[name] });
  }

  claim = async (request) => {
    const { token } = request;
    if (!this.isCopied) {
      const { grant, sent } = this.#image;
      if (token !== this.#image.token) throw new Error("The copy has another token.");
      this.#note({ heard: "granted", sent });
      this.#claim = { token, grant, sent };
      return grant;
    }
    const sent = now();
    const isRepeat = token === this.#asked;
    this.#asked = token;
    const answer = await this.#heard(sent, this.#registry.claim(request));
    if (answer.outcome !== "granted") return answer;
    this.#note({ heard: "granted", sent, isRepeat });
    this.#claim = { token, grant: answer, sent };
    return answer;
  };

  renew = async (request) => {
    const { nextTurn, sentTurns = [] } = request;
    const claim = this.#claim;
    const isRepeat = nextTurn === claim.pending;
    Object.assign(claim, { pending: nextTurn, isLate: sentTurns.length > 0 });
    if (!this.isCopied) {
      const { answered, pending } = this.#image;
      if (nextTurn === answered?.turn) {
        Object.assign(claim, { answered, pending: undefined });
        return answered;
      }
      if (nextTurn !== pending) throw new Error("The copy has other turns.");
      // Connections are not copied.
      throw Object.assign(new Error("No answer comes to a copy."), { code: "REGISTRY_UNAVAILABLE" });
    }
    const sent = now();
    const answer = await this.#heard(sent, this.#registry.renew(request));
    const reason = answer.outcome === "lost" ? `lost ${answer.reason}` : "renewed";
    this.#note({ heard: reason, sent, turn: nextTurn, isRepeat });
    if (answer.outcome === "renewed" && answer.turn === claim.pending) {
      Object.assign(claim, { answered: answer, pending: undefined, isLate: false, sent });
    }
    return answer;
  };

  release = async (request) => {
    const sent = now();
    const answer = await this.#heard(sent, this.#registry.release(request));
    if (answer.outcome === "lost") this.#note({ heard: `lost ${answer.reason}`, sent });
    return answer;
  };

  async #heard(sent, answer) {
    try {
      return await answer;
    } catch (error) {
      if (error?.code === "QUARANTINE") this.#note({ heard: "quarantine", sent });
      throw error;
    }
  }

  /** All that another process needs to go on from here; undefined where that cannot be told now. */
  image(lease, ids, draws) {
    const { snapshot, renewsIn } = lease;
    const claim = this.#claim;
    if (snapshot === undefined || claim === undefined || claim.isLate || snapshot.fence !== claim.grant.fence) return;
    const { token, grant, answered, pending, sent } = claim;
    // A turn that was drawn while the window was open is drawn anew when it has passed.
    if (pending !== undefined && snapshot.until <= Date.now()) return;
    const used = ids.checkpoint()?.timestamp;
    const { workerId, fence, from, until } = snapshot;
    // Behind the newest tick that was used.
    const begin = Math.min(until, used === undefined ? from : Math.max(from, used + layout.tick));
    const { receipt, clock } = grant;
    const texts = [token, answered?.turn, pending].filter((text) => text !== undefined);
    return {
      token,
      grant: { outcome: "granted", workerId, fence, from: begin, until, clock, receipt },
      answered,
      pending,
      draws: texts.map((text) => draws.of(text)),
      renewals: texts.length - 1,
      renewsIn,
      sent,
    };
  }
}

/** The machine's monotonic clock, ms: the same for all processes. */
export function now() {
  return Number(process.hrtime.bigint()) / 1e6;
}
