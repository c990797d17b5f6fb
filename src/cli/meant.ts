import { didYouMean } from "../id/did-you-mean.ts";

/** Words of other programs, each with what it is called here. */
type WordsElsewhere = Readonly<Record<string, readonly string[]>>;

/** Commands by the words that other programs have for them. */
export const commandsElsewhere: WordsElsewhere = {
  id: ["generate", "gen", "next", "new"],
  exec: ["run"],
  assign: ["claim", "lease", "acquire", "hold"],
  daemon: ["serve", "server", "start", "up", "listen"],
  explain: ["decode", "parse", "who", "whois", "lookup"],
  workers: ["list", "ls", "ps", "status", "stat", "holders", "leases"],
  top: ["watch", "monitor"],
  release: ["free", "unlock"],
  pin: ["reserve", "block"],
  remove: ["delete", "del", "rm", "drop", "destroy"],
  init: ["create", "setup", "install"],
  verify: ["test"],
  doctor: ["check", "health", "healthcheck", "diagnose", "ping"],
  help: ["usage", "commands", "man"],
  "--version": ["version"],
};

/** The same of flags, without dashes. */
export const flagsElsewhere: WordsElsewhere = {
  listen: ["port", "p", "bind", "addr", "address"],
  registry: ["url", "uri", "store", "database", "db"],
  namespace: ["ns"],
  window: ["ttl"],
  count: ["number"],
  format: ["encoding"],
};

/**
 * What somebody meant who wrote an unknown word. In this order: the known word that other programs call so; the one that is spelt nearly
 * so; the only one that begins so, or one that the word begins with; the one whose name elsewhere is spelt nearly so.
 */
export function meantBy(word: string, known: readonly string[], elsewhere: WordsElsewhere): string | undefined {
  const lower = word.toLowerCase();
  const others = new Map(known.flatMap((name) => (elsewhere[name] ?? []).map((other) => [other, name] as const)));
  return (
    others.get(lower) ??
    didYouMean(lower, known) ??
    begun(lower, known) ??
    others.get(didYouMean(lower, [...others.keys()]) ?? "")
  );
}

function begun(word: string, known: readonly string[]): string | undefined {
  const longer = word.length > 1 ? known.filter((name) => name.startsWith(word)) : [];
  if (longer.length > 0) return longer.length === 1 ? longer[0] : undefined;
  return known.find((name) => word.startsWith(name) && word.length < 2 * name.length);
}
