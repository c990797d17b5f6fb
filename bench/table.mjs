/** Prints rows of texts in columns, the first to the left, the others to the right. */
export function printTable(title, head, rows) {
  const widths = head.map((_, i) => Math.max(...[head, ...rows].map((row) => String(row[i] ?? "").length)));
  const line = (row) =>
    widths
      .map((width, i) => (i === 0 ? String(row[i]).padEnd(width) : String(row[i] ?? "").padStart(width)))
      .join("  ");
  console.log(`\n${title}\n`);
  for (const row of [head, ...rows]) console.log(`  ${line(row).trimEnd()}`);
}

/** Three digits that mean something. */
export function figure(number) {
  if (number >= 100) return Math.round(number).toLocaleString("en");
  return number.toFixed(number >= 10 ? 1 : 2);
}
