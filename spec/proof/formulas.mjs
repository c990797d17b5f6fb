// Formulas of SMT-LIB as functions: a formula is a text, a function of the state takes texts and makes one.

export const and = (...parts) => `(and true ${parts.join(" ")})`;
export const or = (...parts) => `(or false ${parts.join(" ")})`;
export const not = (part) => `(not ${part})`;
export const implies = (condition, consequence) => `(=> ${condition} ${consequence})`;
export const either = (condition, yes, no) => `(ite ${condition} ${yes} ${no})`;
export const eq = (a, b) => `(= ${a} ${b})`;
export const le = (...numbers) => `(<= ${numbers.join(" ")})`;
export const lt = (a, b) => `(< ${a} ${b})`;
export const plus = (...numbers) => `(+ ${numbers.join(" ")})`;
export const minus = (a, b) => `(- ${a} ${b})`;
export const max = (a, b) => either(le(a, b), b, a);
export const min = (a, b) => either(le(a, b), a, b);

/** For all integers of these names. */
export const all = (names, body) =>
  `(forall (${names
    .split(" ")
    .map((name) => `(${name} Int)`)
    .join(" ")}) ${body})`;

/**
 * What formulas use of these symbols (`{name: sort}`, such as "Int" or "Int Int -> Bool"): a text for a constant, a function for a
 * function. `suffix` tells the state after a step from the one before it.
 */
export function symbols(sorts, suffix = "") {
  return Object.fromEntries(
    Object.entries(sorts).map(([name, sort]) => {
      const symbol = `${name}${suffix}`;
      return [name, isFunction(sort) ? (...args) => `(${symbol} ${args.join(" ")})` : symbol];
    }),
  );
}

export function declare(sorts, suffix = "") {
  return Object.entries(sorts)
    .map(([name, sort]) => {
      const [args, result] = isFunction(sort) ? sort.split(" -> ") : ["", sort];
      return `(declare-fun ${name}${suffix} (${args}) ${result})`;
    })
    .join("\n");
}

/** That a step leaves all of these as they were, except the ones that it changes: `{name: clause}`. */
export function unchanged(sorts, changed) {
  const [now, next] = [symbols(sorts), symbols(sorts, "_")];
  const names = Object.keys(sorts).filter((name) => !(name in changed));
  return Object.fromEntries(
    names.map((name) => {
      if (!isFunction(sorts[name])) return [name, eq(next[name], now[name])];
      const args = namesOfArgs(sorts[name]);
      return [name, all(args.join(" "), eq(next[name](...args), now[name](...args)))];
    }),
  );
}

function isFunction(sort) {
  return sort.includes("->");
}

function namesOfArgs(sort) {
  return sort
    .split(" -> ")[0]
    .split(" ")
    .map((_, index) => `a${index}`);
}

/** The formula where there are only the integers from 0 to `last`: without quantifiers, so that z3 always finds a state if there is one. */
export function among(last, formula) {
  const numbers = Array.from({ length: last + 1 }, (_, index) => index);
  return show(parse(formula));

  function show(part) {
    if (!Array.isArray(part)) return part;
    if (part[0] !== "forall") return `(${part.map(show).join(" ")})`;
    const [, names, body] = part;
    return names.reduce(
      (inner, [name]) => and(...numbers.map((number) => `(let ((${name} ${number})) ${inner})`)),
      show(body),
    );
  }
}

/** That these symbols take and give only integers from 0 to `last`. */
export function inside(last, sorts, suffix = "") {
  return Object.entries(symbols(sorts, suffix))
    .filter(([name]) => sorts[name].endsWith("Int"))
    .map(([name, symbol]) => {
      if (!isFunction(sorts[name])) return le(0, symbol, last);
      const args = namesOfArgs(sorts[name]);
      return among(last, all(args.join(" "), le(0, symbol(...args), last)));
    });
}

/** "(a (b c))" as ["a", ["b", "c"]]. */
function parse(formula) {
  const open = [[]];
  for (const [word] of formula.matchAll(/[()]|[^\s()]+/g)) {
    if (word === "(") open.push([]);
    else if (word === ")") {
      const closed = open.pop();
      open.at(-1).push(closed);
    } else open.at(-1).push(word);
  }
  return open[0][0];
}
