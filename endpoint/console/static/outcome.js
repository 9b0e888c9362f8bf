// The result of a query: its table sorts, filters and can be copied; it is also a chart or a picture of a graph; and it
// is downloaded whole, in each format.

import { chartOf } from "./charts.js";
import { picture } from "./graph_picture.js";
import { numeric } from "./terms.js";

export function outcome(shown, { form, editor, libraries }) {
  const problem = shown.querySelector("[data-line]");
  if (problem) editor.select(Number(problem.dataset.line), Number(problem.dataset.column));
  const section = shown.querySelector("[data-result]");
  if (!section) return;
  const table = section.querySelector("table");
  if (table) {
    const result = new Result(table);
    tools(section, table, result);
    views(section, table, result, libraries);
  }
  downloads(section, form);
}

// The rows of a table as they are on the page. A cell has its text and, as its title, the whole term.
class Result {
  constructor(table) {
    this.body = table.tBodies[0];
    this.variables = [...table.tHead.rows[0].cells].slice(1).map((cell) => cell.textContent);
    this.rows = [...this.body.rows].map((row) => ({
      row,
      cells: [...row.cells].slice(1).map((cell) => {
        const term = cell.firstElementChild;
        return { kind: term.className.replace("term ", ""), text: term.textContent, full: term.title };
      }),
    }));
  }

  column(place) {
    return this.rows.map(({ cells }) => cells[place]);
  }
}

function tools(section, table, result) {
  const bar = section.querySelector("[data-tools]");
  bar.hidden = false;
  bar.querySelector("[data-filter]").addEventListener("input", (event) => {
    const words = event.target.value.toLowerCase().split(/\s+/).filter(Boolean);
    let left = 0;
    for (const { row, cells } of result.rows) {
      const text = cells.map((cell) => `${cell.text} ${cell.full}`).join(" ").toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
      left += !row.hidden;
    }
    bar.querySelector("[data-left]").textContent = words.length ? `${left} of ${result.rows.length} rows` : "";
  });
  bar.querySelector("[data-copy]").addEventListener("click", async () => {
    const visible = result.rows.filter(({ row }) => !row.hidden);
    const lines = [result.variables, ...visible.map(({ cells }) => cells.map((cell) => cell.full.replace(/[\t\n]/g, " ")))];
    const say = bar.querySelector("[data-left]");
    try {
      await navigator.clipboard.writeText(lines.map((line) => line.join("\t")).join("\n"));
      say.textContent = `${visible.length} rows are copied`;
    } catch {
      say.textContent = "the browser does not allow to copy here";
    }
  });
  [...table.tHead.rows[0].cells].slice(1).forEach((cell, place) => sortable(cell, place, table, result));
}

function sortable(head, place, table, result) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "sort";
  button.textContent = head.textContent;
  head.replaceChildren(button);
  button.addEventListener("click", () => {
    const down = head.getAttribute("aria-sort") === "ascending";
    for (const each of table.tHead.rows[0].cells) each.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    result.rows.sort((a, b) => compare(a.cells[place], b.cells[place]) * (down ? -1 : 1));
    result.body.append(...result.rows.map(({ row }) => row));
  });
}

function compare(a, b) {
  const [left, right] = [numeric(a), numeric(b)];
  if (Number.isFinite(left) && Number.isFinite(right)) return left - right;
  return a.text.localeCompare(b.text, undefined, { numeric: true });
}

// ---- table, chart, picture

function views(section, table, result, libraries) {
  const bar = section.querySelector("[data-views]");
  const boxes = { table: table.parentElement, chart: make("div", "view chart-view"), picture: make("div", "view") };
  boxes.table.after(boxes.chart, boxes.picture);
  for (const [name, box] of Object.entries({ Chart: boxes.chart, Picture: boxes.picture })) {
    box.hidden = true;
    box.tabIndex = 0; // it may be wider than the screen: the keyboard scrolls it
    box.setAttribute("role", "region");
    box.setAttribute("aria-label", name);
  }
  const offered = ["table"];
  const drawn = libraries && chartOf(boxes.chart, result);
  if (drawn) offered.push("chart");
  if (result.variables.length === 3 && result.rows.some(({ cells }) => cells[0].kind === "iri" || cells[0].kind === "blank")) {
    offered.push("picture");
  }
  if (offered.length === 1) return;
  bar.hidden = false;
  for (const button of bar.querySelectorAll("button")) {
    button.hidden = !offered.includes(button.dataset.view);
    button.addEventListener("click", () => show(button.dataset.view));
  }

  function show(view) {
    for (const [name, box] of Object.entries(boxes)) box.hidden = name !== view;
    for (const button of bar.querySelectorAll("button")) {
      button.setAttribute("aria-pressed", String(button.dataset.view === view));
    }
    if (view === "chart") drawn.show();
    if (view === "picture") picture(boxes.picture, result.rows.map(({ cells }) => cells));
  }

  show("table");
}

// ---- downloads

function downloads(section, form) {
  const bar = section.querySelector("[data-downloads]");
  if (!bar) return;
  bar.hidden = false;
  const choice = bar.querySelector("select");
  const say = bar.querySelector("[role=status]");
  bar.querySelector("button").addEventListener("click", async () => {
    const { url, text, snapshot, at } = bar.dataset;
    const body = new URLSearchParams({ query: text, ...(snapshot && { snapshot }), ...(at && { at }) });
    say.textContent = "getting all rows";
    try {
      const answer = await fetch(url, { method: "POST", body, headers: { accept: choice.value } });
      if (!answer.ok) throw new Error((await answer.text()).split("\n")[0]);
      save(await answer.blob(), `result.${choice.selectedOptions[0].dataset.suffix}`);
      say.textContent = "";
    } catch (error) {
      say.textContent = error.message;
    }
  });
}

function save(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

function make(tag, kind) {
  const made = document.createElement(tag);
  made.className = kind;
  return made;
}
