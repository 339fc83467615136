// The groups: a list to choose from, and the one that is open, its siblings side by side.

const PAGE = 40;
const CHOICES = [["all", "all groups"], ["mixed", "mixed: some did better than others"], ["surprising", "most surprising first"],
  ["longest", "longest first"], ["not scored", "with a completion not scored"], ["cut off", "with a completion cut off"], ["dropped", "dropped"]];

/** Groups that stand in the page, asked in the same words as a server is. */
function embedded(run) {
  const tests = { mixed: (group) => group.mixed, surprising: (group) => group.surprise > 0,
    "not scored": (group) => group.not_scored, "cut off": (group) => group.cut_off, dropped: (group) => !group.kept };
  const orders = { surprising: (a, b) => b.surprise - a.surprise, longest: (a, b) => b.longest - a.longest };
  const texts = (group) => [group.prompt_id, group.prompt, ...group.completions.flatMap((one) => [one.texts?.join("") ?? one.text, one.reason ?? ""])];
  return {
    find: async ({ show, search, source, offset }) => {
      const wanted = search.toLowerCase();
      let found = run.groups.filter((group) => group.source === source && (tests[show]?.(group) ?? true));
      if (wanted) found = found.filter((group) => texts(group).some((text) => text.toLowerCase().includes(wanted)));
      if (orders[show]) found = [...found].sort(orders[show]);
      return { total: found.length, groups: found.slice(offset, offset + PAGE) };
    },
    read: async (group) => group,
  };
}

/** Groups that a server reads from the ledger when they are asked for. */
function served(place) {
  const ask = async (path, words) => {
    const answer = await fetch(`${path}?${new URLSearchParams({ run: place, ...words })}`);
    if (!answer.ok) throw new Error(await answer.text());
    return answer.json();
  };
  return {
    find: (words) => ask("groups", { ...words, count: PAGE }),
    read: (group) => ask("group", { source: group.source, step: group.step, id: group.id }),
  };
}

function showGroups(runs, live) {
  const stores = runs.map((run, place) => (live ? served(place) : embedded(run)));
  const browser = { stores, asked: 0, offset: 0, list: make("ol", { class: "group-list", "aria-label": "groups" }),
    status: make("p", { class: "note", role: "status" }), open: make("div", { id: "group", tabindex: -1, "aria-live": "polite" }) };
  const select = (id, label, options) => {
    const control = make("select", { id, on: { change: () => find(browser) } }, ...options.map(([value, text]) => make("option", { value, text })));
    return [control, make("label", { for: id, text: label }, control)];
  };
  const [run, runLabel] = select("group-run", "Run ", runs.map((each, place) => [place, each.name]));
  const [show, showLabel] = select("group-show", "Show ", CHOICES);
  const [source, sourceLabel] = select("group-source", "From ", [["training", "training"], ["evaluation", "evaluations"]]);
  const search = make("input", { type: "search", id: "group-search", placeholder: "prompt, completion or reason", on: { input: () => later(browser) } });
  browser.more = make("button", { type: "button", class: "more", text: "More", on: { click: () => find(browser, browser.offset + PAGE) } });
  browser.words = () => ({ show: show.value, search: search.value, source: source.value, run: Number(run.value) });
  browser.search = (text, from) => { search.value = text; source.value = from; show.value = "all"; return find(browser); };
  if (runs.every((each) => !each.recorded.training && each.recorded.evaluation)) source.value = "evaluation";
  if (runs[0].mixed) show.value = "mixed";
  find(browser);
  const filters = make("form", { class: "toolbar", on: { submit: (event) => event.preventDefault() } },
    runs.length > 1 ? runLabel : null, showLabel, sourceLabel, make("label", { for: "group-search", text: "Holding " }, search));
  const about = make("p", { class: "note", text: "A group is one prompt with all its completions. Squares: filled is right, or a reward above the group's mean; hollow is not; ? was not scored. Surprising is a reward unlike its siblings' on a completion that the policy found improbable." });
  return [browser, section("groups", "Groups", about, live ? null : leftOutWords(runs), gone(runs), filters, browser.status,
    make("div", { class: "browser" }, make("div", { class: "chooser" }, browser.list, browser.more), browser.open))];
}

function leftOutWords(runs) {
  const words = runs.map((run) => {
    const all = run.recorded.training + run.recorded.evaluation;
    return `${runs.length > 1 ? `${run.name}: ` : ""}${run.groups.length.toLocaleString("en")} of ${count(all, "group")}`;
  });
  const kinds = data.bounds.kinds.join(", ");
  return make("p", { class: "note", text: `In this file: ${words.join("; ")}, taken in turn from these kinds: ${kinds}; of a completion its first ${data.bounds.tokens.toLocaleString("en")} tokens. The command groupwise watch shows them all.` });
}

/** Files that the ledger dropped to stay under its cap. */
function gone(runs) {
  const words = runs.filter((run) => run.dropped_steps).map((run) => `the oldest ${count(run.dropped_steps, "step")} of ${run.name}`);
  return words.length ? make("p", { class: "note", text: `Dropped from the ledger, to stay under its cap: ${words.join("; ")}.` }) : null;
}

function later(browser) {
  clearTimeout(browser.timer);
  browser.timer = setTimeout(() => find(browser), 200);
}

