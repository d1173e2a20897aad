// What is predicted, what whole parts do, response curves, and whether the attributions can be believed.

const SERIES = ["#0072b2", "#e69f00", "#009e73", "#d55e00", "#56b4e9", "#cc79a7", "#b8a000"];
const CHANCE = "#7f7f7f";

const LONG_VALUE = 24; // characters, from which on it is a sentence, and not written as large as a number

/** Everything that is predicted: classes with their probabilities, numbers with their interval. */
function predictionView(view) {
  const predictions = view.explanation.predictions;
  if (predictions.length > MOST_IN_FULL && predictions.some((one) => one.label)) return manyView(view, predictions);
  const made = predictions.map((one) => {
    const hasChart = Object.keys(one.probabilities).length > 0 || (one.low !== null && one.high !== null);
    const picture = () => (Object.keys(one.probabilities).length ? classPicture(one) : hasChart ? intervalPicture(one) : valuePicture(one));
    const holder = element("div", { class: "chart" });
    const draw = () => holder.replaceChildren(svgPicture(picture(), predictionWords(one)));
    if (hasChart) {
      view.listen(["theme"], draw);
      draw();
    }
    const value = one.label || shown(one.value, digitsBeside(one.value, one.std));
    const spread = one.std === null || one.label ? "" : ` ± ${shown(one.std)}`; // a class has its probability
    return { node: element("div", { class: "prediction" }, element("div", {}, element("h4", {}, one.name), element("p", { class: value.length > LONG_VALUE ? "value sentence" : "value" }, value, element("small", {}, spread))), hasChart ? holder : null), picture };
  });
  return { node: element("div", { class: "predictions" }, ...made.map((one) => one.node)), picture: () => besideEachOther(made.map((one) => one.picture())) };
}

const MOST_IN_FULL = 4; // predictions that are shown with all their classes: the words of a sentence are more

/** Many predictions: the class of each, and how probable it is. */
function manyView(view, predictions) {
  const picture = () => manyPicture(predictions, view.explanation.explained);
  const holder = element("div", { class: "chart" });
  const words = predictions.map(predictionWords).join("; ");
  const draw = () => holder.replaceChildren(svgPicture(picture(), words));
  view.listen(["theme"], draw);
  draw();
  return { node: holder, picture };
}

function manyPicture(predictions, explained) {
  const columns = Math.min(3, Math.ceil(predictions.length / 6));
  const rows = Math.ceil(predictions.length / columns);
  const [ink, pale, dim] = [themed("ink"), themed("pale"), themed("dim")];
  const shapes = predictions.flatMap((one, number) => {
    const [left, y] = [360 * Math.floor(number / rows), 24 * (number % rows)];
    const share = one.probabilities[one.label] ?? null;
    const isExplained = explained.startsWith(`${one.name} = `);
    const text = share === null ? one.label || shown(one.value) : `${clipped(one.label, 12)} ${shown(100 * share)} %`;
    const bar = { x: left + 130, y: y + 4, height: 14, rx: 3 };
    return [
      { kind: "text", x: left + 122, y: y + 16, text: clipped(one.name, 18), anchor: "end", size: 13, fill: isExplained ? ink : dim, bold: isExplained },
      { kind: "rect", ...bar, width: 100, fill: pale },
      { kind: "rect", ...bar, width: Math.max(1, 100 * (share ?? 0)), fill: isExplained ? "#0072b2" : "#7f9fb5", mark: { predicted: one.name, class: one.label, value: share ?? "" } },
      { kind: "text", x: left + 238, y: y + 16, text, size: 12, fill: ink, bold: isExplained },
    ];
  });
  return { width: 360 * columns, height: 24 * rows, shapes };
}

function predictionWords({ name, value, std, label, low, high }) {
  const digits = digitsBeside(value, std);
  const interval = low !== null && high !== null ? `, between ${shown(low, digits)} and ${shown(high, digits)}` : "";
  return `${name}: ${label || shown(value, digits)}${interval}`;
}

