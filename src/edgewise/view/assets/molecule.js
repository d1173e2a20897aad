// Molecules: RDKit's drawing, atoms and bonds colored, and the SMILES below it, character for character.

const HALO = 0.36; // of the length of a bond
const SIZE = 1.6; // of the molecule on the page to that which RDKit drew
const BLACK = "#000000";

/** Every molecule of the row beside the others, each above its SMILES. */
function moleculeView(view) {
  const parts = view.drawing.molecules.map((molecule) => oneMolecule(view, molecule));
  const box = element(
    "div",
    { class: "molecules", role: "group", "aria-label": "The molecules. Arrow keys go from atom to atom, Enter holds one, Escape lets go." },
    ...parts.map((part) => part.node),
  );
  const hits = [];
  for (const part of parts) for (const [unit, hit] of part.hits) hits[unit] = hit;
  const first = hits.findIndex(Boolean);
  if (first >= 0) hits[first].setAttribute("tabindex", 0);
  listenToUnits(view, box, hits);
  const draw = () => parts.forEach((part) => part.draw());
  view.listen(["attribution", "hover", "pinned", "group", "layer", "head", "direction", "threshold", "lines", "theme"], draw);
  draw();
  return { node: box, picture: () => besideEachOther(parts.map((part) => part.picture())) };
}

function oneMolecule(view, molecule) {
  const { width, height } = molecule;
  const svg = shapeElement("svg", { viewBox: `0 0 ${width} ${height}`, width: SIZE * width, height: SIZE * height, class: "molecule", "data-source": molecule.source });
  const [halos, lines, skeleton, hitGroup] = Array.from({ length: 4 }, () => svg.appendChild(shapeElement("g")));
  const hits = new Map(molecule.atoms.map((atom) => [atom.unit, atomHit(view, hitGroup, atom, reachOf(molecule))]));
  const characters = smilesView(view, molecule);
  const draw = () => {
    halos.replaceChildren(...haloShapes(view, molecule).map(svgShape));
    lines.replaceChildren(...bondShapes(view, molecule).map(svgShape));
    skeleton.replaceChildren(...skeletonShapes(molecule).map(svgShape));
    characters.draw();
  };
  const shapes = () => [...haloShapes(view, molecule), ...bondShapes(view, molecule), ...skeletonShapes(molecule)];
  const several = Object.keys(view.explanation.sources).length > 1;
  const heading = several ? element("h4", {}, molecule.source) : null;
  const node = element("div", { class: "one" }, heading, svg, characters.node);
  return { node, hits, draw, picture: () => ({ width, height, shapes: shapes() }) };
}

function reachOf(molecule) {
  return HALO * molecule.bond_length;
}

/** What the pointer and the keys find of an atom. */
function atomHit(view, group, atom, reach) {
  const hit = svgShape({ kind: "circle", cx: atom.x, cy: atom.y, r: 1.25 * reach, fill: "transparent", mark: { unit: atom.unit } });
  hit.setAttribute("class", "atom");
  hit.setAttribute("role", "img");
  hit.setAttribute("tabindex", -1);
  hit.setAttribute("aria-label", nameOf(view.explanation, atom.unit));
  return group.appendChild(hit);
}

function haloShapes(view, molecule) {
  const attribution = view.explanation.attributions[view.chosen.attribution];
  const most = attribution ? largest(attribution.values) : 0;
  const reach = reachOf(molecule);
  const group = new Set(view.chosen.group);
  const marks = marksOf(view);
  const shapes = attribution ? bandShapes(molecule, attribution, most, reach) : [];
  for (const { unit, x, y } of molecule.atoms) {
    const value = attribution ? attribution.values[unit] : null;
    const fill = attribution ? colorOf(value, most, attribution.is_signed) : "none";
    const name = `${nameOf(view.explanation, unit)}: ${shown(value)}`;
    shapes.push({ kind: "circle", cx: x, cy: y, r: reach, fill, title: name, mark: { unit, value: value ?? "" } });
    if (marks.has(unit)) shapes.push(ring(x, y, reach, "line", 1 + 3 * marks.get(unit).share));
    if (group.has(unit)) shapes.push({ ...ring(x, y, reach + 2, "ink", 1.6), dash: [3, 3] });
    if (currentUnit(view) === unit) shapes.push(ring(x, y, reach + 2, "ink", 2));
  }
  return shapes;
}

/** Each half of a bond in the color of its atom, from the halo to the middle: see-through colors must not overlap. */
function bandShapes({ atoms, bonds }, { values, is_signed: isSigned }, most, reach) {
  const places = new Map(atoms.map((atom) => [atom.unit, atom]));
  const half = (from, to) => {
    const [x, y] = [(to.x - from.x) / 2, (to.y - from.y) / 2];
    const length = Math.hypot(x, y) || 1;
    const [start, wide] = [(0.98 * reach) / length, (0.45 * reach) / length];
    const corners = [[start, wide], [1, wide], [1, -wide], [start, -wide]].map(([along, across]) => `${tidy(from.x + along * x - across * y)} ${tidy(from.y + along * y + across * x)}`);
    return { kind: "path", d: `M${corners.join("L")}Z`, fill: colorOf(values[from.unit], most, isSigned) };
  };
  return bonds.map(([a, b]) => [places.get(a), places.get(b)]).flatMap(([a, b]) => [half(a, b), half(b, a)]);
}

