// What a reader does with the pages of make site, done by a script in a page beside them. Each check is a test of
// test_site.py, which says in `given` what there is to look at, and reads in #results what each found wrong.
"use strict";
let frame;
const one = (what) => frame.contentDocument.querySelector(what);
const all = (what) => [...frame.contentDocument.querySelectorAll(what)];
const text = (what) => one(what).textContent;
const view = () => frame.contentWindow;

function open(address, { width = 1400, scheme = "light", scripts = true } = {}) {
  frame?.remove();
  frame = Object.assign(document.createElement("iframe"), { width, height: 900, src: `site/${address}` });
  frame.style.colorScheme = scheme; // is what the pages take for that of the system
  if (!scripts) frame.sandbox = "allow-same-origin";
  return new Promise((loaded) => {
    frame.onload = loaded;
    document.body.append(frame);
  });
}

async function until(condition) {
  for (let frames = 0; frames < 300; frames++) {
    if (frame.contentDocument?.readyState === "complete" && condition()) return;
    await new Promise(requestAnimationFrame);
  }
  throw Error(`not true after 300 frames: ${condition}`);
}

function is(found, expected) {
  const [came, wanted] = [found, expected].map((value) => JSON.stringify(value));
  if (came !== wanted) throw Error(`found ${came}, expected ${wanted}`);
}

function press(key, where = frame.contentDocument.activeElement) {
  where.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
}

function type(words) {
  press("/");
  is(frame.contentDocument.activeElement.type, "search");
  one(".search input").value = words;
  one(".search input").dispatchEvent(new Event("input"));
}

function luminance(colour) {
  const parts = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16) / 255);
  const [red, green, blue] = parts.map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

function overlap(a, b) {
  return a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
}

