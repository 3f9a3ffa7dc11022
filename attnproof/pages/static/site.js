// Search, the ledger's filters, the map's conditions and buttons that copy. Every page can be read without it.
"use strict";

const root = document.body.dataset.root;
const words = JSON.parse(document.getElementById("words").textContent);
const MOST_RESULTS = 30;

/** How well an item fits: 0 where a word isn't in it, more where words are in its name or begin it. */
function fit(item, asked) {
  const name = item.name.toLowerCase();
  const text = `${name} ${item.text.toLowerCase()}`;
  let score = item.kind === "system" ? 3 : item.kind === "symbol" ? 1 : 0;
  for (const word of asked) {
    if (!text.includes(word)) return 0;
    score += name === word ? 16 : name.startsWith(word) ? 8 : name.includes(word) ? 4 : 1;
  }
  return score;
}

function wordsOf(text) {
  return text.toLowerCase().split(/\s+/).filter(Boolean);
}

function element(tag, text, attributes = {}) {
  const made = document.createElement(tag);
  made.textContent = text;
  Object.entries(attributes).forEach(([name, value]) => made.setAttribute(name, value));
  return made;
}

function resultOf(item) {
  const link = element("a", item.name, { href: root + item.address });
  link.append(element("small", `${words.kinds[item.kind]}: ${item.text}`));
  const entry = document.createElement("li");
  entry.append(link);
  return entry;
}

function startSearch() {
  const form = document.querySelector("form.search");
  const input = form.querySelector("input");
  const results = document.getElementById("search-results");
  const status = document.getElementById("search-status");
  form.hidden = false;
  const show = () => {
    const asked = wordsOf(input.value);
    const scored = asked.length ? window.ATTNPROOF_INDEX.map((item) => [fit(item, asked), item]) : [];
    const found = scored.filter(([score]) => score > 0).sort((one, other) => other[0] - one[0]);
    results.replaceChildren(...found.slice(0, MOST_RESULTS).map(([, item]) => resultOf(item)));
    if (asked.length && !found.length) results.replaceChildren(element("li", status.dataset.none));
    results.hidden = !asked.length;
    status.textContent = asked.length ? (found.length ? `${found.length} ${status.dataset.some}` : status.dataset.none) : "";
  };
  input.addEventListener("input", show);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    results.querySelector("a")?.click();
  });
  form.addEventListener("keydown", (event) => {
    if (event.key === "Escape") results.hidden = true;
  });
  document.addEventListener("click", (event) => {
    if (!form.contains(event.target)) results.hidden = true;
  });
}

function startFilters() {
  const form = document.querySelector("form.filters");
  if (!form) return;
  form.hidden = false;
  const fields = form.elements;
  const given = new URLSearchParams(location.search);
  for (const name of ["verdict", "document", "words"]) fields[name].value = given.get(name) ?? "";
  const filter = () => {
    const asked = wordsOf(fields.words.value);
    let shown = 0;
    for (const part of document.querySelectorAll("section.document")) {
      const here = !fields.document.value || part.dataset.document === fields.document.value;
      let own = 0;
      for (const claim of part.querySelectorAll(".claim")) {
        const verdict = !fields.verdict.value || claim.dataset.verdict === fields.verdict.value;
        const text = asked.length ? claim.textContent.toLowerCase() : "";
        claim.hidden = !(here && verdict && asked.every((word) => text.includes(word)));
        own += claim.hidden ? 0 : 1;
      }
      part.hidden = own === 0;
      shown += own;
    }
    document.getElementById("shown-claims").textContent = shown;
  };
  form.addEventListener("input", filter);
  form.addEventListener("submit", (event) => event.preventDefault());
  filter();
  if (location.hash) document.getElementById(decodeURIComponent(location.hash.slice(1)))?.scrollIntoView();
}

function startMap() {
  const map = document.querySelector(".map");
  if (!map) return;
  const lines = [...map.querySelectorAll(".line")];
  const conditions = [...map.querySelectorAll(".condition")];
  const said = document.getElementById("condition");
  const choose = (chosen) => {
    lines.forEach((line, number) => {
      line.classList.toggle("chosen", chosen.includes(line));
      conditions[number].classList.toggle("chosen", chosen.includes(line));
    });
    const ends = new Set(chosen.flatMap((line) => [line.dataset.general, line.dataset.special]));
    map.querySelectorAll(".node").forEach((node) => node.classList.toggle("near", ends.has(node.dataset.name)));
    said.textContent = chosen.map((line) => line.getAttribute("aria-label")).join(". ");
  };
  for (const line of lines) {
    for (const event of ["pointerenter", "focus", "click"]) line.addEventListener(event, () => choose([line]));
  }
  for (const node of map.querySelectorAll(".node")) {
    const own = lines.filter((line) => [line.dataset.general, line.dataset.special].includes(node.dataset.name));
    for (const event of ["pointerenter", "focus"]) node.addEventListener(event, () => choose(own));
  }
}

function startCopying() {
  if (!navigator.clipboard) return;
  for (const block of document.querySelectorAll("pre.copy")) {
    const button = element("button", words.copy, { type: "button", class: "copy-button" });
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(block.querySelector("code").textContent);
      button.textContent = words.copied;
    });
    block.append(button);
  }
}

/** An equation that is wider than the window can be reached and moved by the keyboard. */
function reachWideEquations() {
  for (const equation of document.querySelectorAll(".equation")) {
    if (equation.scrollWidth > equation.clientWidth) equation.tabIndex = 0;
    else equation.removeAttribute("tabindex");
  }
}

startSearch();
startFilters();
startMap();
startCopying();
reachWideEquations();
addEventListener("resize", reachWideEquations);
