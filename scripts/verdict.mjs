// Puts the results of tests into words.

/** Prints what was skipped and why, what failed, and one sentence; the last line has the counts. @returns whether nothing failed. */
export function printVerdict(name, results, seconds) {
  const sum = (key) => results.reduce((total, result) => total + result[key], 0);
  const [passed, failed] = [sum("passed"), sum("failed")];
  const skips = results.flatMap((result) => result.skips);

  if (skips.length > 0) console.log("\nSkipped, and why");
  for (const [reason, count] of countOf(skips)) console.log(`${String(count).padStart(9)}  ${reason}`);
  console.log();
  for (const text of results.flatMap(({ failures }) => failures)) console.log(`FAILED ${text}`);

  const tests = `${passed.toLocaleString("en")} tests passed in ${inMinutes(seconds)}`;
  const also = skips.length > 0 ? `, ${skips.length.toLocaleString("en")} were skipped for the reasons above` : "";
  console.log(
    failed === 0 ? `${name} is green: ${tests}${also}.` : `${name} is RED: ${failed} failed, ${tests}${also}.`,
  );
  console.log(`${passed} passed, ${failed} failed`);
  return failed === 0;
}

/** A time as people say it: `5 s`, `2 min 05 s`. */
export function inMinutes(seconds) {
  const whole = Math.round(seconds);
  if (whole < 60) return `${whole} s`;
  return `${Math.floor(whole / 60)} min ${String(whole % 60).padStart(2, "0")} s`;
}

/** What occurs in a list, and how often. The most frequent item is first. */
function countOf(list) {
  const counts = new Map();
  for (const each of list) counts.set(each, (counts.get(each) ?? 0) + 1);
  return [...counts].toSorted(([, a], [, b]) => b - a);
}
