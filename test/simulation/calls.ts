import { checkOrder } from "../../prove/order.ts";
import type { Asked, Call } from "../../prove/sequential.ts";
import type { Registry } from "../../src/rule/registry.ts";
import type { Leasing } from "./store.ts";

/** How many places the search for an order may try. */
const mostPlaces = 2000;

/** All calls of holders and operators to the registry, with their answers, in the order in which the callers see them. */
export class CallRecord {
  readonly #repeats: boolean;
  readonly #calls: Call[] = [];
  #moments = 0;

  /** `repeats`: whether the network doubles requests. */
  constructor(repeats: boolean) {
    this.#repeats = repeats;
  }

  /** The same way to the registry, with each call recorded. */
  watch<Watched extends Pick<Leasing, "claim" | "renew" | "release">>(caller: string, registry: Watched): Watched {
    return {
      ...registry,
      claim: (request) => this.#noted(caller, { method: "claim", request }, registry.claim(request)),
      renew: (request) => this.#noted(caller, { method: "renew", request }, registry.renew(request)),
      release: (request) => this.#noted(caller, { method: "release", request }, registry.release(request)),
    };
  }

  /** An operator, with direct access to the store. */
  readonly forceRelease = (store: Leasing, request: Parameters<Registry["forceRelease"]>[0]) =>
    this.#noted("an operator", { method: "forceRelease", request }, store.forceRelease(request));

  /** Calls that no order explains, in words, and how many calls have a place in one. */
  verdict(): { readonly findings: readonly string[]; readonly calls: number } {
    return checkOrder(this.#calls, mostPlaces);
  }

  async #noted<Answer>(caller: string, what: Asked, asking: Promise<Answer>): Promise<Answer> {
    const place = this.#calls.length;
    const isOnce = !this.#repeats || what.method === "forceRelease";
    const call = {
      ...what,
      caller,
      asked: this.#moments++,
      waited: 0,
      repeated: isOnce ? undefined : ("ever" as const),
    };
    // A refusal counts as no answer: the same request may arrive once more, later.
    this.#calls.push({ ...call, answered: Infinity });
    const answer = await asking;
    this.#calls[place] = { ...call, answered: this.#moments++, answer } as Call;
    return answer;
  }
}
