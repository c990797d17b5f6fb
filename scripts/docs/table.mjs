/** A Markdown table, the header first. */
export function table([header, ...others]) {
  return [header, header.map(() => "---"), ...others]
    .map((cells) => `| ${cells.map((cell) => String(cell).replaceAll("|", "\\|")).join(" | ")} |`)
    .join("\n");
}

/** The cells of a row, as `table` wrote them. */
export function cells(row) {
  return row
    .split(/(?<!\\)\|/)
    .slice(1, -1)
    .map((cell) => cell.trim().replaceAll("\\|", "|"));
}
