import { didYouMean } from "../id/did-you-mean.ts";

/** For each word of Snowlease, the words of other programs. */
type WordsElsewhere = Readonly<Record<string, readonly string[]>>;

/** Commands, with the words that other programs have for them. */
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

/** Flags without dashes, with the words that other programs have for them. */
export const flagsElsewhere: WordsElsewhere = {
  listen: ["port", "p", "bind", "addr", "address"],
  registry: ["url", "uri", "store", "database", "db"],
  namespace: ["ns"],
  window: ["ttl"],
  count: ["number"],
  format: ["encoding"],
};

/**
 * The known word that a user probably meant by an unknown one. The first of these that exists: the known word for a word of other
 * programs; the known word with nearly the same spelling; the only known word that begins with the unknown word, or a known word with
 * which the unknown word begins; the known word for a word of other programs with nearly the same spelling.
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
