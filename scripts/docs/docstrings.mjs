import { optionTable } from "../../dist/config/options.js";
import { fail } from "../setup.mjs";

/** Most columns of a comment's line. */
const columns = 134;

/** The members of `SnowleaseOptions`, each with the comment that is made from its entry in the table of options. */
export function docstrings(written) {
  const options = optionTable.filter(({ scopes }) => scopes.includes("library"));
  const text = options.reduce((text, { name, description, program, default: byDefault }) => {
    const member = new RegExp(`(?: {2}/\\*\\*(?:(?!\\*/)[^])*\\*/\\n)? {2}readonly ${name}\\?:`);
    if (!member.test(text)) fail(`SnowleaseOptions has no \`${name}\`, which options.ts gives to the library`);
    const meaning = [description, program, byDefault === "none" ? undefined : `Default: ${byDefault}.`];
    return text.replace(member, () => `${comment(meaning.filter(Boolean).join(" "))}  readonly ${name}?:`);
  }, written);
  return text;
}

function comment(text) {
  if (text.length + 8 <= columns) return `  /** ${text} */\n`;
  const lines = [""];
  for (const word of text.split(" ")) {
    const longer = `${lines.at(-1)} ${word}`.trimStart();
    if (longer.length + 5 > columns) lines.push(word);
    else lines[lines.length - 1] = longer;
  }
  return ["  /**", ...lines.map((line) => `   * ${line}`), "   */", ""].join("\n");
}
