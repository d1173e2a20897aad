// What is reckoned from the numbers before anything is drawn: how they are written, their colors, which lines to show.

/** The digits of a number that its standard deviation leaves, three or more: seconds since 1970 need ten. */
function digitsBeside(value, std) {
  if (!value || !std) return 3;
  const digits = Math.floor(Math.log10(Math.abs(value))) + 1 - Math.round(Math.log10(0.05 * std));
  return Math.min(17, Math.max(3, digits));
}

/** The digits in which numbers that lie a step apart differ, three or more. */
function digitsOfStep(value, step) {
  if (!value || !step) return 3;
  return Math.min(17, Math.max(3, Math.floor(Math.log10(Math.abs(value))) - Math.floor(Math.log10(step) + 1e-9) + 1));
}

/** A number as it is given, a true minus; a dash where there is none. */
function inFull(value) {
  return value === null || value === undefined ? "–" : String(value).replaceAll("-", "−");
}

/** A number as it is read: three digits or those that are given, but all before the point below 10⁵, where zeros would
stand for digits; a true minus; a dash where there is none. */
function shown(value, digits = 3) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  const size = Math.abs(value);
  const isLong = size < 1e-3 || (size >= 1e5 && digits === 3);
  const whole = isLong || size < 1 ? 0 : Math.min(17, Math.floor(Math.log10(size)) + 1);
  const text = size !== 0 && isLong ? value.toExponential(digits - 1) : String(Number(value.toPrecision(Math.max(digits, whole))));
  return text.replaceAll("-", "−");
}

/** The largest size in a list; 0 where there is none. */
function largest(values) {
  let most = 0;
  for (const value of values) if (value !== null && Math.abs(value) > most) most = Math.abs(value);
  return most;
}

/** Orange raises, blue lowers, green is a share: distinct for every eye, on light and dark (after Okabe & Ito). */
const RAISES = [213, 94, 0];
const LOWERS = [0, 114, 178];
const SHARE = [0, 158, 115];
const DENSEST = 0.72; // text on it can still be read

/** The color of a value; see-through, so that it fits light and dark. */
function colorOf(value, most, isSigned, densest = DENSEST) {
  const share = most > 0 && value !== null ? Math.min(1, Math.abs(value) / most) : 0;
  const [red, green, blue] = !isSigned ? SHARE : value < 0 ? LOWERS : RAISES;
  return `rgba(${red}, ${green}, ${blue}, ${(densest * share).toFixed(3)})`;
}

/** The weights of one head of a layer, or the mean of all (head −1). */
const means = new WeakMap();
function weightsOf(layer, head) {
  if (head >= 0) return layer.values[head];
  if (!means.has(layer)) {
    const mean = new Float64Array(layer.senders.length);
    for (const values of layer.values) for (let e = 0; e < mean.length; e++) mean[e] += (values[e] ?? 0) / layer.values.length;
    means.set(layer, mean);
  }
  return means.get(layer);
}

/** The edges of each unit: order[starts[u] … starts[u + 1]], by their receiver or by their sender. */
const indexes = new WeakMap();
function edgesBy(layer, side, numUnits) {
  const known = indexes.get(layer) ?? {};
  indexes.set(layer, known);
  if (!known[side]) {
    const ends = layer[side];
    const starts = new Int32Array(numUnits + 1);
    for (const unit of ends) starts[unit + 1]++;
    for (let unit = 0; unit < numUnits; unit++) starts[unit + 1] += starts[unit];
    const next = starts.slice();
    const order = new Int32Array(ends.length);
    ends.forEach((unit, edge) => (order[next[unit]++] = edge));
    known[side] = { starts, order };
  }
  return known[side];
}

/** Between which units a layer goes, as [first, one past the last]: rows are those who attend, columns the texts of those
who are attended to; all units where there is one text, or none. */
const ranges = new WeakMap();
function rangesOf({ units, sources, kind }, layer) {
  if (ranges.has(layer)) return ranges.get(layer);
  const found = { rows: [0, units.length], columns: [0, units.length] };
  if (kind === "text" && Object.keys(sources).length > 1 && layer.senders.length) {
    const texts = new Set(layer.senders.map((unit) => units[unit].source));
    const isIn = ({ source }) => texts.has(source);
    found.columns = [units.findIndex(isIn), units.findLastIndex(isIn) + 1];
    const attends = new Set(layer.is_readout ? units.keys() : layer.receivers);
    found.rows = [units.findIndex((_, unit) => attends.has(unit)), units.findLastIndex((_, unit) => attends.has(unit)) + 1];
  }
  ranges.set(layer, found);
  return found;
}

/** Whether a layer goes from one text across to another, as where a translation looks at its source. */
function isAcross(explanation, layer) {
  const { rows, columns } = rangesOf(explanation, layer);
  return !layer.is_readout && (rows[0] >= columns[1] || columns[0] >= rows[1]);
}

/** Which end of the lines a unit is, of those that are drawn when it is chosen; across, a unit has only one. */
function sideOf({ explanation, chosen }, unit) {
  const layer = explanation.layers[chosen.layer];
  if (!layer || !isAcross(explanation, layer)) return chosen.direction === "in" ? "receivers" : "senders";
  const [first, last] = rangesOf(explanation, layer).rows;
  return unit >= first && unit < last ? "receivers" : "senders";
}

/** How many lines are drawn at most of one unit, and of all. */
const MOST_LINES = 64;
const MOST_LINES_OF_ALL = 32;