const checks = {
  // Nor is any code with line numbers or any session wider than its block: long lines go on below.
  async no_page_is_wider_than_the_window_or_loads_from_elsewhere() {
    const wide = [];
    for (const page of given.pages) {
      await open(page);
      const loaded = view().performance.getEntriesByType("resource").map((each) => each.name);
      is(loaded.filter((address) => !address.startsWith("file:")), []);
      for (const width of [360, 800, 1200]) {
        frame.width = width;
        const cut = all(":is(.numbered, .whole, .session) .code").some((e) => e.scrollWidth > e.clientWidth);
        if (cut || frame.contentDocument.documentElement.scrollWidth > width) wide.push(`${page} at ${width}`);
      }
    }
    is(wide, []);
  },

  async tooltips_fit_a_phone() {
    await open(given.chapter, { width: 360 });
    const terms = all("a.term").filter((term) => !term.closest("details"));
    is(terms.length > 10, true);
    for (const term of terms) {
      term.focus({ focusVisible: true });
      const shown = view().getComputedStyle(term, "::after").content.length > 9;
      const fits = frame.contentDocument.documentElement.scrollWidth <= 360;
      is([term.textContent, shown, fits], [term.textContent, true, true]);
    }
  },

  async search_finds() {
    await open(given.chapter);
    is(all("script[src$='search.js']").length, 0); // it is large: not before it is wanted
    type("hm_lookup");
    await until(() => all("#found [role=option]").length > 1);
    const first = one("[aria-selected=true]");
    is(first.textContent.includes("hm_lookup"), true);
    press("ArrowDown");
    is(one("[aria-selected=true]") === first, false);
    press("ArrowUp");
    is(one("[aria-selected=true]") === first, true);
    one(".search").requestSubmit(); // what Enter does
    await until(() => view().location.pathname.includes("08-hashtables") && /^#step-/.test(view().location.hash));
    type("slowly nonsense xyzzy");
    await until(() => text("#found").includes("Nothing"));
    press("Escape");
    is([one("#found").hidden, frame.contentDocument.activeElement.tagName], [true, "BODY"]);
  },

  // On a level with its paragraph where there is a margin, else below it; and on no figure.
  async asides_are_in_the_margin() {
    await open(given.asides, { width: 1400 });
    const box = (element) => element.getBoundingClientRect();
    const places = (width) => {
      frame.width = width;
      const asides = all(".noted > aside").filter((aside) => !aside.closest("details"));
      is(asides.length > 7, true);
      is(all("main > figure").some((e) => asides.some((aside) => overlap(box(e), box(aside)))), false);
      return [...new Set(asides.map((aside) => {
        const [p, a] = [box(aside.previousElementSibling), box(aside)];
        return a.left > p.right && Math.abs(a.top - p.top) < 9 ? "beside" : a.top >= p.bottom ? "below" : "elsewhere";
      }))];
    };
    is([places(1400), places(1300)], [["beside"], ["below"]]);
  },

  async copy_copies() {
    for (const [page, listing, expected] of given.copies) {
      await open(page);
      let copied = "";
      Object.defineProperty(view().navigator, "clipboard", { value: { writeText: async (words) => (copied = words) } });
      one(`${listing} .copy`).click();
      await until(() => text(`${listing} .copy`) === "Copied");
      is(copied, expected);
    }
  },

  async progress_is_kept() {
    localStorage.clear();
    await open("index.html");
    is(one("#continue").hidden, true);
    await open("book/glossary.html");
    const { top, bottom } = one("#side [aria-current]").getBoundingClientRect();
    is(top > 0 && bottom < 900, true); // the side bar shows where this is
    await open(`${given.chapter}#half-an-answer`);
    await until(() => localStorage.getItem("workbook:place")?.includes("half-an-answer"));
    is(text("#side .here"), "Half an answer");
    one(".done input").click();
    await open("index.html");
    is(text("#continue").includes("Half an answer"), true);
    is(all(".road .tick").map((chapter) => chapter.textContent.slice(0, 2)), ["06"]);
    one("#continue").click();
    await until(() => view().location.hash === "#half-an-answer");
    is(one(".done input").checked, true);
    one(".done input").click();
    is(all("#side .tick").length, 0);
  },

  // Text has a contrast of 4.5 at least with what is behind it (WCAG 2.2, 1.4.3), where the system is light or dark.
  async colours_follow_the_system_and_can_be_told_apart() {
    const texts = ["ink", "soft", "accent", "comment", "string", "word", "constant", "call"];
    const pairs = ["paper", "tint", "ins", "del", "wash"].flatMap((behind) => texts.map((text) => [text, behind]));
    pairs.push(["ink", "ins-mark"], ["ink", "del-mark"], ["word", "ins-mark"], ["comment", "ins-mark"]);
    for (const text of ["screen-ink", "screen-soft", "server", "client"]) {
      pairs.push([text, "screen"], [text, "screen-server"]);
    }
    for (const scheme of ["light", "dark"]) {
      await open(given.chapter, { scheme });
      const style = view().getComputedStyle(frame.contentDocument.documentElement);
      const light = (name) => luminance(style.getPropertyValue(`--${name}`));
      is([scheme, light("ink") < 0.2, light("paper") < 0.2], [scheme, scheme === "light", scheme === "dark"]);
      for (const [text, behind] of pairs) {
        const [bright, dim] = [light(text), light(behind)].sort((a, b) => b - a);
        const ratio = (bright + 0.05) / (dim + 0.05);
        if (!(ratio >= 4.5)) throw Error(`${scheme}: ${text} on ${behind} has a contrast of ${ratio.toFixed(2)}`);
      }
    }
  },

  async the_keyboard_reaches_the_text_and_the_contents() {
    await open(given.chapter, { width: 800 });
    is(one("a, button, input, summary").className, "skip"); // where Tab goes first
    one(".skip").click();
    await until(() => frame.contentDocument.activeElement.id === "main");
    one(".menu").click();
    is(one("#side").matches(":popover-open"), true);
    one("#side li li a").click();
    is(one("#side").matches(":popover-open"), false);
  },

  async all_but_search_works_without_scripts() {
    await open("exercises/index.html", { width: 800, scripts: false });
    const rows = () => all(".choice tbody tr").filter((row) => row.offsetParent).length;
    const every = rows();
    one("label:has(#k-mend)").click();
    const mend = rows();
    one("label:has(#c-08)").click();
    is(every > mend && mend > rows() && rows() > 0, true);
    one(".menu").click();
    is(one("#side").matches(":popover-open"), true);
    await open(given.chapter, { scripts: false });
    one(".answer summary").click();
    is([one(".answer").open, one(".search").hidden, one(".copy")], [true, true, null]);
  },

  // A chapter on paper: no side bar, all answers, nothing cut off, and dark on white.
  async paper() {
    await open(given.chapter, { width: 700, scheme: "dark" });
    for (const rule of frame.contentDocument.styleSheets[0].cssRules) {
      if (rule.media) rule.media.mediaText = rule.media.mediaText.replace("print", "all").replace("screen", "print");
    }
    is([".bar", "#side", "footer", ".copy", ".done"].filter((what) => one(what).getClientRects().length), []);
    is(view().getComputedStyle(one("body")).color, "rgb(36, 39, 43)");
    is(one(".answer .code").getBoundingClientRect().height > 20, true);
    is(all(".code").filter((code) => code.scrollWidth > code.clientWidth + 1).length, 0);
    view().dispatchEvent(new Event("beforeprint"));
    is(all("details:not([open])").length, 0);
    view().dispatchEvent(new Event("afterprint"));
    is(all("details[open]").length, 0);
  },
};

// Chromium prints this page when it is complete: not before the page in `held` is.
const held = document.body.appendChild(document.createElement("iframe"));
held.contentDocument.open();
(async () => {
  const results = {};
  for (const [name, check] of Object.entries(checks)) {
    results[name] = await check().then(() => "", (error) => `${error}\n${error.stack}`);
  }
  const textContent = JSON.stringify(results);
  document.body.append(Object.assign(document.createElement("pre"), { id: "results", textContent }));
  held.contentDocument.close();
})();
