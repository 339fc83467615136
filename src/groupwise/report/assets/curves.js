// Charts on the page. All share one range of steps and one cursor; a zoom in one is a zoom in all.

const CHART_HEIGHT = 190;
const view = { runs: [], full: [0, 1], zoom: null, window: null, cards: [] };

function showCurves(runs, live) {
  view.runs = runs;
  view.cards = [];
  view.full = fullRange(runs);
  const longest = Math.max(0, ...runs.flatMap((run) => Object.values(run.curves).map((curve) => curve[0].length)));
  view.window ??= WINDOWS[longest >= 60 ? 2 : 0];
  const body = make("div");
  for (const [title, charts] of SECTIONS) body.append(...chartGrid(title, charts));
  const others = otherCharts(runs);
  if (others.length) body.append(make("details", { on: { toggle: (event) => fillOthers(event.target, others) } },
    make("summary", { text: `Other numbers (${others.length})` })));
  const empty = view.cards.length ? null : make("p", { class: "note", text: live
    ? "No step is recorded yet; curves appear as they come." : "No step is recorded." });
  return section("curves", "Curves", toolbar(), empty, body);
}

function fillOthers(details, charts) {
  if (!details.open || details.children.length > 1) return;
  details.append(...chartGrid("", charts));
}

function chartGrid(title, charts) {
  const grid = make("div", { class: "charts" });
  for (const chart of charts) {
    const lines = linesOf(chart, view.runs);
    if (lines.length) grid.append(card(chart, lines));
  }
  return grid.children.length ? [title ? make("h3", { text: title }) : "", grid] : [];
}

function toolbar() {
  const told = make("output", { for: "smoothing", text: windowWords() });
  const slider = make("input", { type: "range", id: "smoothing", min: 0, max: WINDOWS.length - 1,
    value: WINDOWS.indexOf(view.window), on: { input: () => {
      view.window = WINDOWS[Number(slider.value)];
      told.textContent = windowWords();
      view.cards.forEach(redraw);
    } } });
  return make("div", { class: "toolbar" },
    make("label", { for: "smoothing", text: "Smoothing" }), slider, told,
    make("button", { type: "button", id: "reset-zoom", text: "Whole run", on: { click: () => zoomTo(null) } }),
    make("span", { class: "note", text: "Drag across a chart to zoom, double-click for the whole run. With the keyboard: arrows read values, + and − zoom, 0 shows the whole run." }));
}

function windowWords() {
  return view.window === 1 ? "none" : `mean of ${view.window} steps`;
}

function fullRange(runs) {
  const steps = runs.flatMap((run) => Object.values(run.curves).flatMap((curve) => [curve[0][0], curve[0].at(-1)]));
  return steps.length ? [Math.min(...steps), Math.max(...steps)] : [0, 1];
}

/** The steps in view; a range of one step is widened. */
function range() {
  const [from, to] = view.zoom ?? view.full;
  return from === to ? [from - 1, to + 1] : [from, to];
}

function zoomTo(ends) {
  if (ends) {
    const [from, to] = [Math.max(view.full[0], ends[0]), Math.min(view.full[1], ends[1])];
    if (to - from < 1) return;
    view.zoom = to - from >= view.full[1] - view.full[0] ? null : [from, to];
  } else view.zoom = null;
  const [min, max] = range();
  for (const one of view.cards) one.plot.setScale("x", { min, max });
}

function card(chart, lines) {
  const place = make("div", { class: "plot", tabindex: 0, role: "group", "aria-roledescription": "chart",
    "aria-describedby": `${chart.id}-about` });
  const one = { chart, lines, place, at: make("span", { class: "at", "aria-live": "polite" }), legend: make("ul", { class: "legend" }) };
  const picture = () => svgOf(chart, one.lines, ...range(), windowOf(chart));
  const button = (word, give) => make("button", { type: "button", class: "small", text: word,
    "aria-label": `Save ${chart.title} as ${word}`, on: { click: give } });
  one.figure = make("figure", { class: "card", id: `chart-${chart.id}` },
    make("figcaption", {}, make("h4", { text: chart.title }), one.at,
      button("SVG", () => download(`${chart.id}.svg`, new Blob([picture()], { type: "image/svg+xml" }))),
      button("PNG", async () => download(`${chart.id}.png`, await pngOf(picture())))),
    place, one.legend, make("p", { class: "note", id: `${chart.id}-about`, text: chart.about }));
  place.addEventListener("keydown", (event) => keys(one, event));
  view.cards.push(one);
  new ResizeObserver(() => one.place.clientWidth && (one.plot
    ? one.plot.setSize({ width: one.place.clientWidth, height: CHART_HEIGHT }) : redraw(one))).observe(place);
  one.plot = null;
  redraw(one);
  return one.figure;
}