const MOST_CLASSES = 12;

function classPicture(one) {
  const shares = Object.entries(one.probabilities).sort((a, b) => b[1] - a[1]).slice(0, MOST_CLASSES);
  const [ink, pale] = [themed("ink"), themed("pale")];
  const shapes = shares.flatMap(([name, share], row) => {
    const y = 24 * row;
    const isTold = name === one.label;
    return [
      { kind: "rect", x: 130, y: y + 4, width: 200, height: 14, rx: 3, fill: pale },
      { kind: "rect", x: 130, y: y + 4, width: Math.max(1, 200 * (share ?? 0)), height: 14, rx: 3, fill: isTold ? "#0072b2" : "#7f9fb5", mark: { class: name, value: share } },
      { kind: "text", x: 122, y: y + 16, text: clipped(name, 18), anchor: "end", size: 13, fill: ink, bold: isTold },
      { kind: "text", x: 338, y: y + 16, text: `${shown(share === null ? null : 100 * share)} %`, size: 12, fill: ink },
    ];
  });
  return { width: 400, height: Math.max(24, 24 * shares.length), shapes };
}

function intervalPicture({ value, std, low, high }) {
  const [ink, digits] = [themed("ink"), digitsBeside(value, std)];
  const span = Math.max(high, value) - Math.min(low, value) || 1;
  const x = (number) => 40 + (320 * (number - Math.min(low, value))) / span;
  return {
    width: 400,
    height: 44,
    shapes: [
      { kind: "line", x1: 20, y1: 16, x2: 380, y2: 16, stroke: themed("pale"), thick: 2 },
      { kind: "line", x1: x(low), y1: 16, x2: x(high), y2: 16, stroke: "#56b4e9", thick: 8, mark: { low, high } },
      { kind: "circle", cx: x(value), cy: 16, r: 7, fill: "#0072b2", stroke: themed("paper"), thick: 2, mark: { value } },
      { kind: "text", x: x(low), y: 40, text: shown(low, digits), anchor: "middle", size: 12, fill: ink },
      { kind: "text", x: x(high), y: 40, text: shown(high, digits), anchor: "middle", size: 12, fill: ink },
    ],
  };
}

const LETTERS = 46; // in a line of a picture

/** A name and its prediction in words, in as many lines as it takes: what is saved where there is nothing to draw. */
function valuePicture({ name, label, value, std }) {
  const lines = [""];
  for (const word of (label || shown(value, digitsBeside(value, std))).split(/\s+/)) {
    if (lines.at(-1) && lines.at(-1).length + word.length >= LETTERS) lines.push("");
    lines[lines.length - 1] += (lines.at(-1) ? " " : "") + clipped(word, LETTERS);
  }
  const write = (text, y, size, fill, bold = false) => ({ kind: "text", x: 4, y, text, size, fill, bold });
  const shapes = [write(name, 16, 12, themed("dim")), ...lines.map((line, row) => write(line, 40 + 22 * row, 16, themed("ink"), true))];
  return { width: Math.max(120, 12 * Math.max(...lines.map((line) => line.length))), height: 50 + 22 * (lines.length - 1), shapes };
}

/** Round numbers from least to most, and how far they are apart. */
function ticks(least, most, number = 4) {
  const span = most - least || Math.abs(most) || 1;
  const power = 10 ** Math.floor(Math.log10(span / number));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => span / size <= number + 1);
  const found = [];
  for (let k = Math.ceil(least / step); k * step <= most + 1e-9 * span; k++) found.push(Number((k * step).toPrecision(12)));
  return { values: found, step };
}

const LETTER_WIDTH = 6.6; // of a digit at a tick
const FINER = 100; // times finer than the ticks are the numbers of a point

