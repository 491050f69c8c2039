// Times, bytes, passes and waits in words. A span is [start, end, wait, by, travel, kind, chunk, microbatch,
// (the same three of a second pass)]; all times are nanoseconds.
const KINDS = ["F", "B", "W", "BW", "S", "T", "R"];

function text(ns) {
  const units = [[1e9, "s"], [1e6, "ms"], [1e3, "us"]];
  const unit = units.find(([size]) => Math.abs(ns) >= size);
  return unit ? (ns / unit[0]).toFixed(3) + " " + unit[1] : ns + " ns";
}

function bytes(count) {
  const units = [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]];
  const unit = units.find(([size]) => count >= size);
  return unit ? (count / unit[0]).toFixed(2) + " " + unit[1] : count + " B";
}

function passes(span) {
  const all = [];
  for (let i = 5; i < span.length; i += 3) all.push(span.slice(i, i + 3));
  return all;
}

const name = (span) => passes(span).map(([k, c, m]) => KINDS[k] + c + "." + m).join("&");

function waited(span, before) {
  const [start, , wait, by, travel] = span;
  const gap = start - before;
  const lines = [];
  const what = ["nothing", "the slot before it", "a value from stage " + by + ", " + text(travel) +
    " on its way", "the device, which stage " + by + " had", "what stage " + by + " was sending",
    "its activation on the way from the host", "room, until an activation was on the host",
    "the end of the step before", "a collective of all stages, " + text(travel) +
    " long, set off by stage " + by, "its parameters, which were being gathered"];
  lines.push("waited for: " + what[wait]);
  if (gap > 0) {
    const carried = wait === 2 || wait === 8;
    const sent = carried ? Math.min(gap, travel) : 0;
    const causes = carried
      ? "on its way " + text(sent) + ", work of stage " + by + " " + text(gap - sent)
      : null;
    lines.push("idle before it: " + text(gap) + (causes ? " (" + causes + ")" : ""));
  }
  return lines;
}

// The first of `list` whose value at `key` is larger than `time`; the values ascend.
function after(list, key, time) {
  let low = 0, high = list.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (list[middle][key] > time) high = middle; else low = middle + 1;
  }
  return low;
}

// Gives `row` the list `name`, which is read when it is first asked for.
function lazily(row, name, read) {
  let list = null;
  Object.defineProperty(row, name, { get: () => list || (list = read()) });
  return row;
}
