// Graphs: the node that is explained in the middle, its hops in rings around it; groups first, nodes when near.

const GRAPH_HEIGHT = 560;
const LEAST_HEIGHT = 320;
const MOST_EDGES = 4000; // pale ones, in sight
const NODE = 5;
const ROOM_FOR_NAMES = 46;
const ROOM_FOR_NODES = 12; // dots from one node to the next from which nodes are drawn instead of groups

/** A graph on a canvas: wheel and drag, + and −, arrow keys. */
function graphView(view) {
  const canvas = element("canvas", {
    class: "graph",
    tabindex: 0,
    role: "application",
    "aria-label": "The graph. Arrow keys go from node to node, plus and minus zoom, 0 shows all of it, Enter holds a node, Escape lets go.",
  });
  const scene = makeScene(view);
  let scheduled = false;
  const draw = () => {
    if (scheduled) return;
    scheduled = true;
    requestAnimationFrame(() => {
      scheduled = false;
      scene.width = canvas.clientWidth || 800;
      scene.height = Math.max(LEAST_HEIGHT, Math.min(GRAPH_HEIGHT, scene.width)); // on a phone, no room above and below
      canvas.style.height = `${scene.height}px`;
      paintPicture(canvas, graphPicture(view, scene));
      canvas.dataset.detail = showsGroups(scene) ? "groups" : "nodes";
      canvas.dataset.zoom = scene.zoom.toFixed(3);
    });
  };
  listenToGraph(view, scene, canvas, draw);
  view.listen(["attribution", "hover", "pinned", "group", "layer", "head", "direction", "threshold", "lines", "theme"], draw);
  new ResizeObserver(draw).observe(canvas);
  const zoom = (factor, label, sign) =>
    element("button", { type: "button", class: "quiet", "aria-label": label, click: () => (factor ? zoomBy(scene, factor) : showAll(scene), draw()) }, sign);
  const tools = element("div", { class: "zoom" }, zoom(1.5, "zoom in", "+"), zoom(1 / 1.5, "zoom out", "−"), zoom(0, "show all", "⤢"));
  return { node: element("div", { class: "graph-box" }, canvas, tools), picture: () => graphPicture(view, scene), scene };
}

/** What is drawn and from where: places are −1 … 1, `zoom` scales them, `x`, `y` is what stands in the middle. */
function makeScene(view) {
  const { places, groups, hops } = view.drawing.graph;
  const numGroups = groups.length ? Math.max(...groups) + 1 : 0;
  const members = Array.from({ length: numGroups }, () => []);
  groups.forEach((group, unit) => members[group].push(unit));
  const middle = (axis) => members.map((units) => units.reduce((sum, unit) => sum + places[unit][axis], 0) / units.length);
  const [xs, ys] = [middle(0), middle(1)];
  const spacing = 2 / Math.sqrt(Math.max(1, places.length));
  return { places, groups, hops, members, centers: xs.map((x, g) => [x, ys[g]]), spacing, x: 0, y: 0, zoom: 1, width: 800, height: GRAPH_HEIGHT };
}

function scaleOf(scene) {
  return scene.zoom * (Math.min(scene.width, scene.height) / 2 - 34);
}

function showsGroups(scene) {
  return scene.members.length > 0 && scene.spacing * scaleOf(scene) < ROOM_FOR_NODES;
}

function onScreen(scene, [x, y]) {
  const scale = scaleOf(scene);
  return { x: scene.width / 2 + (x - scene.x) * scale, y: scene.height / 2 + (y - scene.y) * scale };
}

function fromScreen(scene, x, y) {
  const scale = scaleOf(scene);
  return [scene.x + (x - scene.width / 2) / scale, scene.y + (y - scene.height / 2) / scale];
}

function zoomBy(scene, factor, at = [scene.width / 2, scene.height / 2]) {
  const before = fromScreen(scene, ...at);
  scene.zoom = Math.min(400, Math.max(0.5, scene.zoom * factor));
  const after = fromScreen(scene, ...at);
  scene.x += before[0] - after[0];
  scene.y += before[1] - after[1];
}

function showAll(scene) {
  Object.assign(scene, { x: 0, y: 0, zoom: 1 });
}

