import { html } from "hono/html";
import type { Picture } from "../../ops/pool/pool-watch.ts";
import { namespacePattern } from "../../id/namespace.ts";
import { type Html, when } from "./text.ts";

/** How many namespaces get a link, and how many are offered. The user can type the name of any other. */
const namespacesLinked = 20;
const namespacesOffered = 50;

/** The namespaces, the time when the pool was read, and the sign-out. */
export function headerPart(
  namespace: string,
  known: readonly string[],
  picture: Picture | undefined,
  signedIn: boolean,
): Html {
  const others = known.includes(namespace) ? known : [namespace, ...known];
  return html`<nav aria-label="Namespaces">
      <ul>
        ${others.slice(0, namespacesLinked).map((name) => html`<li><a href="/?namespace=${name}" ${name === namespace && html`aria-current="page"`}>${name}</a></li>`)}
      </ul>
      <form action="/">
        <label for="namespace" class="unseen">Another namespace</label>
        <input
          id="namespace"
          name="namespace"
          list="namespaces"
          required
          pattern="${namespacePattern.source}"
          placeholder="another one"
          title="Listed are the namespaces that this daemon was asked for since it started. Any other of the registry can be named here."
          autocomplete="off"
          autocapitalize="off"
          spellcheck="false"
        />
        <datalist id="namespaces">
          ${known.slice(0, namespacesOffered).map((name) => html`<option value="${name}"></option>`)}
        </datalist>
        <button>Go</button>
      </form>
    </nav>
    <div class="pulse">
      <span id="pulse">${picture && html`Read ${when(picture.clock)}`}</span>
      <button type="button" id="pause" hidden aria-pressed="false">Pause</button>
      ${signedIn && html`<form method="post" action="/sign-out"><button>Sign out</button></form>`}
    </div>`;
}
