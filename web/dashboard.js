// Keeps a page of the dashboard up to date, and lets arrow keys move in its grid. The daemon makes the whole page. This script requests
// the page again and changes only the parts that differ, so that unchanged parts do not move.

const every = 5000;
const afterEvent = 400;
const root = document.documentElement;
const main = () => document.querySelector("#main");

let paused = false;
let timer;
let asking;
let source;
let failed = 0;
/** The registry's clock minus this browser's, ms. */
let ahead = 0;

root.classList.add("scripted");
start();

function start() {
  if (main() === null) return;
  takeClock();
  setUpGrid();
  setUpPause();
  // On a phone, parts that operators need less often are closed. A tap opens them.
  if (matchMedia("(width < 40rem)").matches) for (const part of document.querySelectorAll("details")) part.open = false;
  listen();
  setInterval(countDown, 1000);
  plan(every);
  addEventListener("popstate", () => void load(location.href));
  addEventListener("click", onClick);
  addEventListener("submit", onSubmit);
  addEventListener("keydown", onKey);
  document.addEventListener("visibilitychange", () => document.hidden || plan(0));
}

/* Reading again */

function plan(delay) {
  clearTimeout(timer);
  timer = setTimeout(() => {
    if (!paused && !document.hidden) void load(location.href);
  }, delay);
}

/** Loads the page at an address, and shows it. False if that fails. */
async function load(url) {
  asking?.abort();
  const own = (asking = new AbortController());
  try {
    const answer = await fetch(url, { headers: { accept: "text/html" }, signal: own.signal });
    const type = answer.headers.get("content-type") ?? "";
    if (!type.startsWith("text/html")) throw new Error(type);
    const text = await answer.text();
    if (own.signal.aborted) return false;
    take(new DOMParser().parseFromString(text, "text/html"));
    failed = 0;
    return true;
  } catch (error) {
    if (error.name === "AbortError") return false;
    failed++;
    say("pulse", "The daemon does not answer; trying again");
    return false;
  } finally {
    if (asking === own) plan(Math.min(every * 2 ** Math.max(0, failed - 1), 60_000));
  }
}

function take(next) {
  const before = newest(document);
  document.title = next.title;
  merge(document.body, next.body);
  takeClock();
  setUpGrid();
  setUpPause();
  listen();
  const item = document.querySelector("#events li");
  if (item !== null && newest(document) !== before) say("news", item.textContent.replace(/\s+/g, " "));
}

function newest(page) {
  return page.querySelector("#events li")?.id;
}

function say(id, text) {
  const element = document.getElementById(id);
  if (element !== null && element.textContent !== text) element.textContent = text;
}

/** Attributes that only this script sets. The daemon's page does not have them. */
const own = new Set(["role", "tabindex", "hidden", "aria-pressed", "open"]);

/** Makes one element equal to another, and does not touch equal parts. So focus, selection and typed text stay. */
function merge(old, next) {
  for (const name of old.getAttributeNames()) {
    if (!next.hasAttribute(name) && !own.has(name)) old.removeAttribute(name);
  }
  for (const { name, value } of next.attributes) {
    if (old.getAttribute(name) !== value && !own.has(name)) old.setAttribute(name, value);
  }
  // The script sets the text of these elements.
  if (old.id === "news" || old.id === "pause") return;
  mergeChildren(old, next);
}

function mergeChildren(old, next) {
  const known = new Map([...old.children].map((child) => [idOf(child), child]));
  const wanted = new Set([...next.children].map(idOf));
  let at = old.firstChild;
  const drop = () => {
    const gone = at;
    at = at.nextSibling;
    gone.remove();
  };
  for (const node of next.childNodes) {
    const id = idOf(node);
    const same = id === "" ? undefined : known.get(id);
    // Remove elements before the wanted one, except elements that are wanted later. A moved element would lose its focus.
    if (same !== undefined) {
      while (at !== null && at !== same && (idOf(at) === "" || !wanted.has(idOf(at)))) drop();
      if (same !== at) old.insertBefore(same, at);
    }
    const isLike = at !== null && id === "" && idOf(at) === "" && at.nodeName === node.nodeName;
    const there = same ?? (isLike ? at : undefined);
    if (there !== undefined && there === at) at = at.nextSibling;
    if (there === undefined) old.insertBefore(document.importNode(node, true), at);
    else if (node.nodeType === Node.ELEMENT_NODE) merge(there, node);
    else if (there.nodeValue !== node.nodeValue) there.nodeValue = node.nodeValue;
  }
  while (at !== null) drop();
}

