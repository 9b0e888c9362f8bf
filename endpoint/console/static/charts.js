// Charts of uPlot's in the colours of the page: lines, bars, and the chart of a result.

import { isTime, numeric } from "./terms.js";

const HEIGHT = 250;
const SERIES_MAX = 8;
const TIME_SPACE = 90; // pixels from a time below the axis to the next: `07:59:30` and air, or a date
const POINTS_SHOWN = 60; // with more points their dots hide the line

let library = null;

export async function uPlot() {
  library ??= import("./libraries/uplot.js");
  return (await library).default;
}

export const colour = (place) => style(`--series-${(place % SERIES_MAX) + 1}`);

const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// A chart in `box`. `series` is [{ label, values }], all as long as `x`; `kind` is "line" or "bar".
export class Chart {
  #box;
  #plot = null;
  #shape = "";

  constructor(box) {
    this.#box = box;
    new ResizeObserver(() => {
      if (this.#plot && box.clientWidth) this.#plot.setSize({ width: box.clientWidth, height: HEIGHT });
    }).observe(box);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.#plot?.redraw());
  }

  // Where the labels of the data did not change, only the data are drawn anew.
  async show({ x, series, kind = "line", time = false, names = null, title, threshold = null }) {
    const Plot = await uPlot();
    const data = [x, ...series.map((each) => each.values)];
    const shape = JSON.stringify([series.map((each) => each.label), kind, time, names, threshold]);
    this.#box.setAttribute("role", "img");
    this.#box.setAttribute("aria-label", title);
    if (this.#plot && shape === this.#shape) {
      this.#plot.setData(data);
      return;
    }
    this.#shape = shape;
    this.#plot?.destroy();
    this.#plot = new Plot(this.#options(Plot, { x, series, kind, time, names, threshold }), data, this.#box);
  }

  clear() {
    this.#plot?.destroy();
    this.#plot = null;
    this.#shape = "";
  }

  #options(Plot, { x, series, kind, time, names, threshold }) {
    const bars = Plot.paths.bars({ size: [0.7, 60] });
    const axis = { stroke: () => style("--muted"), grid: { stroke: () => style("--line"), width: 1 }, ticks: { show: false } };
    return {
      width: this.#box.clientWidth || 600,
      height: HEIGHT,
      scales: {
        x: { time, range: names ? [-0.6, x.length - 0.4] : (_, from, to) => (from === to ? [from - 30, to + 30] : [from, to]) },
        y: kind === "bar" ? { range: (_, low, high) => [Math.min(0, low * 1.1), Math.max(0, high * 1.1) || 1] } : {},
      },
      cursor: { points: { size: 7 } },
      tzDate: (seconds) => Plot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
      legend: { live: series.length <= SERIES_MAX },
      series: [
        { label: names ? "for" : time ? "time" : "at", value: (_, at) => (names ? names[at] ?? "" : time ? clock(at) : plain(at)) },
        ...series.map(({ label }, place) => ({
          label,
          stroke: () => colour(place),
          width: 2,
          spanGaps: true,
          value: (_, found) => plain(found),
          points: { show: (plot) => kind === "line" && plot.data[0].length <= POINTS_SHOWN, size: 5 },
          ...(kind === "bar" && { paths: bars, fill: () => colour(place) }),
        })),
      ],
      axes: [
        { ...axis, ...(names ? namedAxis(x, names) : time && timeAxis()) },
        { ...axis, size: 60, values: (_, marks) => marks.map(compact) },
      ],
      hooks: {
        draw: [...(threshold === null ? [] : [(plot) => line(plot, threshold)]), ...(kind === "line" ? [showLatest] : [])],
        setCursor: kind === "line" ? [showLatest] : [],
      },
    };
  }
}

// The legend has the latest values, unless somebody points at others.
function showLatest(plot) {
  if (!(plot.cursor.left >= 0)) plot.setLegend({ idx: plot.data[0].length - 1 }, false);
}

