/** Words that differ by more edits, or by half of their letters, are different words; but a letter too many at the end is a slip. */
const most = 2;

/** What other programs call it: words that no number of edits brings near. In lower case, without `-` and `_`. */
const synonyms: Readonly<Record<string, readonly string[]>> = {
  daemon: ["serve", "server", "start"],
  exec: ["run"],
  inspect: ["decode", "parse"],
  workers: ["list", "ls"],
  listen: ["port", "bind", "address"],
  namespace: ["ns"],
  registry: ["url", "store", "uri"],
  mysql: ["mariadb"],
  sqlite: ["file"],
  tls: ["ssl", "sslmode"],
  tlsca: ["ca", "cafile", "cacert", "tlscacert", "tlscafile", "sslca", "sslrootcert", "rootcert"],
  tlscert: ["cert", "sslcert"],
  tlskey: ["key", "sslkey"],
};

/** The known word closest to a misspelt one, or the one that means the same; undefined when there is none. */
export function didYouMean(word: string, known: readonly string[]): string | undefined {
  return misspelt(word, known) ?? known.find((candidate) => synonyms[plain(candidate)]?.includes(plain(word)));
}

function plain(word: string): string {
  return word.toLowerCase().replaceAll(/[-_]/g, "");
}

/** The known word closest to a misspelt one; undefined when there is none. */
export function misspelt(word: string, known: readonly string[]): string | undefined {
  const [best] = known
    .map((candidate) => ({ candidate, edits: editsBetween(word.slice(0, 64).toLowerCase(), candidate.toLowerCase()) }))
    .filter(({ candidate, edits }) => {
      const isSlip = edits === 1 && word.toLowerCase().startsWith(candidate.toLowerCase());
      return edits <= most && (edits * 2 < candidate.length || isSlip);
    })
    .toSorted((a, b) => a.edits - b.edits);
  return best?.candidate;
}

/** Number of letters to insert, delete, replace or swap with a neighbour to turn one word into the other. */
function editsBetween(a: string, b: string): number {
  let beforeLast: number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const same = a[i - 1] === b[j - 1];
      let edits = Math.min((last[j] ?? 0) + 1, (row[j - 1] ?? 0) + 1, (last[j - 1] ?? 0) + (same ? 0 : 1));
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1])
        edits = Math.min(edits, (beforeLast[j - 2] ?? 0) + 1);
      row.push(edits);
    }
    [beforeLast, last] = [last, row];
  }
  return last[b.length] ?? 0;
}
