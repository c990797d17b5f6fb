import { html } from "../../vendor/hono.ts";
import type { Alarm } from "../../ops/pool/alarms.ts";
import type { SnowleaseError } from "../../id/errors.ts";
import type { Picture } from "../../ops/pool/pool-watch.ts";
import { cut } from "./room.ts";
import { type Html, span, when, withTimes } from "./text.ts";

/** Longest text of an alarm in the page, bytes: messages name hosts. */
const longestAlarm = 1000;

export interface PageFrame {
  readonly title: string;
  /** Path of a file of the dashboard. */
  readonly assetUrl: (name: string) => string;
  readonly version: string;
  /** Stands beside the name of the program. */
  readonly header?: Html | undefined;
  readonly main: Html;
}

/** A whole page. Nothing in it is of another host, and nothing that runs or looks is written inline. */
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

/** What is in the way, in a sentence. `kind`: how bad that is. */
export function notice(kind: "warn" | "fail", code: string, message: string | readonly Html[]): Html {
  return html`<p class="notice ${kind}"><b>${code}</b> ${message}</p>`;
}

/** Why the page is outdated, and as of when it is. @param now this daemon's clock, Unix ms. */
export function outdatedPart({ code, message }: SnowleaseError, picture: Picture | undefined, now: number): Html {
  // The registry's clock of that moment, by this daemon's: a step of either in between changes only this sentence.
  const seen =
    picture &&
    html`<br />Below is what was last seen, at ${when(picture.clock)}: ${span(now - picture.offset - picture.clock)}
      ago.`;
  return html`<p class="notice fail" id="outdated"><b>${code}</b> ${message}${seen}</p>`;
}

/** What operators have to act on, above everything else. Empty where all is well. */
export function alarmsPart(alarms: readonly Alarm[]): Html | string {
  if (alarms.length === 0) return "";
  return html`<div id="alarms" role="group" aria-label="What needs attention">
    ${alarms.map(({ kind, title, text }) => notice(kind, title, withTimes(cut(text, longestAlarm))))}
  </div>`;
}

/** A table without an order of its own. */
export function tablePart(headings: readonly string[], rows: readonly Html[]): Html {
  const heads = headings.map((heading) => html`<th scope="col">${heading}</th>`);
  return tableOf(heads, rows);
}

/** A table. @param attributes of its element. */
export function tableOf(heads: readonly Html[], rows: readonly Html[], attributes: Html | string = ""): Html {
  return html`<table class="list" ${attributes}>
    <thead>
      <tr>
        ${heads}
      </tr>
    </thead>
    <tbody>
      ${rows}
    </tbody>
  </table>`;
}

/** Asks for a token. `next`: where to go with it. */
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