/** The lines to draw now, strongest first: { from, to, value, share } with from the sender, to the receiver. */
function linesOf(view, mostOfAll = MOST_LINES_OF_ALL) {
  const unit = currentUnit(view);
  const { number, edge } = candidates(view, unit);
  let most = 0;
  for (let k = 0; k < number; k++) most = Math.max(most, Math.abs(edge(k).value));
  const found = [];
  for (let k = 0; k < number; k++) {
    const line = edge(k);
    const share = most > 0 ? Math.abs(line.value) / most : 0;
    if (share > 0 && share >= view.chosen.threshold) found.push({ ...line, share });
  }
  return found.sort((a, b) => b.share - a.share).slice(0, unit === null ? mostOfAll : MOST_LINES);
}

const NO_LINES = { number: 0 };

/** Which lines there could be: how many, and each by its place. */
function candidates(view, unit) {
  const { layers, links, units } = view.explanation;
  const { lines, layer: number, head } = view.chosen;
  if (lines === "effect") {
    const own = links.filter((link) => link.effect !== null && (unit === null || link.first === unit || link.second === unit));
    return { number: own.length, edge: (k) => ({ from: own[k].first, to: own[k].second, value: own[k].effect, isEffect: true }) };
  }
  const layer = layers[number];
  if (lines === "none" || !layer || layer.is_readout) return NO_LINES;
  const values = weightsOf(layer, head);
  const line = (e) => ({ from: layer.senders[e], to: layer.receivers[e], value: values[e] ?? 0 });
  if (unit === null) return { number: values.length, edge: (e) => (layer.senders[e] === layer.receivers[e] ? { ...line(e), value: 0 } : line(e)) };
  const { starts, order } = edgesBy(layer, sideOf(view, unit), units.length);
  return { number: starts[unit + 1] - starts[unit], edge: (k) => line(order[starts[unit] + k]) };
}

/** Of a readout, how much the whole attends to each unit, as a map; empty for layers between units. */
function marksOf(view) {
  const layer = view.explanation.layers[view.chosen.layer];
  const found = new Map();
  if (!layer?.is_readout || view.chosen.lines !== "attention") return found;
  const values = weightsOf(layer, view.chosen.head);
  const most = largest(values);
  layer.senders.forEach((unit, edge) => {
    const share = most > 0 ? (values[edge] ?? 0) / most : 0;
    if (share > 0 && share >= view.chosen.threshold) found.set(unit, { value: values[edge], share });
  });
  return found;
}

/** How far a unit is from another: tokens between the words of a text, bonds between the atoms of molecules. */
function distancesOf({ kind, links, units }) {
  if (kind === "text") return (sender, receiver) => Math.abs(sender - receiver);
  if (kind !== "molecule") return () => null;
  const neighbors = units.map(() => []);
  for (const { first, second } of links) {
    neighbors[first].push(second);
    neighbors[second].push(first);
  }
  const from = new Map();
  return (sender, receiver) => {
    if (!from.has(receiver)) from.set(receiver, stepsFrom(receiver, neighbors));
    return from.get(receiver).get(sender) ?? null;
  };
}

/** The steps to all that can be reached. */
function stepsFrom(start, neighbors) {
  const steps = new Map([[start, 0]]);
  for (const unit of steps.keys()) { // also those that are added on the way
    for (const next of neighbors[unit]) if (!steps.has(next)) steps.set(next, steps.get(unit) + 1);
  }
  return steps;
}

/** How widely a head looks: the mean entropy over all who attend, in bit, and how far, where there is a distance. */
function spreadOf(layer, head, numUnits, distance) {
  const values = weightsOf(layer, head);
  const totals = new Float64Array(numUnits);
  const logs = new Float64Array(numUnits);
  let [far, reached] = [0, 0];
  for (let e = 0; e < layer.senders.length; e++) {
    const value = values[e] ?? 0;
    if (value <= 0) continue;
    const [sender, receiver] = [layer.senders[e], layer.receivers[e]];
    totals[receiver] += value;
    logs[receiver] += value * Math.log2(value);
    const steps = layer.is_readout ? null : distance(sender, receiver);
    if (steps === null) continue;
    far += value * steps;
    reached += value;
  }
  let [entropy, receivers] = [0, 0];
  totals.forEach((sum, unit) => {
    if (sum <= 0) return;
    entropy += Math.log2(sum) - logs[unit] / sum;
    receivers++;
  });
  return { entropy: receivers ? entropy / receivers : null, distance: reached ? far / reached : null };
}

/** Units in order of the size of their value. */
function ranked(values) {
  return values
    .map((value, unit) => ({ value, unit }))
    .filter(({ value }) => value !== null)
    .sort((a, b) => Math.abs(b.value) - Math.abs(a.value));
}

/** What a unit is called; atoms of several molecules with the molecule. */
function nameOf(explanation, unit) {
  const isOneOfSeveral = explanation.kind === "molecule" && Object.keys(explanation.sources).length > 1;
  return shortNameOf(explanation, unit) + (isOneOfSeveral ? ` of ${explanation.units[unit].source}` : "");
}

/** What a unit is called; atoms with their place in the molecule. */
function shortNameOf(explanation, unit) {
  const { name, source } = explanation.units[unit];
  if (explanation.kind !== "molecule") return name.trim() || (name ? "␣" : `unit ${unit + 1}`);
  return `${name}${explanation.units.slice(0, unit + 1).filter((each) => each.source === source).length}`;
}

/** The unit that is looked at: under the pointer, or else the one that was picked. */
function currentUnit(view) {
  return view.chosen.hover ?? view.chosen.pinned;
}