/** Reads the attribute, because the property `id` of a form may be its input field with that name. */
function idOf(node) {
  return node.nodeType === Node.ELEMENT_NODE ? (node.getAttribute("id") ?? "") : "";
}

/* Events */

function listen() {
  const { events, names = "" } = main()?.dataset ?? {};
  // A namespace that does not exist yet has no events.
  if (source !== undefined || !events) return;
  source = new EventSource(events);
  for (const name of ["missed", ...names.split(" ")]) source.addEventListener(name, () => plan(afterEvent));
  // Without a stream, the page is still read every few seconds.
  addEventListener("pagehide", () => source.close());
}

/* Time */

function takeClock() {
  ahead = Number(main()?.dataset.now ?? Date.now()) - Date.now();
}

function countDown() {
  const now = Date.now() + ahead;
  for (const element of document.querySelectorAll("[data-until]")) {
    const seconds = Math.max(0, Math.ceil((Number(element.dataset.until) - now) / 1000));
    const text = `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`;
    if (element.textContent !== text) element.textContent = text;
  }
}

function setUpPause() {
  const button = document.querySelector("#pause");
  if (button === null || !button.hidden) return;
  button.hidden = false;
  button.addEventListener("click", () => {
    paused = !paused;
    button.setAttribute("aria-pressed", String(paused));
    button.textContent = paused ? "Go on" : "Pause";
    plan(paused ? every : 0);
  });
}

/* Going elsewhere within the page */

function onClick(event) {
  const link = event.target.closest?.("a[href^='/?']");
  if (link === null || link === undefined || event.button !== 0 || event.ctrlKey || event.metaKey || event.shiftKey)
    return;
  if (isOther(link.href)) return;
  event.preventDefault();
  void go(link.href);
}

function onSubmit(event) {
  const form = event.target;
  if (form.method !== "get") return;
  const url = new URL(form.action);
  url.search = String(new URLSearchParams(new FormData(form)));
  if (isOther(url.href)) return;
  event.preventDefault();
  void go(url.href);
}

/** Another namespace is another page, because it has another stream of events. */
function isOther(href) {
  return new URL(href).searchParams.get("namespace") !== main()?.dataset.namespace;
}

async function go(href) {
  const { hash } = new URL(href);
  if (!(await load(href))) return;
  history.pushState(undefined, "", href);
  const place = hash === "" ? null : document.querySelector(hash);
  place?.scrollIntoView({ block: "nearest" });
  place?.querySelector("[tabindex='-1']")?.focus({ preventScroll: true });
}

/* The grid */

function setUpGrid() {
  const grid = document.querySelector("#grid");
  if (grid === null) return;
  grid.setAttribute("role", "grid");
  for (const row of grid.rows) row.setAttribute("role", "row");
  for (const cell of grid.querySelectorAll("td")) cell.setAttribute("role", "gridcell");
  for (const cell of grid.querySelectorAll("th")) cell.setAttribute("role", "rowheader");
}

function onKey(event) {
  const cell = event.target.closest?.("#grid a");
  if (cell === null || cell === undefined || event.altKey || event.metaKey) return;
  const cells = [...document.querySelectorAll("#grid a")];
  const at = cells.indexOf(cell);
  // Find the number of cells in a row. It depends on the width of the window.
  const { offsetTop } = cells[0].parentElement;
  const found = cells.findIndex((other) => other.parentElement.offsetTop > offsetTop);
  const columns = found < 0 ? cells.length : found;
  const line = at - (at % columns);
  const last = cells.length - 1;
  const goals = {
    ArrowLeft: at - 1,
    ArrowRight: at + 1,
    ArrowUp: at - columns,
    ArrowDown: at + columns,
    PageUp: at - 4 * columns,
    PageDown: at + 4 * columns,
    Home: event.ctrlKey ? 0 : line,
    End: event.ctrlKey ? last : Math.min(last, line + columns - 1),
  };
  const goal = goals[event.key];
  if (goal === undefined) return;
  event.preventDefault();
  const next = cells[goal];
  if (next === undefined) return;
  for (const other of cells) if (other.tabIndex === 0) other.tabIndex = -1;
  next.tabIndex = 0;
  next.focus();
}
