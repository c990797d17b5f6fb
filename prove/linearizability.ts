/** An operation of a history: it took effect at one moment between its call and its answer, or, where it may be left out, never. */
export interface Operation<State> {
  /** When it was called and when it was answered, in any unit that all operations have. Infinity: it was never answered. */
  readonly asked: number;
  readonly answered: number;
  /** How often it may have taken effect, from never on; absent where it did so once. Infinity: nothing but its effect tells how often. */
  readonly atMost?: number | undefined;
  /** It takes effect before this one, or never. */
  readonly before?: Operation<State> | undefined;
  /** The states that it may leave behind; none where it cannot have been answered so in this state. It depends on the state alone. */
  next(state: State): readonly State[];
}

/** What a search came to. */
export type Ordering<State> =
  | { readonly outcome: "ordered" | "undecided" }
  /** No order explains the answers. The longest one that was found, and what it leaves behind: no operation that is left fits there. */
  | { readonly outcome: "none"; readonly order: readonly Operation<State>[]; readonly state: State };

/** A state that an operation leaves behind. */
interface After<State> {
  readonly state: State;
  readonly key: string;
}

/** A part of an order. */
interface Place<State> {
  /** The operations before this one in the list all have their place. */
  readonly first: number;
  /** Behind it, those which have theirs, too. */
  readonly ahead: readonly number[];
  /** Those that may have had no effect, once for each time that they had. */
  readonly used: readonly number[];
  readonly state: State;
  /** Equal for states that nothing tells apart. */
  readonly key: string;
  readonly last: Operation<State> | undefined;
  readonly parent: Place<State> | undefined;
}

/**
 * Looks for one order of all operations, in which each takes effect between its call and its answer and which explains all answers: the
 * search of Wing and Gong, which remembers the places that it has been to, as Lowe's does.
 * @param keyOf equal for states that nothing tells apart.
 * @param limit the search is given up after so many places.
 */
export function findOrder<State>(
  operations: readonly Operation<State>[],
  begin: State,
  keyOf: (state: State) => string,
  limit: number,
): Ordering<State> {
  const sorted = operations.toSorted((a, b) => a.asked - b.asked);
  const needed = sorted.filter(({ atMost }) => atMost === undefined);
  const optional = sorted.filter(({ atMost }) => atMost !== undefined);
  const numberOf = new Map(needed.map((operation, i) => [operation, i]));
  const known = new Set<string>();
  /** What operations that may be left out leave behind, by the state before them: many places have the same state. */
  const effects = new Map<string, (readonly After<State>[] | undefined)[]>();

  function effectsIn(place: Place<State>, i: number): readonly After<State>[] {
    const { key, state } = place;
    let ofState = effects.get(key);
    if (ofState === undefined) effects.set(key, (ofState = []));
    return (ofState[i] ??= optional[i]?.next(state).map((after) => ({ state: after, key: keyOf(after) })) ?? []);
  }

  function* following(place: Place<State>): Generator<Place<State>> {
    const { first, ahead, used, state } = place;
    const isPlaced = (i: number): boolean => i < first || ahead.includes(i);
    /** What was called later than this comes after an operation that has no place yet. */
    let bound = Infinity;
    const able: number[] = [];
    for (let i = first; i < needed.length; i++) {
      const { asked, answered } = needed[i] as Operation<State>;
      if (asked > bound) break;
      if (isPlaced(i)) continue;
      able.push(i);
      bound = Math.min(bound, answered);
    }
    able.sort((a, b) => (needed[a]?.answered ?? 0) - (needed[b]?.answered ?? 0));
    for (const i of able) {
      const last = needed[i] as Operation<State>;
      if (last.asked > bound) continue;
      let next = first;
      const placed = [...ahead, i].toSorted((a, b) => a - b);
      while (placed[0] === next) {
        placed.shift();
        next++;
      }
      for (const after of last.next(state)) {
        yield { first: next, ahead: placed, used, state: after, key: keyOf(after), last, parent: place };
      }
    }
    for (const [i, last] of optional.entries()) {
      if (last.asked > bound) break;
      const { before, atMost = 0 } = last;
      if (before !== undefined && isPlaced(numberOf.get(before) ?? 0)) continue;
      if (used.filter((each) => each === i).length >= atMost) continue;
      for (const after of effectsIn(place, i)) {
        const more = atMost === Infinity ? used : [...used, i].toSorted((a, b) => a - b);
        yield { first, ahead, used: more, ...after, last, parent: place };
      }
    }
  }

  const root: Place<State> = {
    first: 0,
    ahead: [],
    used: [],
    state: begin,
    key: keyOf(begin),
    last: undefined,
    parent: undefined,
  };
  let farthest = root;
  const path = [following(root)];
  for (let branch = path.at(-1); branch !== undefined; branch = path.at(-1)) {
    const { value: place } = branch.next() as { readonly value: Place<State> | undefined };
    if (place === undefined) {
      path.pop();
      continue;
    }
    if (place.first === needed.length) return { outcome: "ordered" };
    const key = `${place.first} ${place.ahead.join()} ${place.used.join()} ${place.key}`;
    if (known.has(key)) continue;
    if (known.size === limit) return { outcome: "undecided" };
    known.add(key);
    if (place.first + place.ahead.length > farthest.first + farthest.ahead.length) farthest = place;
    path.push(following(place));
  }
  if (needed.length === 0) return { outcome: "ordered" };
  const order: Operation<State>[] = [];
  for (let each: Place<State> | undefined = farthest; each?.last !== undefined; each = each.parent)
    order.unshift(each.last);
  return { outcome: "none", order, state: farthest.state };
}
