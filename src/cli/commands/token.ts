import { makeToken, tokenGlob } from "../../serving/tokens.ts";
import { roles } from "../../api/call.ts";
import { configInvalid, shown } from "../../id/errors.ts";
import type { CliCommand } from "../command.ts";

export const token: CliCommand = {
  name: "token",
  summary: "Make a token for a client of a daemon, and its line for the file of `--tokens`.",
  details: [
    `ROLE is one of ${roles.join(", ")}. NAMESPACES is the name of a namespace, in which * stands for any letters. Left out: all namespaces.`,
    "The command stores nothing. It shows the token only once, and the line does not contain it. A client takes the token from SNOWLEASE_TOKEN. A daemon reads its file again at SIGHUP.",
  ],
  examples: ["snowlease token worker 'orders*'", "snowlease token read --json"],
  settings: [],
  operands: { name: "ROLE [NAMESPACES]", least: 1, most: 2 },

  async run({ operands, output, json }) {
    const [word = "", namespaces = "*"] = operands;
    const role = roles.find((known) => known === word);
    if (role === undefined) {
      throw configInvalid(`Expected ROLE to be one of ${roles.join(", ")}, got ${shown(word)}; name one of them.`);
    }
    if (!tokenGlob.test(namespaces)) {
      throw configInvalid(
        `Expected NAMESPACES to be up to 32 of the letters a to z, digits, \`_\` and \`*\`, got ${shown(namespaces)}; correct it.`,
      );
    }
    const made = makeToken(role, namespaces);
    if (json) return output.json({ role, namespaces, ...made });
    await output.line(
      [
        "The token, for the client. It is shown only now:",
        made.token,
        "",
        "The line, for the daemon's file of `--tokens`:",
        made.line,
      ].join("\n"),
    );
  },
};