/** Goes so near to a node that it and those beside it are drawn. */
function goTo(scene, place) {
  [scene.x, scene.y] = place;
  const near = (2.5 * ROOM_FOR_NODES) / (scene.spacing * (scaleOf(scene) / scene.zoom));
  scene.zoom = Math.max(scene.zoom, scene.members.length ? near : 1);
}

function inSight(scene, { x, y }, margin = 40) {
  return x > -margin && y > -margin && x < scene.width + margin && y < scene.height + margin;
}

function graphPicture(view, scene) {
  const shapes = showsGroups(scene) ? groupShapes(view, scene) : nodeShapes(view, scene);
  return { width: scene.width, height: scene.height, shapes };
}

/** Groups as disks as large as their number of nodes, in the color of their strongest node; their ties as lines. */
function groupShapes(view, scene) {
  const attribution = view.explanation.attributions[view.chosen.attribution];
  const values = scene.members.map((units) => strongestOf(attribution, units));
  const most = largest(values);
  const pale = themed("pale");
  const shapes = groupTies(view, scene).map(({ a, b, share }) => ({
    kind: "line",
    ...ends(onScreen(scene, scene.centers[a]), onScreen(scene, scene.centers[b])),
    stroke: themed("line"),
    thick: 0.6 + 3 * share,
    opacity: 0.1 + 0.6 * share,
  }));
  const unit = currentUnit(view);
  scene.members.forEach((units, group) => {
    const { x, y } = onScreen(scene, scene.centers[group]);
    const r = groupRadius(scene, group);
    const current = unit !== null && scene.groups[unit] === group;
    shapes.push({ kind: "circle", cx: x, cy: y, r, fill: themed("paper"), stroke: current ? themed("ink") : pale, thick: current ? 2.5 : 1.2 });
    const fill = attribution ? colorOf(values[group], most, attribution.is_signed, 1) : pale;
    shapes.push({ kind: "circle", cx: x, cy: y, r, fill, mark: { group, value: values[group] ?? "" }, title: `${units.length} nodes` });
    if (units.length > 1 && r > 8) shapes.push(label(x, y + 4, String(units.length), "middle", 11));
  });
  shapes.push(label(12, scene.height - 12, `${view.explanation.units.length} nodes in ${scene.members.length} groups by their distance, each in the color of its strongest; come nearer for single nodes`, "start", 12));
  return shapes;
}

function label(x, y, text, anchor, size) {
  return { kind: "text", x, y, text, anchor, size, fill: themed("ink") };
}

function ends(a, b) {
  return { x1: a.x, y1: a.y, x2: b.x, y2: b.y };
}

/** A mean over many would hide the few that matter. */
function strongestOf(attribution, units) {
  let found = null;
  for (const unit of units) {
    const value = attribution?.values[unit] ?? null;
    if (value !== null && (found === null || Math.abs(value) > Math.abs(found))) found = value;
  }
  return found;
}

function groupRadius(scene, group) {
  return Math.max(5, Math.min(20, 1.9 * Math.sqrt(scene.members[group].length))) * Math.sqrt(scene.zoom);
}

/** How much goes from group to group, all in all, in the chosen head (or as edges, without attention). */
function groupTies(view, scene) {
  const { layer, head, threshold, lines } = view.chosen;
  const key = `${layer} ${head} ${lines}`;
  if (scene.tiesKey !== key) {
    scene.tiesKey = key;
    scene.ties = tiesAfresh(view, scene);
  }
  return scene.ties.filter(({ share }) => share >= threshold).slice(0, 600);
}

function tiesAfresh(view, scene) {
  const layer = view.explanation.layers[view.chosen.layer];
  const numGroups = scene.members.length;
  const sums = new Map();
  const add = (from, to, value) => {
    const [a, b] = [scene.groups[from], scene.groups[to]].sort((x, y) => x - y);
    if (a !== b) sums.set(a * numGroups + b, (sums.get(a * numGroups + b) ?? 0) + value);
  };
  if (view.chosen.lines === "attention" && layer && !layer.is_readout) {
    const values = weightsOf(layer, view.chosen.head);
    layer.senders.forEach((from, edge) => add(from, layer.receivers[edge], values[edge] ?? 0));
  } else view.explanation.links.forEach(({ first, second, effect }) => add(first, second, view.chosen.lines === "effect" ? Math.abs(effect ?? 0) : 1));
  const most = largest(sums.values());
  const ties = [...sums].map(([code, value]) => ({ a: Math.floor(code / numGroups), b: code % numGroups, value, share: most ? value / most : 0 }));
  return ties.sort((x, y) => y.value - x.value);
}

