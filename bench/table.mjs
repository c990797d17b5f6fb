/** What was printed so far, as Markdown. */
const printed = [];

/** Prints a line of text. */
export function printLine(text) {
  console.log(text);
  printed.push(text.trim());
}

/** Prints what begins here, and how the machine was. */
export function printHeading(name, circumstances) {
  console.log(`\n${name} (${circumstances})`);
  printed.push(`## ${name}`, `${circumstances[0].toUpperCase()}${circumstances.slice(1)}.`);
}

/** Prints rows of texts in columns, the first to the left, the others to the right. */
export function printTable(title, head, rows) {
  const all = [head, ...rows].map((row) => head.map((_, i) => String(row[i] ?? "")));
  const widths = head.map((_, i) => Math.max(...all.map((row) => row[i].length)));
  console.log(`\n${title}\n`);
  for (const row of all) {
    const cells = row.map((text, i) => (i === 0 ? text.padEnd(widths[i]) : text.padStart(widths[i])));
    console.log(`  ${cells.join("  ").trimEnd()}`);
  }
  const [names, ...others] = all;
  const sides = names.map((_, i) => (i === 0 ? "---" : "---:"));
  printed.push(
    `### ${title[0].toUpperCase()}${title.slice(1)}`,
    [names, sides, ...others]
      .map((row) => `| ${row.map((text) => text.replaceAll("|", "\\|")).join(" | ")} |`)
      .join("\n"),
  );
}

/** Everything that was printed, as Markdown. */
export function printedPage() {
  return `${printed.join("\n\n")}\n`;
}

/** Three digits that mean something. */
export function figure(number) {
  if (number >= 100) return Math.round(number).toLocaleString("en");
  return number.toFixed(number >= 10 ? 1 : 2);
}
