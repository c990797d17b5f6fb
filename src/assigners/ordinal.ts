import { numberWithin, type WorkerIdAssigner } from "../lease/assigner.ts";
import { configInvalid, shown } from "../id/errors.ts";

/**
 * The worker ID from the number that ends the host's name, as a StatefulSet gives it: 3 for `orders-3`, and for `orders-3.orders.svc` too.
 * CONFIG_INVALID for a name without a number, and if the sum is no worker ID.
 * @param base added to the number; default: the option `ordinalBase`.
 */
export function ordinalAssigner({ base }: { base?: number } = {}): WorkerIdAssigner {
  return {
    name: "ordinal",
    async assign(request) {
      const { host, options } = request;
      const [, ordinal] = /-(0|[1-9][0-9]{0,9})$/.exec(host.split(".")[0] ?? "") ?? [];
      if (ordinal === undefined) {
        throw configInvalid(
          `Expected the host's name to end in a number, as in \`orders-3\`, got ${shown(host)}; set the option \`host\`, or leave out \`ordinal\`.`,
        );
      }
      const source = `\`ordinalBase\` or the host's name \`${host}\``;
      return numberWithin(Number(ordinal) + (base ?? options.ordinalBase), source, request);
    },
  };
}
