// A chart as a picture for a paper: SVG drawn from the same numbers, on white whatever the page looks like; PNG from it.

const PRINTED = ["#1f5fa8", "#b4530a", "#1b7f5c", "#9a3d86", "#7a6000", "#b3261e", "#0f7c8a", "#5c6066"];
const WIDE = 640, HIGH = 360, LEFT = 64, RIGHT = 16, TOP = 40, BOTTOM = 44, ROW = 18;

function shape(tag, attributes, text) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = visible(text);
  return element;
}

/** The chart between two steps, its shown lines smoothed as on the page, as the text of an SVG file. */
function svgOf(chart, lines, from, to, window) {
  const shown = lines.filter((line) => line.shown);
  const foot = ROW * Math.ceil(shown.length / 2), height = HIGH + foot;
  const root = shape("svg", { xmlns: "http://www.w3.org/2000/svg", width: WIDE, height, viewBox: `0 0 ${WIDE} ${height}`,
    "font-family": "Helvetica, Arial, sans-serif", "font-size": 12, fill: "#1d1f21" });
  root.append(shape("rect", { width: WIDE, height, fill: "#ffffff" }), shape("title", {}, chart.title));
  const [low, high] = rangeOf(...extent(lines, from, to)), span = to - from || 1;
  const x = (step) => LEFT + ((step - from) / span) * (WIDE - LEFT - RIGHT);
  const y = (value) => HIGH - BOTTOM - ((value - low) / (high - low)) * (HIGH - TOP - BOTTOM);
  root.append(shape("text", { x: LEFT, y: 22, "font-size": 14, "font-weight": "bold" }, chart.title));
  for (const tick of ticks(low, high, 5)) {
    root.append(shape("line", { x1: LEFT, x2: WIDE - RIGHT, y1: y(tick), y2: y(tick), stroke: "#dddddd" }));
    root.append(shape("text", { x: LEFT - 8, y: y(tick) + 4, "text-anchor": "end" }, number(tick)));
  }
  for (const tick of ticks(from, to || 1, 8).filter(Number.isInteger)) {
    root.append(shape("text", { x: x(tick), y: HIGH - BOTTOM + 18, "text-anchor": "middle" }, tick));
  }
  root.append(shape("text", { x: (LEFT + WIDE - RIGHT) / 2, y: HIGH - 8, "text-anchor": "middle" }, "step"));
  shown.forEach((line, place) => drawLine(root, line, place, { from, to, x, y, window, points: chart.points }));
  return new XMLSerializer().serializeToString(root);
}

function drawLine(root, line, place, { from, to, x, y, window, points }) {
  const ink = PRINTED[Number(line.colour.split("-")[1])], values = smoothedLine(line, window);
  const inside = line.steps.map((step, at) => [step, at]).filter(([step]) => step >= from && step <= to);
  const path = (list) => inside.map(([step, at]) => `${x(step).toFixed(2)},${y(list[at]).toFixed(2)}`).join(" ");
  const stroke = { fill: "none", stroke: ink, "stroke-dasharray": line.dash.join(" ") || "none" };
  if (window > 1) root.append(shape("polyline", { ...stroke, points: path(line.values), opacity: 0.25 }));
  root.append(shape("polyline", { ...stroke, points: path(values), "stroke-width": 2 }));
  for (const [step, at] of inside) {
    const ends = line.interval?.get(step);
    if (ends) root.append(shape("line", { x1: x(step), x2: x(step), y1: y(ends[0]), y2: y(ends[1]), stroke: ink }));
    if (points || inside.length === 1) root.append(shape("circle", { cx: x(step), cy: y(values[at]), r: 3, fill: ink }));
  }
  const left = LEFT + (place % 2) * ((WIDE - LEFT - RIGHT) / 2), top = HIGH + 8 + ROW * Math.floor(place / 2);
  root.append(shape("line", { ...stroke, x1: left, x2: left + 24, y1: top - 4, y2: top - 4, "stroke-width": 2 }));
  root.append(shape("text", { x: left + 30, y: top }, line.label));
}

/** Hand a file to the browser's downloads. */
function download(name, blob) {
  const link = make("a", { download: name });
  link.href = URL.createObjectURL(blob);
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** The SVG as a PNG of twice its size. */
async function pngOf(svg) {
  const image = new Image();
  image.src = URL.createObjectURL(new Blob([svg], { type: "image/svg+xml" }));
  await image.decode();
  const canvas = make("canvas");
  [canvas.width, canvas.height] = [2 * image.width, 2 * image.height];
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  URL.revokeObjectURL(image.src);
  return new Promise((done) => canvas.toBlob(done, "image/png"));
}
