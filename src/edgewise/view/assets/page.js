// The page: one explanation at a time, what the reader has chosen of it, and who draws it.

/** JSON out of a block of data in the page. */
function readData(id) {
  return JSON.parse(document.getElementById(id).textContent);
}

/** An explanation, what is chosen of it, and those who redraw when a choice changes. */
function makeView(number) {
  const explanation = readData(`explanation-${number}`);
  const listeners = [];
  const lastBetween = explanation.layers.findLastIndex((layer) => !layer.is_readout);
  const chosen = {
    attribution: 0,
    layer: Math.max(0, lastBetween),
    head: -1,
    direction: "in",
    lines: hasBaseline(explanation.attributions[0]) ? "none" : explanation.layers.length ? "attention" : explanation.links.some((link) => link.effect !== null) ? "effect" : "none",
    threshold: 0.1,
    hover: null,
    pinned: null,
    group: [],
    theme: document.documentElement.dataset.theme,
  };
  chosen.head = fittingHead(explanation, chosen);
  const view = { number, explanation, drawing: readData(`drawing-${number}`), chosen };
  view.listen = (names, react) => listeners.push({ names, react });
  view.choose = (changes) => {
    const changed = Object.keys(changes).filter((name) => changes[name] !== chosen[name]);
    Object.assign(chosen, changes);
    chosen.head = fittingHead(explanation, chosen);
    for (const { names, react } of listeners) if (names.some((name) => changed.includes(name))) react();
  };
  return view;
}

/** The chosen head where the layer has it; else the only one, or the mean of all. */
function fittingHead({ layers }, { layer, head }) {
  const number = layers[layer]?.values.length ?? 1;
  return number === 1 ? 0 : head < number ? head : -1;
}

/** A labeled list to choose from. */
function selector(view, name, label, options) {
  const select = element("select", { "data-choose": name, change: () => view.choose({ [name]: isNaN(select.value) ? select.value : Number(select.value) }) });
  const fill = () => {
    select.replaceChildren(...options().map(([value, words]) => element("option", { value }, words)));
    select.value = String(view.chosen[name]);
  };
  view.listen([name, "layer"], fill);
  fill();
  return element("label", {}, label, select);
}

/** What is colored and which lines are drawn. */
function controls(view) {
  const { layers, attributions, links } = view.explanation;
  const made = [];
  if (attributions.length) made.push(selector(view, "attribution", "color", () => attributions.map(({ name }, number) => [number, name])));
  const hasEffects = links.some((link) => link.effect !== null);
  const kinds = [...(layers.length ? [["attention", "attention"]] : []), ...(hasEffects ? [["effect", "effect of removal"]] : []), ["none", "none"]];
  if (kinds.length > 1) made.push(selector(view, "lines", "lines", () => kinds));
  if (layers.length) {
    made.push(selector(view, "layer", "layer", () => layers.map(({ name }, number) => [number, name])));
    const heads = () => (layers[view.chosen.layer].values.length > 1 ? [-1, ...layers[view.chosen.layer].values.keys()] : [0]);
    made.push(selector(view, "head", "head", () => heads().map((head) => [head, headName(head)])));
    made.push(directionSelector(view));
  }
  if (kinds.length > 1) made.push(thresholdSlider(view));
  return element("div", { class: "controls" }, ...made);
}

/** Which lines of the chosen one; a layer from one text across to another leaves no choice. */
function directionSelector(view) {
  const made = selector(view, "direction", "of the chosen one", () => [["in", "where it attends"], ["out", "who attends to it"]]);
  const mark = () => (made.querySelector("select").disabled = isAcross(view.explanation, view.explanation.layers[view.chosen.layer]));
  view.listen(["layer"], mark);
  mark();
  return made;
}

function thresholdSlider(view) {
  const output = element("output", {}, "");
  const slider = element("input", { type: "range", min: 0, max: 1, step: 0.01, value: view.chosen.threshold, "data-choose": "threshold", input: () => view.choose({ threshold: Number(slider.value) }) });
  const write = () => (output.textContent = `${Math.round(100 * view.chosen.threshold)} % of the strongest`);
  view.listen(["threshold"], write);
  write();
  return element("label", {}, "lines from", slider, output);
}

/** What the colors mean. */
function legendView(view) {
  const holder = element("div", { class: "legend" });
  const draw = () => {
    const attribution = view.explanation.attributions[view.chosen.attribution];
    if (!attribution) return;
    const most = largest(attribution.values);
    holder.replaceChildren(svgPicture(legendPicture(attribution, most, view.explanation.kind === "graph" ? 1 : DENSEST), `colors from ${shown(attribution.is_signed ? -most : 0)} to ${shown(most)}`), element("p", {}, attribution.about), sumWords(view.explanation, attribution));
  };
  view.listen(["attribution", "theme"], draw);
  draw();
  return holder;
}

/** Whether the values of a method sum to the prediction less a baseline. */
function hasBaseline(attribution) {
  return typeof attribution?.baseline === "number";
}