/** A chart of lines: series are { name, color, xs, ys, thick, dash }, `dot` is { x, y } to point at. */
function lineChart({ series, xLabel, yLabel, dot = null, width = 400, height = 250 }) {
  const known = (values) => values.filter((value) => value !== null);
  const [xs, ys] = ["xs", "ys"].map((axis) => known(series.flatMap((one) => one[axis])));
  if (!xs.length || !ys.length) return { width, height: 0, shapes: [] };
  const [x0, x1, y0, y1] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
  const pad = 0.06 * (y1 - y0 || Math.abs(y1) || 1);
  const [xTicks, yTicks] = [ticks(x0, x1), ticks(y0 - pad, y1 + pad)];
  const at = (value, { step }, finer = 1) => shown(value, digitsOfStep(value, step / finer));
  const room = ({ values, step }) => LETTER_WIDTH * Math.max(0, ...values.map((value) => at(value, { step }).length));
  const [left, right, top, bottom] = [Math.max(54, room(yTicks) + 10), Math.max(14, room(xTicks) / 2), 20, 42];
  const isCrowded = xTicks.values.length * (room(xTicks) + LETTER_WIDTH) > width - left;
  const x = (value) => left + ((width - left - right) * (value - x0)) / (x1 - x0 || 1);
  const y = (value) => height - bottom - ((height - top - bottom) * (value - y0 + pad)) / (y1 - y0 + 2 * pad || 1);
  const [ink, pale, dim] = ["ink", "pale", "dim"].map(themed);
  const shapes = [];
  for (const [number, value] of xTicks.values.entries()) {
    shapes.push({ kind: "line", x1: x(value), x2: x(value), y1: top, y2: height - bottom, stroke: pale, thick: 0.8 });
    if (isCrowded && number % 2) continue;
    shapes.push({ kind: "text", x: x(value), y: height - bottom + 16, text: at(value, xTicks), anchor: "middle", size: 11, fill: dim });
  }
  for (const value of yTicks.values) {
    shapes.push({ kind: "line", x1: left, x2: width - right, y1: y(value), y2: y(value), stroke: pale, thick: 0.8 });
    shapes.push({ kind: "text", x: left - 6, y: y(value) + 4, text: at(value, yTicks), anchor: "end", size: 11, fill: dim });
  }
  shapes.push({ kind: "text", x: (left + width - right) / 2, y: height - 6, text: xLabel, anchor: "middle", size: 12, fill: ink });
  if (yLabel) shapes.push({ kind: "text", x: left, y: top - 8, text: yLabel, size: 11, fill: dim });
  for (const one of series) {
    const points = one.xs.map((value, k) => [value, one.ys[k]]).filter(([, y]) => y !== null);
    const d = points.map(([a, b], k) => `${k ? "L" : "M"}${tidy(x(a))} ${tidy(y(b))}`).join("");
    shapes.push({ kind: "path", d, stroke: one.color, thick: one.thick ?? 2, dash: one.dash, title: one.name, mark: { series: one.name } });
    for (const [a, b] of points) {
      shapes.push({ kind: "circle", cx: x(a), cy: y(b), r: 2.4, fill: one.color, title: `${one.name}: ${at(a, xTicks, FINER)} → ${at(b, yTicks, FINER)}`, mark: { series: one.name, x: a, y: b } });
    }
  }
  if (dot && dot.x !== null && dot.y !== null) shapes.push({ kind: "circle", cx: x(dot.x), cy: y(dot.y), r: 5.5, fill: themed("paper"), stroke: ink, thick: 2, mark: { here: dot.x }, title: `here: ${inFull(dot.x)}` });
  return { width, height, shapes };
}

/** A chart that redraws itself in the colors of the theme. */
function chartFigure(view, name, heading, picture, caption = "") {
  const holder = element("div", { class: "chart" });
  const draw = () => holder.replaceChildren(svgPicture(picture(), heading));
  view.listen(["theme"], draw);
  draw();
  return figure(name, heading, holder, picture, caption);
}

