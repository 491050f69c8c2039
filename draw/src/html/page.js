// The page: its charts, and the bar above them.
const data = JSON.parse(document.getElementById("data").textContent);
const el = (id) => document.getElementById(id);
const charts = new Charts(el("charts"), {
  tip: el("tip"),
  said: el("said"),
  legend: true,
  shown: (range, narrow) => {
    el("range").textContent = range;
    el("narrow").textContent = narrow;
  },
});
charts.take(data);
legend(el("legend"), data);
el("in").onclick = () => charts.zoom(0.5);
el("out").onclick = () => charts.zoom(2);
el("fit").onclick = () => charts.fit();
el("search").oninput = () => {
  const value = el("search").value;
  charts.find(value === "" ? null : Number(value));
};
el("axis").textContent = data.axis;
el("left-out").textContent = data.left_out || "";