/** A few evaluations, and what is no measurement, are not smoothed. */
function windowOf(chart) {
  return chart.points || chart.plain ? 1 : view.window;
}

/** All steps of these lines, and for uPlot one list per curve: raw, and smoothed above it. */
function table(lines, window) {
  const steps = [...new Set(lines.flatMap((line) => line.steps))].sort((a, b) => a - b);
  const at = new Map(steps.map((step, place) => [step, place]));
  const column = (line, values) => {
    const filled = new Array(steps.length).fill(null);
    line.steps.forEach((step, place) => { filled[at.get(step)] = values[place]; });
    return filled;
  };
  return [steps, ...lines.map((line) => column(line, line.values)),
    ...lines.map((line) => column(line, smoothedLine(line, window)))];
}

function redraw(one) {
  one.place.setAttribute("aria-label", sentence(one.chart, one.lines));
  one.plot?.destroy();
  one.plot = new uPlot(options(one), table(one.lines, windowOf(one.chart)), one.place);
  one.plot.over.addEventListener("dblclick", () => zoomTo(null));
  showLegend(one);
}

function options(one) {
  const axis = { stroke: colour("muted"), grid: { stroke: colour("line"), width: 1 }, ticks: { show: false }, font: "12px system-ui, sans-serif" };
  const smooth = windowOf(one.chart) > 1;
  const ink = (line) => colour(line.colour);
  const points = one.chart.points ? { show: true, size: 7, fill: colour("raised") } : {};
  const pale = one.lines.map((line) => ({ label: line.label, show: line.shown, stroke: ink(line), dash: line.dash,
    spanGaps: true, width: smooth ? 1 : 2, alpha: smooth ? 0.3 : 1, points }));
  const strong = one.lines.map((line) => ({ label: line.label, show: line.shown && smooth, stroke: ink(line),
    dash: line.dash, spanGaps: true, width: 2, points: { show: false } }));
  return {
    width: one.place.clientWidth || 300, height: CHART_HEIGHT, legend: { show: false }, pxAlign: 0, padding: [8, 22, 0, 0],
    scales: {
      x: { time: false, range: () => range() },
      y: { range: () => rangeOf(...extent(one.lines, ...range())) },
    },
    axes: [
      { ...axis, size: 28, space: 40, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 100000] },
      { ...axis, size: 58, space: 34, values: (_, found) => found.map(number) },
    ],
    series: [{}, ...pale, ...strong],
    cursor: { drag: { x: true, y: false, setScale: false }, y: false, points: { size: 6 },
      sync: { key: "steps", filters: { pub: (type) => /^mouse(move|enter|leave)$/.test(type) } } },
    hooks: {
      setCursor: [() => showLegend(one)],
      setSelect: [(plot) => selected(plot)],
      drawAxes: [(plot) => stageLines(plot)],
      draw: [(plot) => whiskers(plot, one)],
    },
  };
}

function selected(plot) {
  if (plot.select.width < 4) return;
  const ends = [plot.select.left, plot.select.left + plot.select.width].map((place) => plot.posToVal(place, "x"));
  plot.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
  zoomTo(ends);
}

/** Where a stage begins, in a page of one run. */
function stageLines(plot) {
  if (view.runs.length > 1) return;
  const { ctx, bbox } = plot;
  ctx.save();
  ctx.strokeStyle = ctx.fillStyle = colour("muted");
  ctx.font = `${11 * devicePixelRatio}px system-ui, sans-serif`;
  ctx.setLineDash([2 * devicePixelRatio, 3 * devicePixelRatio]);
  [ctx.textAlign, ctx.textBaseline] = ["left", "alphabetic"];
  view.runs[0].stages.forEach(([name, step], place) => {
    if (place === 0 || step - 0.5 < plot.scales.x.min || step - 0.5 > plot.scales.x.max) return;
    const x = plot.valToPos(step - 0.5, "x", true);
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    ctx.fillText(visible(name), x + 4 * devicePixelRatio, bbox.top + 10 * devicePixelRatio);
  });
  ctx.restore();
}