/** Where attributions sum to the prediction without a baseline, the sum in numbers. */
function sumWords({ explained }, attribution) {
  if (!hasBaseline(attribution)) return "";
  const { values, baseline } = attribution;
  const sum = values.reduce((total, value) => total + (value ?? 0), 0);
  const digits = digitsBeside(baseline + sum, Math.abs(sum));
  return element("p", { class: "sum", "data-value": sum }, `Their sum is ${shown(sum)}: the prediction of ${explained}, ${shown(baseline + sum, digits)}, less the baseline, ${shown(baseline, digits)}.`);
}

function legendPicture({ is_signed: isSigned }, most, densest) {
  const steps = 48;
  const [x, width] = [4, 240];
  const shapes = Array.from({ length: steps }, (_, k) => {
    const value = isSigned ? (2 * k) / (steps - 1) - 1 : k / (steps - 1);
    return { kind: "rect", x: x + (k * width) / steps, y: 2, width: width / steps, height: 10, fill: colorOf(value, 1, isSigned, densest) };
  });
  const [ink, dim] = [themed("ink"), themed("dim")];
  const write = (at, text, anchor, fill = dim, y = 26) => shapes.push({ kind: "text", x: at, y, text, anchor, size: 11, fill });
    if (isSigned) write(x + width / 2, "0", "middle");
  write(x, isSigned ? `${shown(-most)} lowers` : "0", "start", ink);
  write(x + width, isSigned ? `raises ${shown(most)}` : shown(most), "end", ink);
  return { width: 248, height: 30, shapes };
}

/** The one that is looked at: its numbers by every method, and where it attends. */
function detailsView(view) {
  const box = element("aside", { class: "details", "aria-label": "Details" });
  const draw = () => {
    const unit = currentUnit(view);
    box.replaceChildren(...(unit === null ? topUnits(view) : unitDetails(view, unit)));
  };
  view.listen(["hover", "pinned", "attribution", "layer", "head", "direction", "threshold", "lines"], draw);
  draw();
  return box;
}

const MOST_IN_LIST = 10;

function barRow(view, name, value, most, isSigned, unit = null) {
  const row = element("tr", { "data-value": value ?? "" }, element("td", { class: "name" }, clipped(name, 26)), element("td", { class: "number" }, shown(value)), element("td", {}, effectBar(value, most, isSigned)));
  if (unit === null) return row;
  row.dataset.of = unit;
  row.addEventListener("pointerenter", () => view.choose({ group: [unit] }));
  row.addEventListener("pointerleave", () => view.choose({ group: [] }));
  return row;
}

function rows(made) {
  return element("table", { class: "bars" }, element("tbody", {}, ...made));
}

function topUnits(view) {
  const attribution = view.explanation.attributions[view.chosen.attribution];
  if (!attribution) return [];
  const most = largest(attribution.values);
  const top = ranked(attribution.values).slice(0, MOST_IN_LIST);
  return [element("h4", {}, `Most by ${attribution.name}`), rows(top.map(({ unit, value }) => barRow(view, nameOf(view.explanation, unit), value, most, attribution.is_signed, unit)))];
}

function unitDetails(view, unit) {
  const { explanation, chosen } = view;
  const made = [element("h4", { "aria-live": "polite" }, nameOf(explanation, unit))];
  made.push(rows(explanation.attributions.filter(({ values }) => values[unit] !== null).map(({ name, values, is_signed: isSigned }) => barRow(view, name, values[unit], largest(values), isSigned))));
  const layer = explanation.layers[chosen.layer];
  if (layer?.is_readout) {
    const mark = marksOf(view).get(unit);
    made.push(element("p", {}, `The whole attends to it by ${shown(mark?.value ?? 0)} (${layer.name}, ${headName(chosen.head)}).`));
    return made;
  }
  const lines = linesOf({ ...view, chosen: { ...chosen, pinned: unit } }).slice(0, MOST_IN_LIST);
  const heading = chosen.lines === "effect" ? "Effect of its links" : sideOf({ explanation, chosen }, unit) === "receivers" ? `It attends to (${layer?.name}, ${headName(chosen.head)})` : `Attended to by (${layer?.name}, ${headName(chosen.head)})`;
  if (lines.length) {
    const other = ({ from, to }) => (from === unit ? to : from);
    const most = largest(lines.map((line) => line.value));
    made.push(element("h4", {}, heading), rows(lines.map((line) => barRow(view, nameOf(explanation, other(line)), line.value, most, Boolean(line.isEffect), other(line)))));
  }
  return made;
}

const HEADINGS = { text: "The words", molecule: "The molecules", graph: "The graph" };
const HOW = {
  text: "Point at a word, or walk with the arrow keys, to see where it attends; click to hold it.",
  molecule: "Point at an atom, here or in the SMILES, to see where it attends; click to hold it.",
  graph: "Drag to move, click or use + and − to come nearer; point at a node to see where it attends, click to hold it.",
};

/** How to use the picture; where no layer attends, one sees numbers alone. */
function howTo({ kind, layers }) {
  return layers.some((layer) => !layer.is_readout) ? HOW[kind] : HOW[kind].replace("where it attends", "its numbers");
}