// At most so many names fit below an axis.
function namedAxis(x, names) {
  const every = Math.ceil(x.length / 12);
  return { values: (_, marks) => marks.map((mark) => brief(names[mark])), splits: () => x.filter((at) => at % every === 0) };
}

// In UTC, as all times on the pages.
function timeAxis() {
  return { space: TIME_SPACE, values: (_, marks, __, ___, step) => marks.map((mark) => timeMark(mark, step)) };
}

function timeMark(seconds, step) {
  const text = new Date(seconds * 1000).toISOString();
  return step >= 86_400 ? text.slice(0, 10) : text.slice(11, step < 60 ? 19 : 16);
}

function line(plot, threshold) {
  const y = plot.valToPos(threshold, "y", true);
  const { left, width } = plot.bbox;
  plot.ctx.save();
  plot.ctx.strokeStyle = style("--bad");
  plot.ctx.setLineDash([6, 4]);
  plot.ctx.beginPath();
  plot.ctx.moveTo(left, y);
  plot.ctx.lineTo(left + width, y);
  plot.ctx.stroke();
  plot.ctx.restore();
}

const compact = (value) => new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 2 }).format(value);
export const plain = (value) => (value == null ? "–" : new Intl.NumberFormat("en", { maximumFractionDigits: 4 }).format(value));
const clock = (seconds) => (seconds == null ? "–" : new Date(seconds * 1000).toISOString().slice(0, 23).replace("T", " "));
const brief = (text) => (text && text.length > 14 ? `${text.slice(0, 13)}…` : (text ?? ""));

// ---- the chart of a result: one of its columns along the other

export function chartOf(box, result) {
  const numbers = result.variables.map((_, place) => result.column(place).some((cell) => cell.kind === "number"));
  if (!numbers.includes(true) || !result.rows.length) return null;
  const fields = document.createElement("p");
  fields.className = "actions";
  const place = document.createElement("div");
  place.className = "plot";
  box.append(fields, place);
  const along = choice("along", [["", "row"], ...result.variables.map((name, at) => [at, `?${name}`])]);
  const of = choice("of", numbers.flatMap((is, at) => (is ? [[at, `?${result.variables[at]}`]] : [])));
  const kind = choice("as", [["bar", "bars"], ["line", "lines"]]);
  const named = result.variables.findIndex((_, at) => !numbers[at]);
  if (named >= 0) along.field.value = String(named);
  if (named >= 0 && isTime(result.rows[0].cells[named])) kind.field.value = "line";
  fields.append(of.label, along.label, kind.label);
  const chart = new Chart(place);

  function show() {
    const rows = result.rows.filter(({ row, cells }) => !row.hidden && Number.isFinite(numeric(cells[of.field.value])));
    const label = `?${result.variables[of.field.value]}`;
    const at = along.field.value;
    const xs = rows.map(({ cells }, row) => (at === "" ? row + 1 : numeric(cells[at])));
    const timed = at !== "" && rows.length > 0 && isTime(rows[0].cells[at]);
    const found = rows.map(({ cells }, row) => [xs[row] / (timed ? 1000 : 1), numeric(cells[of.field.value])]);
    if (xs.every(Number.isFinite)) {
      found.sort(([a], [b]) => a - b);
      draw(found.map(([x]) => x), found.map(([, y]) => y), null, timed);
    } else {
      draw(xs.map((_, row) => row), found.map(([, y]) => y), rows.map(({ cells }) => cells[at].text), false);
    }

    function draw(x, values, names, time) {
      const title = `Chart of ${label} of ${x.length} rows`;
      chart.show({ x, series: [{ label, values }], kind: kind.field.value, time, names, title });
    }
  }

  for (const { field } of [along, of, kind]) field.addEventListener("change", show);
  return { show };
}

export function choice(name, options) {
  const label = document.createElement("label");
  label.className = "inline";
  const field = document.createElement("select");
  for (const [value, text] of options) field.add(new Option(text, value));
  label.append(`${name} `, field);
  return { label, field };
}