/** The ends of intervals. */
function whiskers(plot, one) {
  const { ctx, bbox } = plot;
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left - 8 * devicePixelRatio, bbox.top, bbox.width + 16 * devicePixelRatio, bbox.height);
  ctx.clip();
  ctx.lineWidth = 1.5 * devicePixelRatio;
  for (const line of one.lines.filter((each) => each.shown && each.interval)) {
    ctx.strokeStyle = colour(line.colour);
    for (const [step, [low, high]] of line.interval) {
      const x = plot.valToPos(step, "x", true), arm = 4 * devicePixelRatio;
      const [bottom, top] = [low, high].map((value) => plot.valToPos(value, "y", true));
      ctx.beginPath();
      for (const y of [bottom, top]) { ctx.moveTo(x - arm, y); ctx.lineTo(x + arm, y); }
      ctx.moveTo(x, bottom);
      ctx.lineTo(x, top);
      ctx.stroke();
    }
  }
  ctx.restore();
}

/** Names, and the values at the cursor, or the last ones where it is elsewhere. */
function showLegend(one) {
  const place = one.plot?.cursor?.idx ?? null, steps = one.plot?.data[0] ?? [];
  one.at.textContent = place === null ? "" : `step ${steps[place]}`;
  if (one.legend.children.length !== one.lines.length) {
    one.legend.replaceChildren(...one.lines.map((line) => make("li", {}, legendButton(one, line))));
  }
  one.lines.forEach((line, at) => {
    const value = place === null ? line.values.at(-1) : one.plot.data[at + 1][place];
    one.legend.children[at].querySelector(".value").textContent = number(value) + intervalWords(line, place === null ? line.steps.at(-1) : steps[place]);
  });
}

function intervalWords(line, step) {
  const ends = line.interval?.get(step);
  return ends ? ` [${number(ends[0])}, ${number(ends[1])}]` : "";
}

function legendButton(one, line) {
  const swatch = make("span", { class: `swatch ${line.colour}${line.dash.length ? " dashed" : ""}` });
  const button = make("button", { type: "button", "aria-pressed": "true", title: "Show or hide this line", on: { click: () => {
    line.shown = !line.shown;
    button.setAttribute("aria-pressed", String(line.shown));
    redraw(one);
  } } }, swatch, make("span", { text: line.label }), " ", make("span", { class: "value" }));
  return button;
}

function keys(one, event) {
  const { plot } = one, steps = plot.data[0], [from, to] = range();
  if (event.key === "+" || event.key === "=" || event.key === "-") {
    const middle = plot.cursor.idx === null ? (from + to) / 2 : steps[plot.cursor.idx];
    const half = ((to - from) / 2) * (event.key === "-" ? 2 : 0.5);
    zoomTo([middle - half, middle + half]);
  } else if (event.key === "0") {
    zoomTo(null);
  } else {
    const at = rove(steps, plot.cursor.idx ?? (event.key === "ArrowLeft" ? steps.length : -1), event.key, 10);
    if (at === null) return;
    plot.setCursor({ left: plot.valToPos(steps[at], "x"), top: 20 });
  }
  event.preventDefault();
}

/** Take over new numbers of the same runs. False where a chart that was not there is due: then all are made anew. */
function updateCurves(runs) {
  const there = new Set(view.cards.map((one) => one.chart));
  const charts = SECTIONS.flatMap(([, each]) => each);
  if (charts.some((chart) => !there.has(chart) && linesOf(chart, runs).length)) return false;
  view.runs = runs;
  view.full = fullRange(runs);
  for (const one of view.cards) {
    const hidden = new Set(one.lines.filter((line) => !line.shown).map((line) => line.label));
    const before = one.lines.length;
    one.lines = linesOf(one.chart, runs);
    one.lines.forEach((line) => { line.shown = !hidden.has(line.label); });
    if (one.lines.length !== before) one.legend.replaceChildren();
    redraw(one);
  }
  return true;
}
