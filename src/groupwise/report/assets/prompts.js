// Pass rate per prompt over time, as a map: a row for each prompt, a column for each stretch of steps.

function showPrompts(runs, browser) {
  const maps = runs.flatMap((run, place) => [["training", "training"], ["evaluation", "evaluations"]]
    .filter(([source]) => run.pass_rates[source])
    .map(([source, word]) => ({ ...run.pass_rates[source], source, run: place, title: `${runs.length > 1 ? `${run.name}: ` : ""}prompts of ${word}` })));
  if (!maps.length) return section("prompts", "Pass rate by prompt", make("p", { class: "note", text: "Nothing was scored." }));
  return section("prompts", "Pass rate by prompt", ...maps.map((map) => heatMap(map, browser)));
}

function heatMap(map, browser) {
  const told = make("output", { class: "told", text: " " });
  const cells = [], width = map.spans.length;
  const rows = map.prompts.map((prompt) => make("tr", {},
    make("th", { scope: "row" }, make("bdi", { text: prompt.title })),
    ...prompt.cells.map((cell, place) => {
      const td = make("td", { role: "gridcell", "aria-label": cellWords(map, prompt, place) });
      if (cell && cell[1]) td.style.setProperty("--rate", `${Math.round((100 * cell[0]) / cell[1])}%`);
      td.className = cell ? (cell[1] ? "judged" : "unjudged") : "";
      cells.push({ td, prompt, place });
      return td;
    })));
  const body = make("table", { class: "heat", role: "grid", tabindex: 0, "aria-label": `${map.title}; arrow keys go from cell to cell, Enter shows the groups` },
    make("tbody", {}, ...rows));
  body.style.setProperty("--columns", width);
  const state = { at: -1 };
  const look = (at) => {
    cells[state.at]?.td.classList.remove("looked-at");
    state.at = at;
    cells[at].td.classList.add("looked-at");
    told.textContent = cellWords(map, cells[at].prompt, cells[at].place);
  };
  const open = () => state.at >= 0 && browser.search(cells[state.at].prompt.id, map.source).then(() => document.getElementById("groups").scrollIntoView());
  const under = (event) => cells.findIndex(({ td }) => td === event.target);
  body.addEventListener("pointerover", (event) => under(event) >= 0 && look(under(event)));
  body.addEventListener("click", (event) => under(event) >= 0 && open());
  body.addEventListener("focus", () => state.at < 0 && look(0));
  body.addEventListener("keydown", (event) => {
    const at = rove(cells, state.at, event.key, width);
    if (event.key === "Enter") open();
    else if (at !== null) look(at);
    else return;
    event.preventDefault();
  });
  const what = map.verdicts ? "share judged right" : "mean reward, from the lowest to the highest of all";
  const more = map.left_out ? ` The ${map.prompts.length} prompts visited most often; ${map.left_out.toLocaleString("en")} more are left out.` : "";
  return make("div", { class: "map" }, make("h3", { text: map.title }),
    make("p", { class: "note" }, make("span", { class: "scale", "aria-hidden": "true" }), ` ${what}, from 0 to 1; blank where a prompt was not asked. Steps ${map.spans[0][0]} to ${map.spans.at(-1)[1]}.${more} A click, or Enter, shows a prompt's groups.`),
    body, told);
}

function cellWords(map, prompt, place) {
  const [first, last] = map.spans[place], cell = prompt.cells[place];
  const when = first === last ? `step ${first}` : `steps ${first} to ${last}`;
  const rate = !cell ? "not asked" : !cell[1] ? "not judged" : map.verdicts ? `${cell[0]} of ${cell[1]} right` : `${number(cell[0] / cell[1])} of 1`;
  return `${prompt.title.slice(0, 60)} · ${when} · ${rate}`;
}