function section(heading, ...children) {
  return element("section", {}, element("h2", {}, heading), ...children);
}

/** Draws one part of the page after the other, so that the first is seen at once. */
async function show(number) {
  const main = document.querySelector("main");
  const view = makeView(number);
  current = view;
  main.replaceChildren();
  main.removeAttribute("data-ready");
  for (const make of parts(view)) {
    if (current !== view) return;
    main.append(make());
    await new Promise((resume) => setTimeout(resume));
  }
  if (current === view) main.dataset.ready = "";
}

/** The sections of an explanation as functions that make them, in the order in which one reads. */
function parts(view) {
  const { explanation } = view;
  const made = [() => predictionSection(view), () => inputSection(view)];
  if (explanation.layers.length) made.push(() => attentionSection(view));
  if (explanation.parts.length) {
    made.push(() => {
      const { node, picture } = partsView(view);
      return section("Without whole parts", figure("parts", `Effect on ${explanation.explained}`, node, picture, "The prediction less the prediction without the part: positive parts raise it."));
    });
  }
  if (explanation.curves.length) made.push(() => section("If the numbers were others", element("div", { class: "charts" }, ...curvesView(view))));
  if (explanation.faithfulness) made.push(() => section("Can it be believed?", ...faithfulnessView(view)));
  return made;
}

function predictionSection(view) {
  const { node, picture } = predictionView(view);
  const notes = view.explanation.notes.map((words) => element("li", {}, words));
  return section("Prediction", figure("prediction", clipped(view.explanation.title, 90), node, picture), notes.length ? element("ul", { class: "notes" }, ...notes) : null);
}

function inputSection(view) {
  const { kind, explained } = view.explanation;
  const drawn = { text: wordsView, molecule: moleculeView, graph: graphView }[kind](view);
  const picture = figure("input", `What matters for ${explained}`, drawn.node, drawn.picture, howTo(view.explanation));
  return section(HEADINGS[kind], controls(view), element("div", { class: "beside" }, element("div", {}, legendView(view), picture), detailsView(view)));
}

function attentionSection(view) {
  const grid = gridView(view);
  const matrix = matrixView(view);
  const title = () => `${view.explanation.layers[view.chosen.layer].name}, ${headName(view.chosen.head)}`;
  const drawn = figure("matrix", title(), matrix.node, matrix.picture);
  view.listen(["layer", "head"], () => (drawn.querySelector("h3").textContent = title()));
  // Across, from one text to another, and in a readout nothing is near or far.
  const hasSteps = view.explanation.layers.some((layer) => !layer.is_readout && !isAcross(view.explanation, layer));
  const far = hasSteps ? { text: ", and how many tokens away", molecule: ", and how many bonds away", graph: "" }[view.explanation.kind] : "";
  const about = `Below each: how widely it looks, the mean entropy in bit${far}.`;
  const small = figure("grid", "Layers and heads", grid.node, grid.picture, about);
  const second = attended(view);
  return section("Where it attends", second, element("div", { class: "attention" }, small, drawn));
}

/** The molecules once more, colored by attention; null where no attribution is by attention, or it is the same for all. */
function attended(view) {
  const { attributions, kind } = view.explanation;
  const number = attributions.findIndex(({ name }) => name === "attention");
  if (kind !== "molecule" || !hasBaseline(attributions[0]) || number < 0 || Math.max(...attributions[number].values) - Math.min(...attributions[number].values) < 1e-6) return null;
  const chosen = Object.create(view.chosen, { attribution: { value: number }, lines: { value: "attention" } });
  const drawn = moleculeView({ ...view, chosen });
  return figure("attended", "Attention of the atoms", drawn.node, drawn.picture, attributions[number].about);
}

/** The list of explanations, where there are several. */
function listOfExplanations(items) {
  const list = element("nav", { "aria-label": "Explanations" });
  const buttons = items.map(({ title, predictions }, number) =>
    element("button", { type: "button", click: () => pick(number) }, element("span", {}, clipped(title, 60)), element("small", {}, predictions)),
  );
  const pick = (number) => {
    buttons.forEach((button, place) => button.setAttribute("aria-current", place === number));
    show(number);
  };
  list.append(...buttons);
  list.hidden = items.length < 2;
  return { list, pick };
}

function themeButton() {
  const root = document.documentElement;
  const preference = window.matchMedia("(prefers-color-scheme: dark)");
  const set = (theme) => {
    root.dataset.theme = theme;
    button.textContent = theme === "dark" ? "light" : "dark";
    button.setAttribute("aria-label", `use ${button.textContent} colors`);
    current?.choose({ theme });
  };
  const button = element("button", { type: "button", class: "quiet", id: "theme", click: () => set(root.dataset.theme === "dark" ? "light" : "dark") });
  preference.addEventListener("change", () => set(preference.matches ? "dark" : "light"));
  set(preference.matches ? "dark" : "light");
  return button;
}

let current = null;

function begin() {
  const { title, explanations } = readData("contents");
  const { list, pick } = listOfExplanations(explanations);
  document.querySelector("header").append(element("h1", {}, title), themeButton(), list);
  pick(0);
}

begin();
