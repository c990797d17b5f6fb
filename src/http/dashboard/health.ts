import { html } from "../../vendor/hono.ts";
import type { HealthPart } from "../../ops/pool/health.ts";
import type { PageLink } from "./query.ts";
import { type Html, left } from "./text.ts";

/** A sign and a word for each kind: its colour alone must not carry the meaning. */
const kinds: Readonly<Record<HealthPart["kind"], { readonly sign: string; readonly word: string }>> = {
  ok: { sign: "✓", word: "well" },
  unknown: { sign: "?", word: "not known" },
  warn: { sign: "!", word: "warning" },
  fail: { sign: "✕", word: "failure" },
};
/** The worst first. */
const ranks: readonly HealthPart["kind"][] = ["fail", "warn", "unknown", "ok"];

/** Where the page says more of a part. */
const places: Readonly<Record<Exclude<HealthPart["name"], "Renewals">, string>> = {
  Registry: "#outlook",
  Quarantine: "#alarms",
  Pool: "#outlook",
  "Refused claims": "#alarms",
  Layout: "#outlook",
};

/** The health of a namespace in one line, above everything else. @param clock the registry's, Unix ms. */
export function healthPart(parts: readonly HealthPart[], clock: number, address: PageLink): Html {
  const worst = ranks.find((kind) => parts.some((part) => part.kind === kind)) ?? "ok";
  return html`<section aria-labelledby="health-title" id="health" class="${worst}">
    <h2 id="health-title" class="unseen">Health</h2>
    <ul>
      ${parts.map((part) => itemOf(part, clock, address))}
    </ul>
  </section>`;
}

function itemOf({ name, kind, value, until, advice }: HealthPart, clock: number, address: PageLink): Html {
  const { sign, word } = kinds[kind];
  const text = html`${value}${until !== undefined && html` ${left(until, clock)}`}`;
  const place = name === "Renewals" ? `${address({ state: "overdue" })}#list` : places[name];
  return html`<li class="${kind}">
    <i class="sign" aria-hidden="true">${sign}</i> <span class="name">${name}</span>
    <b>${advice === undefined ? text : html`<a href="${place}" title="${advice}">${text}</a>`}</b
    ><span class="unseen">: ${word}</span>
    ${advice !== undefined && html`<small>${advice}</small>`}
  </li>`;
}
