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
  for (const item of all("li[data-page]")) {
    const finished = item.dataset.page in done;
    one("a", item).classList.toggle("tick", finished);
    one("a", item).title = finished ? "finished" : "";
  }
}

function rememberPlace() {
  const headings = all("main h1, main h2, main h3");
  const now = headings.filter((h) => h.getBoundingClientRect().top < 200).pop() ?? headings[0];
  const words = (h) => h.textContent.replace(/#$/, "");
  for (const entry of all("#side li li a")) entry.classList.toggle("here", entry.hash === `#${now.id}`);
  keep("place", { page, anchor: now.id, title: words(headings[0]), section: now === headings[0] ? "" : words(now) });
}

showProgress();
const box = one(".done");
if (box) {
  const input = one("input", box);
  box.hidden = false;
  input.checked = page in kept("done", {});
  input.addEventListener("change", () => {
    const { [page]: _, ...others } = kept("done", {});
    keep("done", input.checked ? { ...others, [page]: 1 } : others);
    showProgress();
  });
  let waiting = 0;
  addEventListener("scroll", () => {
    clearTimeout(waiting);
    waiting = setTimeout(rememberPlace, 200);
  }, { passive: true });
  rememberPlace();
}
const again = one("#continue");
const place = kept("place");
if (again && place) {
  again.href = `${root}${place.page}#${place.anchor}`;
  again.textContent = `Continue: ${place.title}${place.section ? ", " + place.section : ""}`;
  again.hidden = false;
}

// ---- copying ----

function wanted(listing) {
  const lines = (what) => all(what, listing).map((line) => line.firstChild && textOf(line)).join("");
  if (one(".term", listing)) {
    const typed = all(".cli kbd", listing);
    return (typed.length ? typed : all("kbd", listing)).map((kbd) => kbd.textContent + "\n").join("");
  }
  return lines(listing.classList.contains("edit") ? "pre > ins" : "pre > :is(span, ins)");
}

function textOf(line) {
  const copy = line.cloneNode(true);
  all(".built", copy).forEach((mark) => mark.remove());
  return copy.textContent;
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
    await toClipboard(wanted(listing));
    button.textContent = "Copied";
    setTimeout(() => (button.textContent = "Copy"), 1500);
  });
  listing.append(button);
}

// ---- search: the index is loaded on the first use ----

const form = one(".search");
const field = one("input", form);
const found = one("#found");
let loading = null;

function search(text) {
  const words = text.toLowerCase().split(/[\s_]+/).filter(Boolean);
  const score = ([title, , where, said]) => {
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
  };
  const hits = words.length ? search.index.map((entry) => [score(entry), entry]).filter(([points]) => points) : [];
  return [words, hits.sort((a, b) => b[0] - a[0]).slice(0, 12).map(([, entry]) => entry)];
}

function marked(text, words) {
  const safe = words.map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  return text.split(RegExp(`(${safe.join("|")})`, "gi")).map((part, i) => (i % 2 ? make("mark", {}, part) : part));
}

function show() {
  const [words, hits] = search(field.value);
  found.replaceChildren(...hits.map(([title, url, where, said], i) => {
    const at = Math.max(0, said.toLowerCase().indexOf(words[0]) - 50);
    const excerpt = (at ? "… " : "") + said.slice(at, at + 150) + (said.length > at + 150 ? " …" : "");
    const item = make("li", { id: `found-${i}`, role: "option" });
    item.append(make("b", {}, ...marked(title, words)), make("span", {}, where));
    if (said) item.append(make("p", {}, ...marked(excerpt, words)));
    item.dataset.url = root + url;
    return item;
  }));
  if (words.length && !hits.length) found.append(make("li", {}, "Nothing has all of these words."));
  found.hidden = !words.length;
  field.setAttribute("aria-expanded", String(!found.hidden));
  choose(0);
}

function choose(at) {
  const items = all("[role=option]", found);
  items.forEach((item, i) => item.setAttribute("aria-selected", String(i === at)));
  field.setAttribute("aria-activedescendant", items[at]?.id ?? "");
  items[at]?.scrollIntoView({ block: "nearest" });
}

function close() {
  found.hidden = true;
  field.setAttribute("aria-expanded", "false");
}

form.hidden = false;
field.addEventListener("input", async () => {
  loading ??= new Promise((done) => document.head.append(make("script", { src: `${root}search.js`, onload: done })));
  await loading;
  show();
});
field.addEventListener("keydown", (event) => {
  const items = all("[role=option]", found);
  const at = items.findIndex((item) => item.ariaSelected === "true");
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (step && items.length) {
    event.preventDefault();
    choose((at + step + items.length) % items.length);
  } else if (event.key === "Escape") {
    close();
    field.blur();
  }
});
form.addEventListener("submit", (event) => {
  event.preventDefault();
  const item = one("[aria-selected=true]", found);
  if (item && !found.hidden) {
    location.href = item.dataset.url;
    close();
  }
});
found.addEventListener("mousedown", (event) => {
  const item = event.target.closest("[role=option]");
  if (item) location.href = item.dataset.url;
});
field.addEventListener("blur", close);
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
for (const area of all(".code, .scroll")) {
  if (area.scrollWidth <= area.clientWidth) continue;
  Object.assign(area, { tabIndex: 0, role: "region", ariaLabel: "scrolls sideways" });
}
for (const whole of all(".whole")) { // a click on its number gives the address of a line
  whole.addEventListener("click", ({ target, offsetX }) => {
    if (target.id && offsetX < 36) location.hash = target.id;
  });
}
const side = one("#side");
side.scrollTop = (one("[aria-current]", side)?.offsetTop ?? 0) - 120;
side.addEventListener("click", (event) => {
  if (event.target.closest("a") && side.matches(":popover-open")) side.hidePopover();
});
let shut = [];
addEventListener("beforeprint", () => {
  shut = all("details:not([open])");
  shut.forEach((details) => (details.open = true));
});
addEventListener("afterprint", () => shut.forEach((details) => (details.open = false)));
