// Draws every chart from the table that the page carries, and again when the reader chooses.
"use strict";
(() => {
  const HUES = 8;
  const [BESIDE, ROOM] = [0.06, 0.5]; // as in vega.py
  const config = {
    background: null,
    font: "system-ui, sans-serif",
    view: { stroke: null },
    axis: {
      labelColor: "var(--muted)", titleColor: "var(--muted)", gridColor: "var(--line)", gridOpacity: 0.6,
      domainColor: "var(--line)", tickColor: "var(--line)", titleFontWeight: "normal", labelFontSize: 11, titlePadding: 8, labelOverlap: "parity", labelSeparation: 6,
    },
  };
  const NARROW = 480; // pixels below which a legend has one column
  const legend = (width) => ({
    orient: "bottom", columns: width < NARROW ? 1 : 2, labelColor: "var(--ink)", titleColor: "var(--muted)",
    labelLimit: Math.min(260, width - 60), labelFontSize: 12,
  });
  const groups = JSON.parse(document.getElementById("charts").textContent);

  const records = (columns) => {
    const names = Object.keys(columns);
    const lists = names.map((name) => {
      const column = columns[name];
      return Array.isArray(column) ? column : column.at.map((place) => column.words[place]);
    });
    const count = names.length ? lists[0].length : 0;
    return Array.from({ length: count }, (_, i) => Object.fromEntries(names.map((name, n) => [name, lists[n][i]])));
  };

  // The same as `fill` in vega.py.
  const fill = (part, values) => {
    if (Array.isArray(part)) return part.map((one) => fill(one, values));
    if (part && typeof part === "object") {
      return Object.fromEntries(Object.entries(part).map(([key, one]) => [key, fill(one, values)]));
    }
    return typeof part === "string" && part.startsWith("@") ? values[part.slice(1)] : part;
  };

  const distinct = (rows, column) => (column ? [...new Set(rows.map((row) => row[column]))] : [null]);
  const family = (method) => method.replace(/\+vor$/, "");

  // A family keeps its hue as long as it is picked.
  const colors = (group) => {
    group.hues ??= new Map();
    const wanted = new Set(group.picked.map(family));
    for (const name of [...group.hues.keys()]) if (!wanted.has(name)) group.hues.delete(name);
    for (const name of wanted) {
      if (group.hues.has(name)) continue;
      const used = new Set(group.hues.values());
      let hue = 0;
      while (used.has(hue) && hue < HUES - 1) hue += 1;
      group.hues.set(name, hue);
    }
    const step = Math.min(BESIDE, ROOM / Math.max(1, group.picked.length));
    const place = `indexof(${JSON.stringify(group.picked)}, datum.method)`;
    return {
      picked: group.picked,
      beside: `datum.task + ${step} * (${place} - ${(group.picked.length - 1) / 2})`,
      colors: group.picked.map((name) => `var(--c${group.hues.get(family(name))})`),
      dashes: group.picked.map((name) => (name.endsWith("+vor") ? [6, 3] : [1, 0])),
      shapes: group.picked.map((name) => (name.endsWith("+vor") ? "triangle-up" : "circle")),
    };
  };

  const limits = (chart, rows) => {
    const found = {};
    for (const column of chart.shared) {
      const values = rows.map((row) => row[column]).filter((value) => value !== null);
      found[`${column}_min`] = Math.min(...values);
      found[`${column}_max`] = Math.max(...values);
    }
    return found;
  };

  const draw = async (figure, group, chart) => {
    const chosen = chart.choose ? chart.rows.filter((row) => row[chart.choose] === chart.choice) : chart.rows;
    const place = figure.querySelector(".panels");
    for (const view of chart.views ?? []) view.finalize();
    chart.views = [];
    const panels = distinct(chosen, chart.panels);
    const shared = { ...limits(chart, chosen), ...(chart.picks ? colors(group) : {}) };
    // Space that is kept while it is drawn again, so that the page does not jump.
    place.style.minHeight = `${place.offsetHeight}px`;
    // All boxes before the first drawing: it takes the width that its box has then.
    const boxes = panels.map(() => document.createElement("div"));
    place.replaceChildren(...boxes);
    for (const [number, panel] of panels.entries()) {
      const box = boxes[number];
      if (panels.length === 1) box.className = chart.choose ? "narrow" : "single";
      if (panel !== null) {
        const title = box.appendChild(document.createElement("p"));
        title.className = "panel-title";
        title.textContent = panel;
      }
      const drawing = box.appendChild(document.createElement("div"));
      drawing.className = "drawing";
      const rows = chart.panels ? chosen.filter((row) => row[chart.panels] === panel) : chosen;
      const spec = {
        width: "container",
        autosize: { type: "fit-x", contains: "padding" },
        data: { values: rows.map((row) => ({ ...row })) },
        ...fill(chart.spec, { ...shared, panel }),
      };
      if (spec.height.rows) spec.height = spec.height.step * distinct(rows, spec.height.rows).length;
      const options = {
        mode: "vega-lite", renderer: "svg", actions: false, ast: true, logLevel: 1,
        config: { ...config, legend: legend(drawing.clientWidth) },
      };
      chart.views.push(await window.vegaEmbed(drawing, spec, options));
    }
    place.style.minHeight = "";
  };

  const chooser = (figure, group, chart) => {
    const values = distinct(chart.rows, chart.choose);
    chart.choice = values[0];
    if (values.length < 2) return;
    const label = figure.querySelector(".controls").appendChild(document.createElement("label"));
    label.append("method ");
    const select = label.appendChild(document.createElement("select"));
    for (const value of values) {
      const shown = distinct(chart.rows.filter((row) => row[chart.choose] === value), chart.panels);
      select.add(new Option(shown.join(", "), value));
    }
    select.addEventListener("change", () => {
      chart.choice = select.value;
      draw(figure, group, chart);
    });
  };

  const swatch = (method, picked, hue) => {
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    const line = svg.appendChild(document.createElementNS(svg.namespaceURI, "line"));
    const values = { x1: 0, x2: 22, y1: 4, y2: 4, "stroke-width": 3, stroke: picked ? `var(--c${hue})` : "var(--faint)" };
    if (method.endsWith("+vor")) values["stroke-dasharray"] = "6 3";
    for (const [name, value] of Object.entries(values)) line.setAttribute(name, value);
    svg.setAttribute("aria-hidden", "true");
    return svg;
  };

  const buttons = (element, group) => {
    colors(group);
    for (const bar of element.querySelectorAll(".picks")) {
      bar.replaceChildren(...group.methods.map((method) => {
        const button = document.createElement("button");
        const picked = group.picked.includes(method);
        button.type = "button";
        button.setAttribute("aria-pressed", picked);
        button.append(swatch(method, picked, group.hues.get(family(method))), method);
        button.addEventListener("click", async () => {
          const at = [...bar.children].indexOf(button);
          group.picked = group.methods.filter((name) => (name === method ? !picked : group.picked.includes(name)));
          buttons(element, group);
          bar.children[at].focus();
          for (const figure of element.querySelectorAll("figure")) {
            const chart = group.charts[figure.dataset.chart];
            if (chart.picks) await draw(figure, group, chart);
          }
        });
        return button;
      }));
    }
  };

  const csv = (chart) => {
    const names = Object.keys(chart.columns);
    const cell = (value) => {
      const text = value === null || value === undefined ? "" : String(value);
      return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
    };
    const lines = [names, ...chart.rows.map((row) => names.map((name) => row[name]))];
    return lines.map((line) => line.map(cell).join(",") + "\n").join("");
  };

  const save = (name, text) => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
    link.download = `${name}.csv`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  };

  const start = async () => {
    for (const element of document.querySelectorAll(".group")) {
      const group = groups[Number(element.dataset.group)];
      for (const chart of Object.values(group.charts)) chart.rows = records(chart.columns);
      buttons(element, group);
      for (const figure of element.querySelectorAll("figure")) {
        const chart = group.charts[figure.dataset.chart];
        if (chart.choose) chooser(figure, group, chart);
        figure.querySelector(".csv").addEventListener("click", () => save(figure.dataset.chart, csv(chart)));
        await draw(figure, group, chart);
      }
    }
    document.documentElement.dataset.drawn = "all";
  };
  start();
})();
