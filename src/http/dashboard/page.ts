import { html } from "hono/html";
import type { Alarm } from "../../ops/pool/alarms.ts";
import { type HealthFact, worstOf } from "../../ops/pool/health.ts";
import { cut } from "./room.ts";
import { type Html, left } from "./text.ts";

/** Longest text of an alarm in the page, bytes. Messages contain names of hosts, which may be long. */
const longestAlarm = 1000;

export interface PageFrame {
  readonly title: string;
  /** Path of a file of the dashboard. */
  readonly assetUrl: (name: string) => string;
  readonly version: string;
  /** Shown beside the name of the program. */
  readonly header?: Html | undefined;
  readonly main: Html;
}

/** A whole page. It loads nothing from other hosts, and has no inline script or style. */
export function page({ title, assetUrl, version, header, main }: PageFrame): Html {
  return html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <title>${title}</title>
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="color-scheme" content="light dark" />
        <link rel="icon" type="image/svg+xml" href="${assetUrl("dashboard.svg")}" />
        <link rel="stylesheet" href="${assetUrl("dashboard.css")}" />
        <script type="module" src="${assetUrl("dashboard.js")}"></script>
      </head>
      <body>
        <header>
          <h1>
            <a href="/"><img src="${assetUrl("dashboard.svg")}" alt="" width="22" height="22" />Snowlease</a>
          </h1>
          ${header}
        </header>
        ${main}
        <footer>Snowlease ${version} · <a href="/openapi.json">API</a> · <a href="/metrics">Figures</a></footer>
      </body>
    </html>`;
}

/** A problem in one sentence. `kind`: how bad it is. */
export function notice(kind: "warn" | "fail", code: string, message: string): Html {
  // Text in backticks can be typed.
  const parts = message.split("`").map((part, i) => (i % 2 === 0 ? part : html`<code>${part}</code>`));
  return html`<p class="notice ${kind}"><b>${code}</b> ${parts}</p>`;
}

/** The state of health in a few words. */
const verdicts: Readonly<Record<HealthFact["kind"], string>> = {
  ok: "All is well",
  warn: "Look at this soon",
  fail: "Something is wrong",
};

/** The health of the namespace, in one line at the top of the page. */
export function healthPart(facts: readonly HealthFact[], clock: number): Html {
  const worst = worstOf(facts);
  return html`<section id="health" class="${worst}" aria-label="Health">
    <b>${verdicts[worst]}</b>
    <dl>
      ${facts.map(
        ({ kind, name, text, until }) =>
          html`<div class="${kind}">
            <dt>${name}</dt>
            <dd>${text}${until !== undefined && html` ${left(until, clock)}`}</dd>
          </div>`,
      )}
    </dl>
  </section>`;
}

/** The alarms that need an operator, at the top of the page. Empty if there are none. */
export function alarmsPart(alarms: readonly Alarm[]): Html | string {
  if (alarms.length === 0) return "";
  return html`<div id="alarms" role="group" aria-label="What needs attention">
    ${alarms.map(({ kind, title, text }) => notice(kind, title, cut(text, longestAlarm)))}
  </div>`;
}

/** A table. @param wide heading of a last column, which only wide windows show. */
export function listPart(headings: readonly string[], rows: readonly Html[], wide?: string): Html {
  return html`<table class="list">
    <thead>
      <tr>
        ${headings.map((heading) => html`<th scope="col">${heading}</th>`)}
        ${wide && html`<th scope="col" class="wide">${wide}</th>`}
      </tr>
    </thead>
    <tbody>
      ${rows}
    </tbody>
  </table>`;
}

/** Asks for a token. `next`: the address of the page after the sign-in. */
export function signInPart(message: string | undefined, next: string): Html {
  return html`<main class="narrow">
    <h2>Sign in</h2>
    ${message && html`<p class="notice fail" role="alert">${message}</p>`}
    <form method="post" action="/sign-in">
      <input type="hidden" name="next" value="${next}" />
      <label for="token">Token of the role <code>read</code> or <code>admin</code></label>
      <span class="field"
        ><input id="token" name="token" type="password" required autocomplete="current-password" /><button>
          Sign in
        </button></span
      >
    </form>
    <p class="sub">
      This daemon was started with <code>--tokens</code>. The token is not kept in the browser, only that it was shown;
      that ends after 12 hours.
    </p>
    <p class="sub">Signed in already, and came from another site? <a href="${next}">Go on</a>.</p>
  </main>`;
}
