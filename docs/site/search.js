// Finds sections of the documentation, in the browser alone: the index is a file of the site, read when it is first needed.
"use strict";
(() => {
  const root = document.currentScript.dataset.root;
  const form = document.querySelector(".search");
  const input = document.getElementById("search");
  const list = document.getElementById("found");
  const MOST = 12;
  form.hidden = false;
  // On a narrow screen the list of pages would stand before every page.
  if (matchMedia("(max-width: 800px)").matches) document.querySelector(".menu").open = false;

  let loading = null;
  function load() {
    loading ??= new Promise((resolve) => {
      const script = document.createElement("script");
      script.src = `${root}search-index.js`;
      script.onload = () => resolve(window.searchIndex.map(prepared));
      document.head.append(script);
    });
    return loading;
  }

  function prepared([page, heading, address, text]) {
    return { page, heading, address, text, title: `${page} ${heading}`.toLowerCase(), body: text.toLowerCase() };
  }

  function terms(query) {
    return query.toLowerCase().split(/[^\p{L}\p{N}_.$-]+/u).filter(Boolean).slice(0, 8);
  }

  // Every word has to be there; words of titles weigh most, whole words more than parts, and later parts of a page less.
  function score(entry, words) {
    let sum = 0;
    for (const word of words) {
      const inTitle = entry.title.includes(word);
      const at = entry.body.indexOf(word);
      if (!inTitle && at < 0) return 0;
      const edge = new RegExp(`(?<![\\p{L}\\p{N}_])${word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")}(?![\\p{L}\\p{N}])`, "u");
      sum += inTitle ? (edge.test(entry.title) ? 14 : 7) : 0;
      if (at >= 0) sum += (edge.test(entry.body) ? 3 : 1) + Math.min(3, entry.body.split(word).length - 2);
    }
    return sum;
  }

  function excerpt(entry, words) {
    const at = Math.max(0, ...words.map((word) => entry.body.indexOf(word)).filter((place) => place >= 0).slice(0, 1));
    const begin = Math.max(0, at - 50);
    const shown = document.createElement("small");
    let rest = `${begin ? "…" : ""}${entry.text.slice(begin, begin + 150)}…`;
    for (let turn = 0; turn < 40 && rest; turn += 1) {
      const places = words.map((word) => [rest.toLowerCase().indexOf(word), word.length]).filter(([place]) => place >= 0);
      if (!places.length) break;
      const [place, length] = places.sort((a, b) => a[0] - b[0])[0];
      const marked = document.createElement("mark");
      marked.textContent = rest.slice(place, place + length);
      shown.append(rest.slice(0, place), marked);
      rest = rest.slice(place + length);
    }
    shown.append(rest);
    return shown;
  }

  function row(entry, words) {
    const link = document.createElement("a");
    const name = document.createElement("strong");
    name.textContent = entry.heading === entry.page ? entry.page : `${entry.page} › ${entry.heading}`;
    link.href = root + entry.address;
    link.append(name, excerpt(entry, words));
    const item = document.createElement("li");
    item.append(link);
    return item;
  }

  async function search() {
    const words = terms(input.value);
    if (!words.length) { list.hidden = true; return; }
    const entries = await load();
    if (terms(input.value).join() !== words.join()) return;
    const found = entries
      .map((entry) => [score(entry, words), entry])
      .filter(([points]) => points > 0)
      .sort((a, b) => b[0] - a[0])
      .slice(0, MOST);
    list.replaceChildren(...found.map(([, entry]) => row(entry, words)));
    if (!found.length) {
      const none = document.createElement("li");
      none.className = "nothing";
      none.textContent = "Nothing has all of these words.";
      list.append(none);
    }
    list.hidden = false;
  }

  function step(by) {
    const stops = [input, ...list.querySelectorAll("a")];
    const next = stops[stops.indexOf(document.activeElement) + by];
    if (next) next.focus();
  }

  input.addEventListener("focus", load, { once: true });
  input.addEventListener("input", search);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    list.querySelector("a")?.click();
  });
  form.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown") step(1);
    else if (event.key === "ArrowUp") step(-1);
    else if (event.key === "Escape") { list.hidden = true; input.blur(); }
    else return;
    event.preventDefault();
  });
  document.addEventListener("click", (event) => { if (!form.contains(event.target)) list.hidden = true; });
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && !/^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement.tagName)) {
      event.preventDefault();
      input.focus();
    }
  });
})();