/** Single nodes and edges, those in sight. */
function nodeShapes(view, scene) {
  const { explanation, chosen } = view;
  const attribution = explanation.attributions[chosen.attribution];
  const most = attribution ? largest(attribution.values) : 0;
  const at = scene.places.map((place) => onScreen(scene, place));
  const seen = at.map((place) => inSight(scene, place));
  const shapes = [...paleEdges(view, at, seen), ...weightedEdges(view, at, seen)];
  const room = scene.spacing * scaleOf(scene);
  const radius = Math.max(2.5, Math.min(11, room / 4));
  const group = new Set(chosen.group);
  const marks = marksOf(view);
  at.forEach(({ x, y }, unit) => {
    if (!seen[unit]) return;
    const value = attribution ? attribution.values[unit] : null;
    const isCenter = unit === explanation.center || unit === explanation.other_end;
    const current = unit === currentUnit(view);
    const r = isCenter ? 1.5 * radius : radius;
    shapes.push({ kind: "circle", cx: x, cy: y, r, fill: themed("paper"), stroke: themed(current || isCenter ? "ink" : "dim"), thick: current ? 3 : isCenter ? 2 : 1 });
    const fill = attribution ? colorOf(value, most, attribution.is_signed, 1) : themed("pale");
    shapes.push({ kind: "circle", cx: x, cy: y, r, fill, mark: { unit, value: value ?? "" }, title: `${nameOf(explanation, unit)}: ${shown(value)}` });
    if (marks.has(unit)) shapes.push(ring(x, y, r + 2, "line", 1 + 3 * marks.get(unit).share));
    if (group.has(unit)) shapes.push({ ...ring(x, y, r + 4, "ink", 1.5), dash: [3, 3] });
  });
  return [...shapes, ...nodeLabels(view, at, seen, radius, room)];
}

function nodeLabels(view, at, seen, radius, room) {
  const { explanation } = view;
  const named = new Set([explanation.center, explanation.other_end, currentUnit(view)].filter((unit) => unit !== null));
  const values = explanation.attributions[view.chosen.attribution]?.values ?? [];
  if (room > ROOM_FOR_NAMES) {
    const others = [...seen.keys()].filter((unit) => seen[unit]);
    others.sort((a, b) => Math.abs(values[b] ?? 0) - Math.abs(values[a] ?? 0)).forEach((unit) => named.add(unit));
  }
  const taken = [];
  const isFree = ({ x, y, text }) => {
    const [half, high] = [3.4 * text.length + 2, 14];
    if (taken.some((one) => Math.abs(one.x - x) < one.half + half && Math.abs(one.y - y) < high)) return false;
    return taken.push({ x, y, half });
  };
  return [...named]
    .map((unit) => label(at[unit].x, at[unit].y - 1.7 * radius - 3, clipped(nameOf(explanation, unit), 22), "middle", 12))
    .filter(isFree); // a name over another is no name; the more important was there first
}

function clipped(text, most) {
  const characters = Array.from(text);
  return characters.length > most ? `${characters.slice(0, most - 1).join("")}…` : text;
}

function paleEdges(view, at, seen) {
  const parts = [];
  for (const { first, second } of view.explanation.links) {
    if (!(seen[first] || seen[second]) || first === second) continue;
    parts.push(`M${tidy(at[first].x)} ${tidy(at[first].y)}L${tidy(at[second].x)} ${tidy(at[second].y)}`);
    if (parts.length >= MOST_EDGES) break;
  }
  const opacity = Math.min(1, 0.25 + 200 / parts.length);
  return parts.length ? [{ kind: "path", d: parts.join(""), stroke: themed("pale"), thick: 1, opacity: currentUnit(view) === null ? opacity : opacity / 2 }] : [];
}

