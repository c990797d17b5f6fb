import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

export const root: string = join(import.meta.dirname, "../..");

/** A fenced block: ```` ```sh with=daemon norun=why ````. */
export interface Block {
  /** `docs/http.md:30` */
  readonly where: string;
  readonly language: string;
  /** The words after the language: `with=daemon` or `exact`. */
  readonly info: ReadonlyMap<string, string>;
  readonly text: string;
}

/** A page of Markdown. */
export interface Page {
  /** The path from the root of the project. */
  readonly path: string;
  readonly text: string;
  readonly blocks: readonly Block[];
}

/** The README and all of docs/. */
export function documentation(): readonly Page[] {
  const pages = readdirSync(join(root, "docs"), { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".md"))
    .toSorted();
  return ["README.md", ...pages.map((name) => `docs/${name}`)].map(readPage);
}

export function readPage(path: string): Page {
  const text = readFileSync(join(root, path), "utf8");
  return { path, text, blocks: blocksOf(path, text) };
}

function blocksOf(path: string, text: string): readonly Block[] {
  const found: Block[] = [];
  let open: { at: number; head: string; lines: string[] } | undefined;
  for (const [i, line] of text.split("\n").entries()) {
    if (open === undefined) {
      if (line.startsWith("```")) open = { at: i + 1, head: line.slice(3), lines: [] };
    } else if (line === "```") {
      const [language = "", ...rest] = open.head.split(" ");
      const info = new Map(rest.map((word): [string, string] => [word.split("=")[0] ?? "", word.split("=")[1] ?? ""]));
      found.push({ where: `${path}:${open.at}`, language, info, text: open.lines.join("\n") });
      open = undefined;
    } else open.lines.push(line);
  }
  if (open !== undefined) throw new Error(`${path}:${open.at} opens a block that nothing closes.`);
  return found;
}

/** The page without its blocks and inline code, which contain no links. */
export function prose({ text }: Pick<Page, "text">): string {
  return text.replace(/^```[\s\S]*?^```$/gm, "").replace(/`[^`\n]*`/g, "`code`");
}

/** Targets of links and pictures. */
export function linksOf(page: Pick<Page, "text">): readonly string[] {
  return Array.from(prose(page).matchAll(/\]\(([^)\s]+)\)/g), ([, target = ""]) => target);
}

/** What a link may name after `#`: the headings, as GitHub writes them, and elements with an `id`. */
export function anchorsOf({ text }: Pick<Page, "text">): readonly string[] {
  const bare = text.replace(/^```[\s\S]*?^```$/gm, "");
  const headings = Array.from(bare.matchAll(/^#{1,6} (.+)$/gm), ([, heading = ""]) =>
    heading
      .replace(/\[([^\]]*)\]\([^)]*\)/g, "$1")
      .toLowerCase()
      .replace(/[^\p{L}\p{N}\s_-]/gu, "")
      .replaceAll(" ", "-"),
  );
  return [...headings, ...Array.from(bare.matchAll(/<a id="([^"]+)"/g), ([, id = ""]) => id)];
}
