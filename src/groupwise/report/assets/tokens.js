// One completion, token by token: tinted by how hard the update pushed each one, with its log-prob where one looks.

/** Strongest coefficient of a group, so that tints compare among siblings. */
function strongest(group) {
  let most = 0;
  for (const one of group.completions) for (const value of one.coefficients ?? []) most = Math.max(most, Math.abs(value ?? 0));
  return most;
}

/** A token as it is shown: line breaks and tabs get a mark and stay what they are. */
function tokenText(text) {
  return visible(text).replace(/\n/g, "↵\n").replace(/\t/g, "⇥\t");
}

/** The text of a completion with a line below that says what is known of the token in focus or under the pointer. */
function completionText(one, most) {
  if (!one.texts) {
    const note = one.tokens ? "The ledger of this run has no text for each token, so nothing is tinted." : null;
    return [make("div", { class: "text", tabindex: 0, role: "group", "aria-label": "completion" }, one.text, leftOut(one, "characters")), note && make("p", { class: "note", text: note })];
  }
  const rest = `${count(one.tokens, "token")}${one.log_probs ? `, mean log-prob ${number(mean(one.log_probs))}` : ""}`;
  const told = make("output", { class: "told", text: rest });
  const spans = one.texts.map((text, place) => tokenSpan(one, text, place, most));
  const box = make("div", { class: "text tokens", tabindex: 0, role: "group", "aria-label": `completion, ${one.texts.length} tokens; arrow keys go from token to token` }, ...spans, leftOut(one, "tokens"));
  const state = { at: -1 };
  const look = (place) => {
    spans[state.at]?.classList.remove("looked-at");
    state.at = place;
    spans[place]?.classList.add("looked-at");
    told.textContent = place < 0 ? rest : tokenWords(one, place);
  };
  box.addEventListener("pointerover", (event) => {
    const place = spans.indexOf(event.target.closest(".token"));
    if (place >= 0) look(place);
  });
  box.addEventListener("focus", () => state.at < 0 && look(0));
  box.addEventListener("keydown", (event) => {
    const place = rove(spans, state.at, event.key);
    if (place === null || !spans.length) return;
    event.preventDefault();
    look(place);
    spans[place].scrollIntoView({ block: "nearest" });
  });
  return [box, told];
}

function tokenSpan(one, text, place, most) {
  const value = one.coefficients?.[place] ?? 0;
  const span = make("bdi", { class: "token" }, text === "" ? "·" : tokenText(text));
  if (value && most) {
    span.classList.add(value > 0 ? "up" : "down");
    span.style.setProperty("--tint", `${Math.round(8 + 47 * Math.min(1, Math.abs(value) / most))}%`);
  }
  return span;
}

function tokenWords(one, place) {
  const log = one.log_probs?.[place], value = one.coefficients?.[place];
  const words = [`token ${place + 1} of ${one.tokens}: “${visible(one.texts[place]).replace(/\n/g, "↵")}”`];
  if (log !== null && log !== undefined) words.push(`log-prob ${number(log)} (${(100 * Math.exp(log)).toPrecision(3)} %)`);
  const name = one.are_advantages ? "advantage" : "coefficient";
  words.push(value === null || value === undefined ? "not trained on" : `${name} ${signed(value)}`);
  return words.join(" · ");
}

function leftOut(one, what) {
  return one.left_out ? make("span", { class: "left-out", text: ` … ${one.left_out.toLocaleString("en")} more ${what} are not in this file` }) : null;
}

function mean(values) {
  const known = values.filter((value) => value !== null);
  return known.length ? known.reduce((sum, value) => sum + value, 0) / known.length : null;
}