/** How the prediction answers to each number of the row. */
function curvesView(view) {
  return view.explanation.curves.map((curve, number) => {
    const here = between(curve.at, curve.predictions, curve.here);
    const series = [{ name: view.explanation.explained, color: SERIES[0], xs: curve.at, ys: curve.predictions }];
    const picture = () => lineChart({ series, xLabel: curve.name, yLabel: view.explanation.explained, dot: { x: curve.here, y: here } });
    return chartFigure(view, `curve-${number + 1}`, curve.name, picture, `All else as it is; the ring is this row, ${inFull(curve.here)}.`);
  });
}

/** The value of a curve at a place, on the straight line between its steps; null outside of it. */
function between(xs, ys, x) {
  for (let k = 0; k < xs.length; k++) {
    if (xs[k] === x) return ys[k];
    if (k > 0 && x !== null && (xs[k - 1] - x) * (xs[k] - x) < 0) return ys[k - 1] + ((ys[k] - ys[k - 1]) * (x - xs[k - 1])) / (xs[k] - xs[k - 1]);
  }
  return null;
}

const MOST_ROWS = 25;

/** Parts and what the prediction would be without them. */
function partsView(view) {
  const parts = [...view.explanation.parts].sort((a, b) => Math.abs(b.effect ?? 0) - Math.abs(a.effect ?? 0));
  const most = largest(parts.map((part) => part.effect));
  const body = element("tbody");
  const row = (part) => {
    const hold = () => view.choose({ group: part.units });
    const free = () => view.choose({ group: [] });
    const name = element("td", {}, element("button", { type: "button", class: "part", focus: hold, blur: free, "aria-label": `${part.name}: ${shown(part.effect)}` }, part.name));
    return element("tr", { pointerenter: hold, pointerleave: free, "data-value": part.effect ?? "" }, name, element("td", {}, part.kind), element("td", { class: "number" }, shown(part.effect)), element("td", {}, effectBar(part.effect, most)));
  };
  body.append(...parts.slice(0, MOST_ROWS).map(row));
  const more = element("button", { type: "button", class: "quiet", click: () => (body.append(...parts.slice(MOST_ROWS).map(row)), more.remove()) }, `all ${parts.length}`);
  const head = element("tr", {}, ...["part", "kind", "effect", ""].map((name) => element("th", { scope: "col", class: name === "effect" && "number" }, name)));
  const table = element("table", { class: "parts" }, element("thead", {}, head), body);
  const picture = () => barsPicture(parts.slice(0, MOST_ROWS).map((part) => ({ name: part.name, value: part.effect })));
  return { node: element("div", { class: "scroll" }, table, parts.length > MOST_ROWS ? more : null), picture };
}

/** A bar to the right where a value raises, to the left where it lowers. */
function effectBar(value, most, isSigned = true) {
  const width = 120;
  const share = most > 0 ? Math.abs(value ?? 0) / most : 0;
  const [zero, room] = isSigned ? [width / 2, width / 2] : [0, width];
  const bar = { kind: "rect", x: value < 0 ? zero - room * share : zero, y: 2, width: Math.max(0.5, room * share), height: 10, rx: 2, fill: colorOf(value, Math.abs(value ?? 0), isSigned, 1) };
  const axis = { kind: "line", x1: zero, x2: zero, y1: 0, y2: 14, stroke: "#7f7f7f", thick: 1 };
  const made = svgPicture({ width, height: 14, shapes: [bar, axis] });
  made.setAttribute("aria-hidden", "true");
  return made;
}

/** Bars with names. */
function barsPicture(rows, isSigned = true) {
  const most = largest(rows.map((row) => row.value));
  const ink = themed("ink");
  const zero = isSigned ? 330 : 220;
  const room = isSigned ? 110 : 220;
  const shapes = rows.flatMap(({ name, value }, place) => {
    const wide = most > 0 ? (room * Math.abs(value ?? 0)) / most : 0;
    const y = 22 * place;
    return [
      { kind: "text", x: 210, y: y + 15, text: clipped(name, 30), anchor: "end", size: 12, fill: ink },
      { kind: "rect", x: value < 0 ? zero - wide : zero, y: y + 5, width: Math.max(0.5, wide), height: 12, rx: 2, fill: colorOf(value, Math.abs(value ?? 0), isSigned, 1), mark: { value: value ?? "" } },
      { kind: "text", x: 448, y: y + 15, text: shown(value), size: 12, fill: ink },
    ];
  });
  return { width: 510, height: 22 * rows.length + 4, shapes };
}

