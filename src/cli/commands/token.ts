import { appendFileSync, existsSync } from "node:fs";
import { configInvalid, shown } from "../../id/errors.ts";
import { readGuardedFile } from "../../serving/guarded-file.ts";
import { newToken, parseTokens } from "../../serving/tokens.ts";
import type { CliCommand } from "../command.ts";
import { linesOf } from "../terminal/output.ts";

export const token: CliCommand = {
  name: "token",
  summary: "Make a token for a client of a daemon, and the line for the daemon's file of tokens.",
  details: [
    "ROLE is `worker` (leases, and IDs), `read` (reading, and figures) or `admin` (everything). NAMESPACES is a name, or a text with `*` for any characters, such as 'orders*'; default: all namespaces.",
    "The token is printed once, and stored nowhere: the file has only its SHA-256. The client gets the token as SNOWLEASE_TOKEN. A daemon that runs reads the file again at SIGHUP.",
    "With --append, the line goes into the file, and only the token is printed.",
  ],
  examples: [
    "snowlease token worker 'orders*'",
    "TOKEN=$(snowlease token read --append /etc/snowlease/tokens)",
    "snowlease token admin --json",
  ],
  settings: [],
  flags: { "--append FILE": "Add the line to this file. A new file is readable for its owner alone." },
  operands: { name: "ROLE [NAMESPACES]", least: 1, most: 2 },

  async run({ operands: [role = "", namespaces], flags, output, json }) {
    const { token, line } = newToken(role, namespaces);
    const file = flags.get("append");
    if (typeof file === "string") append(file, line);
    if (json) return output.json({ token, line });
    if (file !== undefined) return output.line(token);
    await output.line(
      linesOf(`token, for the client:            ${token}`, `line, for the file of tokens:     ${line}`),
    );
  },
};

function append(file: string, line: string): void {
  const before = existsSync(file) ? readGuardedFile(file, "append") : "";
  // A line that is added to any other file would spoil it.
  if (before.trim() !== "") parseTokens(before, file);
  const end = before === "" || before.endsWith("\n") ? "" : "\n";
  try {
    appendFileSync(file, `${end}${line}\n`, { mode: 0o600 });
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException;
    throw configInvalid(
      `The line cannot be added to ${shown(file)} (${code}); correct its path or its permissions, or add the line by hand.`,
      cause,
    );
  }
}