function weightedEdges(view, at, seen) {
  const color = themed("line");
  const faint = currentUnit(view) === null ? 0.7 : 1;
  const lines = linesOf(view, 400).filter(({ from, to }) => from !== to && (seen[from] || seen[to]));
  const thin = Math.min(1, Math.max(0.3, 30 / lines.length));
  return lines
    .reverse()
    .map((line) => ({
      kind: "line",
      ...ends(at[line.from], at[line.to]),
      stroke: line.isEffect ? colorOf(line.value, Math.abs(line.value) / line.share, true, 1) : color,
      thick: 0.8 + 4 * thin * line.share,
      opacity: faint * (0.25 + 0.75 * line.share),
      mark: { from: line.from, to: line.to, value: line.value },
    }));
}

function unitNear(scene, x, y) {
  let [best, least] = [null, 15 * 15];
  scene.places.forEach((place, unit) => {
    const at = onScreen(scene, place);
    const far = (at.x - x) ** 2 + (at.y - y) ** 2;
    if (far < least) [best, least] = [unit, far];
  });
  return best;
}

function groupNear(scene, x, y) {
  const found = scene.centers.findIndex((center, group) => {
    const at = onScreen(scene, center);
    return Math.hypot(at.x - x, at.y - y) <= groupRadius(scene, group) + 2;
  });
  return found < 0 ? null : found;
}

function listenToGraph(view, scene, canvas, draw) {
  let drag = null;
  const at = (event) => [event.offsetX, event.offsetY];
  canvas.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && document.activeElement !== canvas) return; // the page scrolls on until the graph is chosen
    event.preventDefault();
    zoomBy(scene, Math.exp(-event.deltaY / 300), at(event));
    draw();
  }, { passive: false });
  canvas.addEventListener("pointerdown", (event) => {
    drag = { x: event.offsetX, y: event.offsetY, moved: 0 };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!drag) {
      const unit = showsGroups(scene) ? null : unitNear(scene, ...at(event));
      canvas.style.cursor = unit !== null || (showsGroups(scene) && groupNear(scene, ...at(event)) !== null) ? "pointer" : "grab";
      if (unit !== view.chosen.hover) view.choose({ hover: unit });
      return;
    }
    const [dx, dy] = [event.offsetX - drag.x, event.offsetY - drag.y];
    scene.x -= dx / scaleOf(scene);
    scene.y -= dy / scaleOf(scene);
    drag = { x: event.offsetX, y: event.offsetY, moved: drag.moved + Math.abs(dx) + Math.abs(dy) };
    draw();
  });
  canvas.addEventListener("pointerup", (event) => {
    if (drag && drag.moved < 4) pickAt(view, scene, ...at(event), draw);
    drag = null;
  });
  canvas.addEventListener("pointerleave", () => view.choose({ hover: null }));
  canvas.addEventListener("keydown", (event) => graphKey(view, scene, event, draw));
}

function pickAt(view, scene, x, y, draw) {
  if (showsGroups(scene)) {
    const group = groupNear(scene, x, y);
    if (group !== null) goTo(scene, scene.centers[group]);
  } else {
    const unit = unitNear(scene, x, y);
    view.choose({ pinned: unit === view.chosen.pinned ? null : unit });
  }
  draw();
}

const ZOOMS = { "+": 1.5, "=": 1.5, "-": 1 / 1.5 };

function graphKey(view, scene, event, draw) {
  const number = view.explanation.units.length;
  if (event.key in ZOOMS) zoomBy(scene, ZOOMS[event.key]);
  else if (event.key === "0") showAll(scene);
  else if (event.key === "Escape") view.choose({ pinned: null, hover: null });
  else if (event.key === "Enter" && view.chosen.hover !== null) view.choose({ pinned: view.chosen.hover });
  else if (event.key in STEPS) {
    const now = currentUnit(view);
    const next = now === null ? (view.explanation.center ?? 0) : (now + STEPS[event.key] + number) % number;
    view.choose({ hover: null, pinned: next });
    if (!inSight(scene, onScreen(scene, scene.places[next]), -20) || showsGroups(scene)) goTo(scene, scene.places[next]);
  } else return;
  event.preventDefault();
  draw();
}
