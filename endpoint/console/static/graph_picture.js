// A picture of a graph: its triples as arrows between boxes, laid out by springs. It draws the first ones of many.

const NODES_MAX = 80;
const EDGES_MAX = 160;
const STEPS = 300;
const WIDTH = 900;
const HEIGHT = 560;
const SVG = "http://www.w3.org/2000/svg";

export function picture(box, rows) {
  box.replaceChildren();
  const { nodes, edges, cut } = graphOf(rows);
  layOut(nodes, edges);
  const svg = draw(box, "svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", class: "graph" });
  svg.setAttribute("aria-label", `A picture of ${edges.length} triples between ${nodes.length} nodes`);
  const marker = draw(draw(svg, "defs", {}), "marker", {
    id: "arrow", viewBox: "0 0 8 8", refX: 8, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto",
  });
  draw(marker, "path", { d: "M0 0L8 4L0 8z" });
  for (const { from, to, label } of edges) {
    const end = atEdge(from, to);
    draw(svg, "line", { x1: from.x, y1: from.y, x2: end.x, y2: end.y, "marker-end": "url(#arrow)" });
    text(svg, (from.x + to.x) / 2, (from.y + to.y) / 2 - 3, label, "predicate");
  }
  for (const node of nodes) {
    const group = draw(svg, "g", { class: node.kind });
    draw(group, "rect", { x: node.x - node.width / 2, y: node.y - 12, width: node.width, height: 24, rx: 7 });
    text(group, node.x, node.y + 4, node.label, "node");
    draw(group, "title", {}).textContent = node.full;
  }
  if (cut) {
    const hint = document.createElement("p");
    hint.className = "hint";
    hint.textContent = `The first ${edges.length} triples are drawn.`;
    box.append(hint);
  }
}

function graphOf(rows) {
  const nodes = new Map();
  const edges = [];
  const node = (cell) => {
    if (!nodes.has(cell.full)) {
      const label = cell.text.length > 24 ? `${cell.text.slice(0, 23)}…` : cell.text;
      nodes.set(cell.full, { kind: cell.kind, label, full: cell.full, width: 16 + 7.4 * label.length });
    }
    return nodes.get(cell.full);
  };
  for (const [subject, predicate, object] of rows) {
    if (edges.length >= EDGES_MAX || nodes.size > NODES_MAX - 2) break;
    edges.push({ from: node(subject), to: node(object), label: predicate.text });
  }
  return { nodes: [...nodes.values()], edges, cut: edges.length < rows.length };
}

// Nodes push each other away, edges pull; fewer and fewer steps from a circle, so the picture is always the same.
function layOut(nodes, edges) {
  nodes.forEach((node, place) => {
    const angle = (2 * Math.PI * place) / nodes.length;
    Object.assign(node, { x: WIDTH / 2 + 260 * Math.cos(angle), y: HEIGHT / 2 + 180 * Math.sin(angle) });
  });
  const ideal = Math.min(170, Math.sqrt((WIDTH * HEIGHT) / Math.max(1, nodes.length)));
  for (let step = 0; step < STEPS; step++) {
    const most = 24 * (1 - step / STEPS);
    for (const node of nodes) Object.assign(node, { dx: 0, dy: 0 });
    nodes.forEach((a, place) => {
      for (const b of nodes.slice(place + 1)) push(a, b, ideal);
    });
    for (const { from, to } of edges) pull(from, to, ideal);
    for (const node of nodes) {
      const length = Math.hypot(node.dx, node.dy) || 1;
      const by = Math.min(length, most) / length;
      node.x = clamp(node.x + node.dx * by, node.width / 2 + 4, WIDTH - node.width / 2 - 4);
      node.y = clamp(node.y + node.dy * by, 18, HEIGHT - 18);
    }
  }
}

function push(a, b, ideal) {
  const [x, y] = [a.x - b.x || 0.1, a.y - b.y || 0.1];
  const by = (ideal * ideal) / (x * x + y * y);
  Object.assign(a, { dx: a.dx + x * by, dy: a.dy + y * by });
  Object.assign(b, { dx: b.dx - x * by, dy: b.dy - y * by });
}

function pull(a, b, ideal) {
  const [x, y] = [a.x - b.x, a.y - b.y];
  const by = Math.hypot(x, y) / ideal;
  Object.assign(a, { dx: a.dx - x * by, dy: a.dy - y * by });
  Object.assign(b, { dx: b.dx + x * by, dy: b.dy + y * by });
}

const clamp = (value, low, high) => Math.max(low, Math.min(high, value));

// Where the line meets the box of the node that it leads to.
function atEdge(from, to) {
  const [x, y] = [from.x - to.x, from.y - to.y];
  const by = Math.min(Math.abs(x) ? (to.width / 2 + 2) / Math.abs(x) : Infinity, Math.abs(y) ? 14 / Math.abs(y) : Infinity, 1);
  return { x: to.x + x * by, y: to.y + y * by };
}

function text(parent, x, y, content, kind) {
  draw(parent, "text", { x, y, "text-anchor": "middle", class: kind }).textContent = content;
}

function draw(parent, name, attributes) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  parent.append(made);
  return made;
}
