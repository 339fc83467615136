// Which curves stand together. A chart without a single number in any of the runs is left out, and so is one of parts
// where there is one part: it is the reward itself.

const SECTIONS = [
  ["What is rewarded", [
    { id: "reward", title: "Reward", about: "Mean over the scored completions of a step, and the share judged right.",
      series: [["reward_mean", "reward"], ["correct_mean", "judged right"]] },
    { id: "parts", title: "Parts of the reward", about: "Mean of each named part. One that rises while others fall is a reward being gamed.",
      least: 2, prefix: "reward_parts." },
    { id: "evaluation", title: "Evaluation", about: "On test prompts, with 95 % intervals that take prompts as the independent draws.",
      points: true, series: [["eval.reward", "test reward", "eval.reward_interval"], ["eval.correct", "judged right"]] },
    { id: "evaluation-parts", title: "Evaluation, by part", about: "Mean of each named part on test prompts.",
      points: true, least: 2, prefix: "eval.reward_parts." },
    { id: "held-out", title: "Held out", about: "Loss and accuracies on rows that nothing trains on, with 95 % intervals.",
      points: true, prefix: "eval.held_out.", interval: "eval.held_out_interval." },
    { id: "spread", title: "Spread of rewards", about: "Standard deviation over the completions of a step.",
      series: [["reward_std", "standard deviation"]] },
  ]],
  ["How the policy moves", [
    { id: "entropy", title: "Entropy", about: "Nats per trained token. Near 0 nothing is tried any more; a rise without end is noise.",
      series: [["entropy", "entropy"]] },
    { id: "kl", title: "KL from the reference", about: "Nats per trained token, by two estimators.",
      series: [["kl_k1", "k1"], ["kl_k3", "k3"]] },
    { id: "clip", title: "Clipped tokens", about: "Share of trained tokens whose gradient was clipped away, by side.",
      series: [["clip_fraction_low", "below"], ["clip_fraction_high", "above"]] },
    { id: "ratio", title: "Largest ratio", about: "Largest importance ratio of a step; 1 with one update per rollout.",
      series: [["ratio_max", "largest ratio"]] },
    { id: "gradient", title: "Gradient norm", about: "Before clipping.",
      series: [["grad_norm", "policy"], ["critic_grad_norm", "critic"]] },
    { id: "rate", title: "Learning rate", about: "What the schedule gives each step.", plain: true, series: [["learning_rate", "learning rate"]] },
    { id: "loss", title: "Loss", about: "Near 0 in group-relative methods, whatever is learned.",
      series: [["loss", "policy"], ["value_loss", "critic"]] },
    { id: "gap", title: "Sampler gap", about: "Largest difference between a token's log-prob when sampled and when trained on.",
      series: [["sampler_gap_max", "largest"], ["sampler_gap_mean", "mean"]] },
  ]],
  ["What is written", [
    { id: "length", title: "Length", about: "Tokens of a completion: right ones and wrong ones apart where there are verdicts.",
      series: [["completion_length_mean", "all"], ["correct_length_mean", "right"], ["wrong_length_mean", "wrong"]] },
    { id: "shares", title: "Lost completions", about: "Share of groups without signal, of completions cut off, not scored, and of groups dropped.",
      series: [["frac_degenerate_groups", "no signal"], ["frac_truncated", "cut off"], ["frac_not_scored", "not scored"],
        ["frac_dropped_groups", "dropped"]] },
    { id: "repetition", title: "Repetition", about: "Share of a completion that repeats itself.", series: [["repetition_mean", "repeated"]] },
  ]],
  ["What it costs", [
    { id: "speed", title: "Tokens per second", about: "While sampling, and while updating.", prefix: "tokens_per_second." },
    { id: "seconds", title: "Seconds by phase", about: "Wall-clock seconds of a step.", prefix: "seconds." },
    { id: "memory", title: "Memory", about: "Largest resident memory so far, MiB.", series: [["peak_rss_mb", "memory"]] },
  ]],
];

const DASHES = [[], [7, 4], [2, 3], [9, 3, 2, 3], [4, 4], [1, 4], [12, 4], [6, 2, 2, 2]];

/** The lines of a chart over all runs: one run has a colour for each line, several have a colour for each run. */
function linesOf(chart, runs) {
  const names = chart.series ?? prefixed(chart, runs);
  const lines = [];
  if (names.length < (chart.least ?? 1)) return lines;
  runs.forEach((run, place) => {
    names.forEach(([name, label, interval], number) => {
      const curve = run.curves[name];
      if (!curve) return;
      const several = runs.length > 1;
      lines.push({
        name, label: several ? `${run.name}: ${label}` : label,
        colour: `line-${(several ? place : number) % 8}`,
        dash: DASHES[(several ? number : Math.floor(number / 8)) % DASHES.length],
        steps: curve[0], values: curve[1], interval: intervalOf(run, interval), shown: true,
        begins: run.stages.map(([, step]) => step),
      });
      if (lines.slice(0, -1).some((other) => alike(other, lines.at(-1)))) lines.at(-1).dash = DASHES[1];
    });
  });
  return lines;
}

/** Whether one line would hide the other. */
function alike(one, other) {
  return one.values.length === other.values.length && one.values.every((value, place) => value === other.values[place]);
}

/** Step to [low, high]. */
function intervalOf(run, name) {
  const low = name && run.curves[`${name}.low`], high = name && run.curves[`${name}.high`];
  if (!low || !high) return null;
  const ends = new Map(low[0].map((step, place) => [step, [low[1][place], null]]));
  high[0].forEach((step, place) => ends.has(step) && (ends.get(step)[1] = high[1][place]));
  return ends;
}

function prefixed(chart, runs) {
  const names = new Set(runs.flatMap((run) => Object.keys(run.curves).filter((name) => name.startsWith(chart.prefix))));
  return [...names].map((name) => {
    const label = name.slice(chart.prefix.length);
    return [name, label.replaceAll("_", " "), chart.interval && chart.interval + label];
  });
}

/** Charts for numbers that no chart above shows, one each. */
function otherCharts(runs) {
  const taken = new Set();
  for (const chart of SECTIONS.flatMap(([, charts]) => charts)) {
    for (const [name, , interval] of chart.series ?? prefixed(chart, runs)) {
      [name, `${interval}.low`, `${interval}.high`].forEach((one) => taken.add(one));
    }
  }
  const names = new Set(runs.flatMap((run) => Object.keys(run.curves)));
  return [...names].filter((name) => !taken.has(name)).sort().map((name) => ({
    id: `other-${name.replace(/[^A-Za-z0-9_-]/g, "-")}`, title: name, about: "", points: name.startsWith("eval."),
    series: [[name, name]],
  }));
}
