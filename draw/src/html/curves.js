// What devices hold, and what travels between stages, over time.
class Curve extends Chart {
  take(data, height) {
    const most = data.memory.reduce((all, [, peak]) => Math.max(all, peak), 0);
    const row = ([device, peak, packed]) => lazily({ name: "device " + device, short: String(device), most,
      peak, limit: data.limits ? data.limits[device] : null }, "points", () => readCurve(packed));
    this.title = "memory of each device, " + data.name + " (full height: " + bytes(most) + ")";
    this.fill(data.memory.map(row), height);
  }
  paint(pen, row, top) {
    const most = row.most || 1, tall = this.height - 3, points = row.points, { view, theme } = this.board;
    const end = this.x(Math.max(view[1], this.board.end)), high = (level) => top + tall - level / most * tall;
    pen.beginPath();
    pen.moveTo(this.left, top + tall);
    let level = 0;
    for (let at = Math.max(after(points, 0, view[0]) - 1, 0); at < points.length; at++) {
      const x = this.x(points[at][0]);
      pen.lineTo(x, high(level));
      level = points[at][1];
      pen.lineTo(x, high(level));
      if (points[at][0] > view[1]) break;
    }
    pen.lineTo(end, high(level));
    pen.lineTo(end, top + tall);
    pen.closePath();
    pen.fillStyle = theme.area;
    pen.fill();
    pen.strokeStyle = theme.curve;
    pen.stroke();
    if (row.limit && row.limit <= most) {
      pen.strokeStyle = theme.mark;
      pen.setLineDash([4, 3]);
      pen.strokeRect(this.left, high(row.limit), this.width(), 0);
      pen.setLineDash([]);
    }
  }
  hover(row, time) {
    const at = after(row.points, 0, time) - 1;
    return [row.name, bytes(at < 0 ? 0 : row.points[at][1]) + " at " + text(Math.round(time)),
      "peak " + bytes(row.peak)];
  }
}

class Links extends Chart {
  take(data, height) {
    const row = (one) => lazily({ name: one[0] + " to " + one[1], short: one[0] + "-" + one[1] }, "sent",
      () => readTransfers(one));
    this.title = "transfers, " + data.name;
    this.fill(data.transfers.map(row), height);
  }
  // A transfer is [from, to, made, end, gradient, chunk, microbatch].
  paint(pen, row, top) {
    const { view, wanted, colours } = this.board;
    for (const one of row.sent) {
      if (one[2] > view[1]) break;
      if (one[3] < view[0]) continue;
      const from = this.x(one[2]), hit = wanted === null || one[6] === wanted;
      pen.globalAlpha = hit ? 0.7 : 0.1;
      pen.fillStyle = colours[one[4]][0];
      pen.fillRect(from, top, Math.max(this.x(one[3]) - from, 0.7), this.height - 1);
    }
    pen.globalAlpha = 1;
  }
  hover(row, time) {
    const at = row.sent.filter((one) => one[2] <= time && time <= one[3]).slice(0, 6);
    return [row.name].concat(at.length ? at.map((one) => (one[4] ? "gradient" : "output") + " " +
      one[5] + "." + one[6] + ": " + text(one[2]) + " to " + text(one[3])) : ["nothing on its way"]);
  }
}
