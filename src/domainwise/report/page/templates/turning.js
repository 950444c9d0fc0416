const dark = matchMedia("(prefers-color-scheme: dark)");
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const fish = () => colour("--series-2") || "#d55e00", arith = () => colour("--series-1") || "#0072b2"; // set where it is dark
// Pale, so that what lies on it stands out; the higher, the nearer to the ink.
const scale = () => (dark.matches ? [[0, "#222a33"], [1, "#7c8b9b"]] : [[0, "#dde5ed"], [1, "#8398ae"]]);
const wide = (values) => { const known = values.flat().filter((v) => v !== null); return [Math.min(...known), Math.max(...known)]; };

function traces(scene, domain) {
  const marks = domain.marks;
  const [low, high] = wide(domain.z);
  // A little above the surface, or half of every mark would be inside it.
  const raise = (z) => z.map((v) => (scene.log ? v * (high / low) ** 0.025 : v + 0.025 * (high - low)));
  const ink = colour("--ink"), lines = scene.log ? {} : { start: low, end: high, size: (high - low) / 12 };
  const line = (path, name, shade) => ({
    type: "scatter3d", mode: "lines", name, x: path.x, y: path.y, z: raise(path.z), hoverinfo: "name", line: { color: shade, width: 8 },
  });
  const dots = (mark, name, symbol, shade, size, text) => ({
    type: "scatter3d", mode: text ? "markers+text" : "markers", name, x: mark.x, y: mark.y, z: raise(mark.z), text: mark.names,
    textposition: "top center", textfont: { color: ink, size: 12 }, hovertemplate: "%{text}: %{z:.4g}<extra></extra>",
    marker: { symbol, color: shade, size, line: { color: ink, width: 1 } },
  });
  const found = [
    {
      type: "surface", x: scene.a, y: scene.b, z: domain.z, colorscale: scale(), opacity: 0.95, lighting: { ambient: 0.72, diffuse: 0.45, specular: 0.05 }, showscale: false, name: "loss",
      surfacecolor: scene.log ? domain.z.map((row) => row.map((v) => (v === null ? null : Math.log10(v)))) : domain.z,
      contours: { x: { highlight: false }, y: { highlight: false }, z: { ...lines, show: true, usecolormap: false, color: colour("--soft"), highlight: false, width: 1 } },
      hovertemplate: "loss %{z:.4g}<extra></extra>",
    },
    dots(marks.models, "models", "diamond", colour("--page"), 6, true),
  ];
  found.push(dots(marks.mean, "their mean", "circle", arith(), 6, false));
  if (marks.start) {
    found.push(dots(marks.start, "start", "circle", ink, 5, false));
    found.push(line(marks.fish, "Fish heads for the last", fish()), line(marks.arith, "Arith heads for the mean", arith()));
  }
  return found;
}

function layout(scene, narrow) {
  const [ink, rule] = [colour("--ink"), colour("--line")];
  const axis = { color: ink, gridcolor: rule, zerolinecolor: rule, showspikes: false, showbackground: false, tickfont: { size: 10 } };
  const across = scene.a.at(-1) - scene.a[0], upward = scene.b.at(-1) - scene.b[0], long = Math.max(across, upward);
  const far = narrow ? 1.3 : 1;
  return {
    margin: { l: 0, r: 0, t: 0, b: 0 }, paper_bgcolor: "rgba(0,0,0,0)", showlegend: true, uirevision: "kept",
    font: { family: getComputedStyle(document.body).fontFamily, color: ink, size: 12 },
    legend: { orientation: "h", x: 0, y: 0, yanchor: "top", bgcolor: "rgba(0,0,0,0)", itemclick: false, itemdoubleclick: false },
    scene: {
      xaxis: { ...axis, title: { text: "" } }, yaxis: { ...axis, title: { text: "" } },
      zaxis: { ...axis, title: { text: "loss" }, type: scene.log ? "log" : "linear" },
      aspectmode: "manual", aspectratio: { x: across / long, y: upward / long, z: 0.6 },
      camera: { eye: { x: -0.8 * far, y: -1.0 * far, z: 0.75 * far }, center: { x: 0, y: 0, z: -0.12 } },
    },
  };
}

for (const box of document.querySelectorAll(".turning")) {
  const scene = JSON.parse(box.querySelector("script").textContent);
  const place = box.querySelector(".scene"), around = box.closest("details"), choices = box.querySelectorAll("input");
  const draw = () => {
    const chosen = [...choices].findIndex((choice) => choice.checked);
    // Browsers have few 3-D contexts: what is folded up gives its own back.
    if (!around.open) return Plotly.purge(place);
    Plotly.react(place, traces(scene, scene.domains[chosen]), layout(scene, place.clientWidth < 500), { displayModeBar: false, responsive: true });
  };
  choices.forEach((choice) => choice.addEventListener("change", draw));
  around.addEventListener("toggle", draw);
  dark.addEventListener("change", draw);
  box.hidden = false;
  draw();
}