/** Fill the list with what the controls ask for; answers that come after a newer question are dropped. */
async function find(browser, offset = 0) {
  const asked = (browser.asked += 1), { run, ...words } = browser.words();
  let answer;
  try {
    answer = await browser.stores[run].find({ ...words, offset });
  } catch (error) {
    browser.status.textContent = `The groups can't be read: ${visible(error.message)}`;
    return;
  }
  if (asked !== browser.asked) return;
  browser.offset = offset;
  const items = answer.groups.map((group) => make("li", {}, listed(browser, group, run)));
  if (offset === 0) browser.list.replaceChildren(...items);
  else browser.list.append(...items);
  browser.more.hidden = offset + answer.groups.length >= answer.total;
  browser.status.textContent = answer.total ? `${count(answer.total, "group")} found` : "No group is like this.";
  if (offset === 0 && answer.groups.length && !browser.open.children.length) openGroup(browser, answer.groups[0], run, browser.list.querySelector("button"));
}

function listed(browser, group, run) {
  const button = make("button", { type: "button", "aria-label": `step ${group.step}, ${outcome(group)}: ${group.title}`, on: {
    click: () => openGroup(browser, group, run, button, true),
  } }, make("span", { class: "where", text: `step ${group.step}${group.kept ? "" : " · dropped"}` }), squares(group), make("bdi", { class: "title", text: group.title }));
  return button;
}

/** How a group ended, in words. */
function outcome(group) {
  const size = group.rewards.length;
  if (!group.scored) return count(size, "completion");
  if (group.correct.some((verdict) => verdict !== null)) return `${group.correct.filter(Boolean).length} of ${size} right`;
  return `mean reward ${number(mean(group.rewards))} of ${size}`;
}

function squares(group) {
  const middle = mean(group.rewards);
  const kinds = group.rewards.map((reward, place) => {
    if (!group.scored) return "none";
    if (reward === null) return "unknown";
    return (group.correct[place] ?? reward > middle) ? "good" : "bad";
  });
  return make("span", { class: "squares", "aria-hidden": "true" }, ...kinds.slice(0, 32).map((kind) => make("span", { class: kind, text: kind === "unknown" ? "?" : "" })));
}

async function openGroup(browser, entry, run, button, move = false) {
  let group;
  try {
    group = await browser.stores[run].read(entry);
  } catch (error) {
    browser.status.textContent = `The group can't be read: ${visible(error.message)}`;
    return;
  }
  browser.list.querySelector("[aria-current]")?.removeAttribute("aria-current");
  button?.setAttribute("aria-current", "true");
  const most = strongest(group), advantages = group.completions.some((one) => one.are_advantages);
  const dropped = group.kept ? "" : ` · dropped: ${group.dropped_because ?? ""}`;
  browser.open.replaceChildren(
    make("h3", { text: `Step ${group.step}, ${group.stage}, group ${group.id}` }),
    make("p", { class: "note", text: `${outcome(group)}${dropped}` }),
    make("div", { class: "text prompt", tabindex: 0, role: "group", "aria-label": "prompt" },
      group.prompt_left_out ? make("span", { class: "left-out", text: `${count(group.prompt_left_out, "character")} before this are not in this file … ` }) : null, make("bdi", { text: group.prompt })),
    columnsOf(group.columns), key(most, advantages),
    make("div", { class: "siblings" }, ...group.completions.map((one) => sibling(one, most, group.scored))));
  if (move && browser.open.getBoundingClientRect().top > innerHeight * 0.6) browser.open.scrollIntoView({ block: "start" });
}

function columnsOf(columns) {
  const names = Object.keys(columns);
  if (!names.length) return null;
  const text = (value) => (typeof value === "string" ? value : JSON.stringify(value));
  return make("details", { class: "columns" }, make("summary", { text: `The row's other columns: ${names.join(", ")}` }),
    pairs(names.map((name) => [name, text(columns[name])])));
}

function key(most, advantages) {
  if (!most) return make("p", { class: "note", text: "Nothing in this group was pushed: every coefficient is 0 or unknown." });
  const what = advantages ? "advantage, as coefficients were not recorded" : "gradient coefficient";
  return make("p", { class: "note key" }, "Tint: ", make("span", { class: "token up full", text: "made likelier" }), " ",
    make("span", { class: "token down full", text: "made less likely" }), ` by the ${what}; full at ±${number(most)}.`);
}

function sibling(one, most, scored) {
  const verdict = one.correct === true ? "right" : one.correct === false ? "wrong" : "";
  const value = one.reward !== null ? `reward ${number(one.reward)}` : scored ? "not scored" : "no reward";
  const parts = Object.entries(one.parts).filter(([, part]) => Object.keys(one.parts).length > 1 || part !== one.reward);
  const rows = [
    ["advantage", one.advantage === null ? "none" : one.same_advantage ? signed(one.advantage) : "differs by token"],
    ["ended by", { stop: "a stop token", length: "the token limit", aborted: "being aborted" }[one.finish_reason] ?? one.finish_reason],
    ...parts.map(([name, part]) => [name, number(part)]),
    ...(one.step_rewards ? [["steps", one.step_rewards.map(number).join(", ")]] : []),
  ];
  return make("article", { class: `sibling ${verdict}`, "aria-label": `completion ${one.sample + 1}: ${value} ${verdict}` },
    make("header", {}, make("span", { class: "which", text: `${one.sample + 1}` }), make("strong", { text: value }), verdict ? make("span", { class: "verdict", text: verdict }) : null),
    ...completionText(one, most), pairs(rows), one.reason ? make("p", { class: "reason" }, make("bdi", { text: one.reason })) : null);
}

/** Names and values. */
function pairs(rows) {
  return make("dl", {}, ...rows.flatMap(([name, value]) => [make("dt", { text: name }), make("dd", {}, make("bdi", { text: value }))]));
}
