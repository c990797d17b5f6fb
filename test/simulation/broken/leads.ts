import { Ring } from "../../../src/generator/ring.ts";
import { Snowflake } from "../../../src/generator/snowflake.ts";
import { leading } from "../holders.ts";
import type { Variant } from "../variant.ts";
import { asGranted, type Broken, inSilence, knowingBegin, outside, twice } from "./distort.ts";

/** Leads the clock further than its window reaches, and reports the most that the registry believes. */
function leadsPastWindow(): Variant {
  const ends = new Map<string, number>();
  const keyOf = ({ workerId, fence }: { workerId: number; fence: number }): string => `${workerId}/${fence}`;
  return {
    kind: leading,
    view: (store) => ({
      ...store,
      async claim(request) {
        const answer = await store.claim(request);
        if (answer.outcome !== "granted") return answer;
        ends.set(keyOf(answer), answer.until);
        return { ...answer, until: answer.until + 10_000 };
      },
      async renew({ checkpoint: _, ...request }) {
        const answer = await store.renew(request);
        if (answer.outcome === "renewed") ends.set(keyOf(request), answer.until);
        return answer;
      },
      release({ used, ...request }) {
        const until = Math.min(used?.until ?? Infinity, ends.get(keyOf(request)) ?? Infinity);
        return store.release(used === undefined ? request : { ...request, used: { until } });
      },
    }),
  };
}

/** Gives back prepared IDs as unused, and goes on to emit them. */
function preparedGivenBack(): Variant {
  const emitted = new Map<string, number>();
  return {
    ...inSilence(
      knowingBegin(asGranted, (_, begin, { workerId, fence }) => ({
        until: Math.max(begin, emitted.get(`${workerId}/${fence}`) ?? 0),
      })),
    ),
    kind: {
      leads: true,
      hold(lease) {
        const ring = new Ring(new Snowflake(lease, { mode: "lead" }), { boost: 4 });
        const stock: bigint[] = [];
        return {
          emit() {
            if (stock.length === 0) for (let i = 0; i < 30; i++) stock.push(ring.next());
            const id = stock.shift() as bigint;
            emitted.set(`${lease.workerId}/${lease.fence}`, lease.layout.decompose(id).timestamp + lease.layout.tick);
            return id;
          },
          close: () => ring.close(),
        };
      },
    },
  };
}

/** Gives back the clock's time as used, not the ticks ahead of it. */
const clockGivenBack = (): Variant => ({
  kind: leading,
  ...inSilence(
    knowingBegin(asGranted, ({ until }, begin, { clock }) => ({ until: Math.max(begin, Math.min(until, clock)) })),
  ),
});

export const brokenLeads: readonly Broken[] = [
  { name: "leads past its window", variant: leadsPastWindow, found: [twice, outside] },
  { name: "prepared IDs given back", variant: preparedGivenBack, found: [twice, outside] },
  { name: "a led lease given back as far as the clock", variant: clockGivenBack, found: [twice] },
];
