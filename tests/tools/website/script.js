// Search, progress, copying. All else works without this.
"use strict";
const one = (what, where = document) => where.querySelector(what);
const all = (what, where = document) => [...where.querySelectorAll(what)];
const { root, page } = document.body.dataset;

function make(tag, attributes, ...inside) {
  const element = Object.assign(document.createElement(tag), attributes);
  element.append(...inside);
  return element;
}

// ---- progress: kept in this browser, for this site ----

function kept(name, otherwise) {
  try {
    return JSON.parse(localStorage.getItem(`workbook:${name}`)) ?? otherwise;
  } catch {
    return otherwise;
  }
}

function keep(name, value) {
  try {
    localStorage.setItem(`workbook:${name}`, JSON.stringify(value));
  } catch {
    // A browser that keeps nothing: the pages are as good to read.
  }
}

function showProgress() {
  const done = kept("done", {});
  for (const item of all("li[data-page]")) one("a", item).classList.toggle("tick", item.dataset.page in done);
}

function rememberPlace() {
  const headings = all("main :is(h1, h2, h3)");
  const now = headings.findLast((h) => h.getBoundingClientRect().top < 200) ?? headings[0];
  for (const entry of all("#side li li a")) entry.classList.toggle("here", entry.hash === `#${now.id}`);
  const words = [...new Set([headings[0], now])].map((h) => h.textContent.replace(/#$/, ""));
  keep("place", { address: `${page}#${now.id}`, words: words.join(", ") });
}

showProgress();
if (document.body.matches(".chapter")) {
  const box = one(".done input");
  one(".done").hidden = false;
  box.checked = page in kept("done", {});
  box.addEventListener("change", () => {
    const { [page]: _, ...others } = kept("done", {});
    keep("done", box.checked ? { ...others, [page]: 1 } : others);
    showProgress();
  });
  let waiting = 0;
  addEventListener("scroll", () => {
    clearTimeout(waiting);
    waiting = setTimeout(rememberPlace, 200);
  }, { passive: true });
  rememberPlace();
}
const place = kept("place");
const again = one("#continue");
if (again && place?.address) {
  Object.assign(again, { href: root + place.address, textContent: `Continue: ${place.words}`, hidden: false });
}

// ---- copying ----

function wanted(listing) {
  const typed = all(".term .cli kbd", listing);
  if (one(".term", listing)) return (typed.length ? typed : all("kbd", listing)).map((kbd) => kbd.textContent + "\n");
  const lines = all(listing.matches(".edit") ? "pre > ins" : "pre > :is(span, ins)", listing);
  return lines.map((line) => line.textContent.replace(one(".built", line)?.textContent ?? "", ""));
}

async function toClipboard(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch { // an old browser, or a page without https
    const area = document.body.appendChild(make("textarea", { value: text }));
    area.select();
    document.execCommand("copy");
    area.remove();
  }
}

for (const listing of all(".listing:is(:has(figcaption), .whole):not(.output, .drawing, .captured, .sides)")) {
  const button = make("button", { className: "copy", type: "button" }, "Copy");
  button.addEventListener("click", async () => {
    await toClipboard(wanted(listing).join(""));
    button.textContent = "Copied";
    setTimeout(() => (button.textContent = "Copy"), 1500);
  });
  listing.append(button);
}

// ---- search: the index is loaded on the first use ----

const form = one(".search");
const field = one("input", form);
const found = one("#found");
const options = () => all("[role=option]", found);
let loading = null;

function score(words, [title, , where, said]) {
  const name = title.toLowerCase().replaceAll("_", " ");
  let sum = name === words.join(" ") ? 40 : 0;
  for (const word of words) {
    const at = name.indexOf(word);
    const times = said.toLowerCase().split(word).length - 1;
    const near = where.toLowerCase().includes(word) ? 1 : 0;
    const points = (at === 0 ? 12 : at > 0 ? 8 : 0) + Math.min(times, 6) + near;
    if (!points) return 0;
    sum += points;
  }
  return sum;
}

function marked(text, words) {
  const safe = words.map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  return text.split(RegExp(`(${safe.join("|")})`, "gi")).map((part, i) => (i % 2 ? make("mark", {}, part) : part));
}

function search() {
  const words = field.value.toLowerCase().split(/[\s_]+/).filter(Boolean);
  const scored = words.length ? search.index.map((entry) => [score(words, entry), entry]) : [];
  const hits = scored.filter(([points]) => points).sort((a, b) => b[0] - a[0]).slice(0, 12);
  found.replaceChildren(...hits.map(([, [title, url, where, said]], i) => {
    const at = said.lastIndexOf(" ", Math.max(0, said.toLowerCase().indexOf(words[0]) - 50)) + 1;
    const excerpt = (at ? "… " : "") + said.slice(at, at + 150) + (said.length > at + 150 ? " …" : "");
    const item = make("li", { id: `found-${i}`, role: "option" }, make("b", {}, ...marked(title, words)));
    item.append(make("span", {}, where), ...(said ? [make("p", {}, ...marked(excerpt, words))] : []));
    item.dataset.url = root + url;
    return item;
  }));
  if (!hits.length) found.append(make("li", {}, "Nothing has all of these words."));
  show(words.length > 0);
  choose(0);
}

function show(open) {
  found.hidden = !open;
  field.setAttribute("aria-expanded", String(open));
}

function choose(at) {
  options().forEach((item, i) => item.setAttribute("aria-selected", String(i === at)));
  field.setAttribute("aria-activedescendant", options()[at]?.id ?? "");
  options()[at]?.scrollIntoView({ block: "nearest" });
}

form.hidden = false;
field.addEventListener("input", async () => {
  loading ??= new Promise((done) => document.head.append(make("script", { src: `${root}search.js`, onload: done })));
  await loading;
  search();
});
field.addEventListener("keydown", (event) => {
  const at = options().findIndex((item) => item.ariaSelected === "true");
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (step && at >= 0) {
    event.preventDefault();
    choose((at + step + options().length) % options().length);
  } else if (event.key === "Escape") {
    field.blur();
  }
});
form.addEventListener("submit", (event) => {
  event.preventDefault();
  const item = one("[aria-selected=true]", found);
  if (item && !found.hidden) location.href = item.dataset.url;
  show(false);
});
found.addEventListener("mousedown", (event) => {
  const item = event.target.closest("[role=option]");
  if (item) location.href = item.dataset.url;
});
field.addEventListener("blur", () => show(false));
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && !event.target.closest("input, textarea, select")) {
    event.preventDefault();
    field.focus();
  } else if (event.key === "Escape") {
    all(".term:is(:hover, :focus)").forEach((term) => term.classList.add("shut"));
  }
});

// ---- small things ----

for (const term of all("a.term")) {
  for (const name of ["mouseleave", "blur"]) term.addEventListener(name, () => term.classList.remove("shut"));
}
for (const line of all(".code pre > :is(span, ins, del)")) { // where its second row begins, if it needs one
  line.style.setProperty("--indent", line.textContent.search(/\S|$/));
}
for (const area of all(".code, .scroll")) {
  if (area.scrollWidth <= area.clientWidth) continue;
  Object.assign(area, { tabIndex: 0, role: "region", ariaLabel: "scrolls sideways" });
}
document.addEventListener("click", ({ target, offsetX }) => { // on the number of a line: its address
  if (target.id && target.matches(".whole [data-n]") && offsetX < 36) location.hash = target.id;
});
const side = one("#side");
side.scrollTop = (one("[aria-current]", side)?.getBoundingClientRect().top ?? 0) - 200;
side.addEventListener("click", (event) => {
  if (event.target.closest("a") && side.matches(":popover-open")) side.hidePopover();
});
let shut = [];
addEventListener("beforeprint", () => {
  shut = all("details:not([open])");
  shut.forEach((details) => (details.open = true));
});
addEventListener("afterprint", () => shut.forEach((details) => (details.open = false)));
