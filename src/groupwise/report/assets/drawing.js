// What a chart looks like, whatever draws it: smoothed values, ranges, ticks.

const WINDOWS = [1, 3, 5, 9, 15, 25, 51, 101];

/** Running mean over so many points, centred; near the ends over as many as there are on the shorter side. */
function smoothed(values, window) {
  if (window < 2) return values;
  const sums = [0];
  for (const value of values) sums.push(sums.at(-1) + value);
  return values.map((_, place) => {
    const half = Math.min((window - 1) / 2, place, values.length - 1 - place);
    return (sums[place + half + 1] - sums[place - half]) / (2 * half + 1);
  });
}

/** The values of a line smoothed within each stage: what one stage ends with says nothing of the next. */
function smoothedLine(line, window) {
  const bounds = [0, ...line.begins.map((step) => line.steps.findIndex((each) => each >= step)).filter((place) => place > 0), line.steps.length];
  return bounds.slice(1).flatMap((end, place) => smoothed(line.values.slice(bounds[place], end), window));
}

/** Lowest and highest of the axis for values between these two, with room; a quantity that has no negatives keeps 0. */
function rangeOf(low, high) {
  if (low === null || high === null || !Number.isFinite(low) || !Number.isFinite(high)) return [0, 1];
  const room = (high - low) * 0.08 || Math.abs(high) * 0.1 || 1;
  return [low >= 0 ? Math.max(0, low - room) : low - room, high + room];
}

/** Lowest and highest value of the shown lines between two steps, their intervals included; nulls where there is none. */
function extent(lines, from, to) {
  let low = null, high = null;
  for (const line of lines.filter((one) => one.shown)) {
    line.steps.forEach((step, place) => {
      if (step < from || step > to) return;
      for (const value of [line.values[place], ...(line.interval?.get(step) ?? [])]) {
        if (value === null) continue;
        low = low === null ? value : Math.min(low, value);
        high = high === null ? value : Math.max(high, value);
      }
    });
  }
  return [low, high];
}

/** Round numbers between two ends, about so many. */
function ticks(low, high, about) {
  const rough = (high - low) / about, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough) ?? rough;
  const found = [];
  for (let tick = Math.ceil(low / step); tick * step <= high + step * 1e-9; tick += 1) found.push(tick * step);
  return found;
}

/** What a chart says in one sentence to one who can't see it. */
function sentence(chart, lines) {
  const told = lines.map((line) => {
    const last = line.values.length - 1;
    return `${line.label} from ${number(line.values[0])} at step ${line.steps[0]} to ${number(line.values[last])} at step ${line.steps[last]}`;
  });
  return `${chart.title}: ${told.join("; ")}.`;
}
