// The page from top to bottom, and its renewal while a run goes on.

const data = JSON.parse(document.getElementById("data").textContent);
const POLL = 3000;
let browser;

function headOf(runs) {
  const links = [["alarms", "Alarms"], ["objective", "Objective"], ["curves", "Curves"], ["groups", "Groups"], ["prompts", "Prompts"], ["settings", "Settings"]];
  return [
    make("h1", { text: runs.map((run) => run.name).join(" and ") }),
    make("p", { class: "note", id: "made", text: data.live ? "Live: renewed every few seconds." : `Written by groupwise, ${data.made}.` }),
    make("nav", { "aria-label": "Sections" }, make("ul", {}, ...links.map(([id, text]) => make("li", {}, make("a", { href: `#${id}`, text }))))),
  ];
}

function showFacts(runs) {
  return section("facts", runs.length > 1 ? "The runs" : "The run", make("div", {}, ...runs.map((run) => make("div", {},
    runs.length > 1 ? make("h3", { text: run.name }) : null, make("div", { class: "beside" }, pairs(run.facts), changesOf(run))))));
}

/** The table that training ends with. */
function changesOf(run) {
  if (!run.changes.length) return null;
  const head = ["", "before", "after", "difference [95\u00a0%]"].map((text) => make("th", { scope: "col", text }));
  const rows = run.changes.map((change) => make("tr", {}, make("th", { scope: "row", text: change.name }),
    make("td", { text: number(change.before) }), make("td", { text: number(change.after) }),
    make("td", { text: change.difference === null ? "" : `${signed(change.difference)}${change.interval ? ` [${change.interval.map(signed).join(", ")}]` : ""}` })));
  return make("div", { class: "wide" }, make("table", { class: "changes" },
    make("caption", { text: "What changed: in training from the first to the last quarter of the last stage's steps; on test prompts from the first to the last evaluation" }),
    make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...rows)));
}

function showAlarms(runs) {
  const body = runs.flatMap((run) => [
    runs.length > 1 ? make("h3", { text: run.name }) : null,
    run.alarms.findings.length ? make("ul", { class: "findings" }, ...run.alarms.findings.map(finding))
      : make("p", { text: run.alarms.checked.length ? "Nothing was out of the ordinary." : "Nothing could be looked at yet." }),
    run.alarms.checked.length ? make("p", { class: "note", text: `Looked at: ${run.alarms.checked.join(", ")}.` }) : null,
  ]);
  return section("alarms", "What the alarms say", ...body);
}

function when({ since, until }) {
  return until === null || until === undefined ? ` since step ${since}` : ` from step ${since} to ${until}`;
}

function finding(said) {
  return make("li", { class: said.severity === "serious" ? "finding serious" : "finding" },
    make("h4", {}, make("span", { text: said.alarm }), make("span", { class: "note", text: when(said) })),
    make("p", { text: said.seen }), make("p", { class: "note", text: said.why }),
    make("p", {}, make("strong", { text: "Try: " }), coded(said.advice)));
}

function showObjective(runs) {
  const told = (run) => (run.objective === null
    ? make("p", { class: "note", text: `Not recorded with this run; groupwise explain ${run.folder}/run.toml says it.` })
    : make("pre", { tabindex: 0, text: run.objective }));
  return section("objective", "What is maximised", ...runs.flatMap((run) => [runs.length > 1 ? make("h3", { text: run.name }) : null, told(run)]));
}

function showSettings(runs) {
  return section("settings", "Settings", ...runs.map((run) => make("details", {}, make("summary", { text: `run.toml of ${run.name}` }), make("pre", { tabindex: 0, text: run.settings }))));
}

/** Put a section in place of the one with its name, unless a reader is in it. */
function renew(fresh) {
  const old = document.getElementById(fresh.id);
  if (old && !old.contains(document.activeElement)) old.replaceWith(fresh);
}

function show(runs) {
  document.getElementById("head").replaceChildren(...headOf(runs));
  const [made, groups] = showGroups(runs, data.live);
  browser = made;
  document.getElementById("main").replaceChildren(showFacts(runs), showAlarms(runs), showObjective(runs), showCurves(runs, data.live),
    groups, showPrompts(runs, browser), showSettings(runs));
  const thin = runs.some((run) => run.thinned);
  document.getElementById("foot").replaceChildren(make("p", { class: "note", text:
    `${thin ? `Curves longer than ${data.bounds.points} points show the lowest and the highest value of each stretch. ` : ""}Nothing on this page is asked from elsewhere. Curves are drawn with uPlot (MIT licence).` }));
}

async function poll(seen) {
  const note = document.getElementById("made");
  try {
    const answer = await fetch(`state?seen=${encodeURIComponent(seen)}`);
    if (answer.status === 200) {
      const { state, runs } = await answer.json();
      seen = state;
      [showFacts, showAlarms].forEach((part) => renew(part(runs)));
      renew(showPrompts(runs, browser));
      if (!updateCurves(runs)) document.getElementById("curves").replaceWith(showCurves(runs, true));
      if (browser.offset === 0 && !document.getElementById("groups").contains(document.activeElement)) find(browser);
    }
    note.textContent = `Live: renewed every few seconds, last at ${new Date().toLocaleTimeString()}.`;
  } catch {
    note.textContent = "The server has ended: this is how far it came.";
  }
  setTimeout(poll, POLL, seen);
}

show(data.runs);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => view.cards.forEach(redraw));
if (data.live) setTimeout(poll, POLL, data.state);