/** Deletion and insertion, agreement, and what they mean. */
function faithfulnessView(view) {
  const { removals, agreement } = view.explanation.faithfulness;
  const made = [];
  const sentences = faithfulnessSentences(view.explanation);
  made.push(element("ul", { class: "verdict" }, ...sentences.map((words) => element("li", {}, words))));
  const colors = new Map(removals.map(({ method }, place) => [method, method === "random" ? CHANCE : SERIES[place % SERIES.length]]));
  const charts = element("div", { class: "charts" });
  const kinds = [
    ["deletion", "Deletion", "What is left while the most important are taken away: it falls early where the method is faithful."],
    ["insertion", "Insertion", "What comes back while the most important are put back: it rises early where the method is faithful."],
  ];
  for (const [kind, heading, caption] of kinds) {
    const series = removals.map((removal) => ({ name: removal.method, color: colors.get(removal.method), xs: removal.shares, ys: removal[kind], dash: removal.method === "random" ? [4, 4] : undefined }));
    if (series.length) charts.append(chartFigure(view, kind, heading, () => lineChart({ series, xLabel: "share of the units", yLabel: view.explanation.explained }), caption));
  }
  made.push(charts);
  if (removals.length) made.push(faithfulnessTable(removals, agreement, colors));
  return made;
}

function faithfulnessTable(removals, agreement, colors) {
  const head = element("tr", {}, ...["method", "area", "agreement"].map((name) => element("th", { scope: "col" }, name)));
  const rows = removals.map(({ method, area }) => {
    const swatch = svgPicture({ width: 14, height: 12, shapes: [{ kind: "line", x1: 1, x2: 13, y1: 6, y2: 6, stroke: colors.get(method), thick: 3 }] });
    swatch.setAttribute("aria-hidden", "true");
    const cells = [area, method in agreement ? agreement[method] : null].map((value) => element("td", { class: "number" }, shown(value)));
    return element("tr", { "data-method": method }, element("td", {}, swatch, ` ${method}`), ...cells);
  });
  const note = element("p", { class: "note" }, "Area: how much farther the prediction moves when the most important units are removed first than when the least important are, in probability or in standard deviations of the training targets. 0 is chance, large is faithful; random is one order drawn by chance. Agreement is the rank correlation with occlusion.".replace("occlusion", referenceOf(removals)));
  return element("div", {}, note, element("div", { class: "scroll" }, element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows))));
}

const [AGREES, HALFWAY] = [0.7, 0.4];

/** What the others are compared with: the method that removes units itself. */
function referenceOf(removals) {
  return ["occlusion", "removal"].find((name) => removals.some(({ method }) => method === name)) ?? "occlusion";
}

/** The meaning of the numbers, in sentences. */
function faithfulnessSentences({ faithfulness: { removals, agreement } }) {
  const reference = referenceOf(removals);
  const sentences = Object.entries(agreement)
    .filter(([method]) => method !== reference)
    .map(([method, value]) => {
      if (value === null) return `${method}: its agreement with ${reference} is not defined here.`;
      const means = value >= AGREES ? "it orders the units much as what really changes the prediction" : value >= HALFWAY ? "it shows in part what changes the prediction" : "it does not show what changes the prediction";
      return `${method} agrees with occlusion by ${shown(value)}: ${means}.`.replace("with occlusion", `with ${reference}`);
    });
  const worse = removals.filter(({ method, area }) => method !== "random" && area !== null && area <= 0);
  if (worse.length) {
    const names = worse.map(({ method }) => method);
    const last = names.pop();
    const who = names.length ? `${names.join(", ")} and ${last} call` : `${last} calls`;
    sentences.push(`Taking away what ${who} important changes the prediction no faster than chance does.`);
  }
  return sentences;
}