function ring(cx, cy, r, color, thick) {
  return { kind: "circle", cx, cy, r, fill: "none", stroke: themed(color), thick };
}

/** Lines for where atoms attend: along a bond where there is one, else a bow. */
function bondShapes(view, molecule) {
  const places = new Map(molecule.atoms.map((atom) => [atom.unit, atom]));
  const color = themed("line");
  return linesOf(view)
    .filter(({ from, to }) => from !== to && places.has(from) && places.has(to))
    .reverse() // the strongest on top
    .map((line) => ({
      kind: "path",
      d: bow(places.get(line.from), places.get(line.to), isBond(molecule, line)),
      stroke: line.isEffect ? colorOf(line.value, Math.abs(line.value) / line.share, true, 0.9) : color,
      thick: 1.5 + 7 * line.share,
      opacity: line.isEffect ? 1 : 0.15 + 0.5 * line.share,
      mark: { from: line.from, to: line.to, value: line.value },
      title: `${nameOf(view.explanation, line.from)} → ${nameOf(view.explanation, line.to)}: ${shown(line.value)}`,
    }));
}

function isBond(molecule, { from, to }) {
  return molecule.bonds.some(([a, b]) => (a === from && b === to) || (a === to && b === from));
}

function bow(a, b, isStraight) {
  const bend = isStraight ? 0 : 0.18;
  const [x, y] = [(a.x + b.x) / 2 - bend * (b.y - a.y), (a.y + b.y) / 2 + bend * (b.x - a.x)];
  return `M${tidy(a.x)} ${tidy(a.y)}Q${tidy(x)} ${tidy(y)} ${tidy(b.x)} ${tidy(b.y)}`;
}

/** RDKit's own paths; its black is our ink. */
function skeletonShapes(molecule) {
  const ink = themed("ink");
  const color = (given) => (given?.toLowerCase() === BLACK ? ink : given);
  return molecule.paths.map(({ d, fill, stroke, thick }) => ({ kind: "path", d, fill: color(fill) ?? "none", stroke: color(stroke), thick }));
}

/** The SMILES; the characters of an atom are linked with it. */
function smilesView(view, molecule) {
  const text = Array.from(view.explanation.sources[molecule.source]);
  const spans = new Map();
  const node = element("code", { class: "smiles", "data-source": molecule.source });
  let at = 0;
  const inOrder = molecule.atoms.map(({ unit }) => unit).sort((a, b) => view.explanation.units[a].start - view.explanation.units[b].start);
  for (const unit of inOrder) {
    const { start, stop } = view.explanation.units[unit];
    if (start < at) continue;
    const span = element("span", { class: "character", "data-unit": unit }, text.slice(start, stop).join(""));
    spans.set(unit, span);
    node.append(element("span", { class: "between" }, text.slice(at, start).join("")), span);
    at = stop;
  }
  node.append(element("span", { class: "between" }, text.slice(at).join("")));
  const draw = () => {
    const attribution = view.explanation.attributions[view.chosen.attribution];
    const most = attribution ? largest(attribution.values) : 0;
    const group = new Set(view.chosen.group);
    for (const [unit, span] of spans) {
      span.style.backgroundColor = attribution ? colorOf(attribution.values[unit], most, attribution.is_signed) : "";
      span.classList.toggle("current", currentUnit(view) === unit);
      span.classList.toggle("grouped", group.has(unit));
    }
  };
  return { node, draw };
}

/** Pictures in one row. */
function besideEachOther(pictures) {
  const shapes = [];
  let x = 0;
  for (const picture of pictures) {
    shapes.push(...picture.shapes.map((shape) => moved(shape, x)));
    x += picture.width;
  }
  return { width: Math.max(1, x), height: Math.max(1, ...pictures.map((picture) => picture.height)), shapes };
}

/** A shape some way to the right. RDKit writes paths in absolute coordinates, as we do. */
function moved(shape, by) {
  if (!by) return shape;
  const shift = (name) => (shape[name] === undefined ? {} : { [name]: shape[name] + by });
  const d = shape.d?.replace(/(-?[\d.]+(?:e-?\d+)?)([ ,]+)(-?[\d.]+(?:e-?\d+)?)/g, (_, x, gap, y) => `${tidy(Number(x) + by)} ${y}`);
  return { ...shape, ...shift("x"), ...shift("cx"), ...shift("x1"), ...shift("x2"), ...(d ? { d } : {}) };
}
