// The time line: turns one behind another, drawn on a canvas; moved and magnified by mouse, touch and keys.
"use strict";
(() => {
  const place = document.getElementById("line");
  const source = document.getElementById("data");
  if (!place || !source) return;
  const { turns, items, names, kinds, whole } = JSON.parse(source.textContent);
  if (!items.length) return;

  const WORDS = {
    first_token: "model, before its first token", streaming: "model, answering", tool: "tool",
    waiting: "waiting for you", retry: "waiting for the provider", hook: "hook", agent: "sub-agent",
  };
  const ROW = 20, GAP = 4, TOP = 26, AXIS = 20, LABELS = 78;
  const used = [...new Set(items.map((item) => item[0]))].sort((a, b) => a - b);
  const rowOf = new Map(used.map((lane, row) => [lane, row]));
  const laneName = (lane, row) =>
    lane === 0 ? "model" : lane < 5 ? (used[row - 1] >= 1 && used[row - 1] < 5 ? "" : "tools") : lane === 5 ? "waiting" : "sub-agents";
  items.sort((a, b) => a[2] - b[2]);
  const byRow = used.map((lane) => items.filter((item) => item[0] === lane));
  const HEIGHT = TOP + used.length * (ROW + GAP) + AXIS;

  const make = (name, attributes, text) => {
    const found = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) found.setAttribute(key, value);
    if (text) found.textContent = text;
    return found;
  };
  const canvas = make("canvas", {
    tabindex: "0", role: "application", "aria-roledescription": "time line", "aria-describedby": "line-help",
    "aria-label": `Time line of ${turns.length} turns and ${items.length} model calls, tools and waits`,
  });
  const at = make("p", { class: "at", "aria-live": "polite" });
  const help = make("p", { class: "help", id: "line-help" },
    "← → go from one to the next, Shift with them moves, + − magnify, 0 shows all, Page Up and Page Down go by " +
    "turns, Enter shows the turn below. Drag to move; Ctrl and the wheel, or two fingers, magnify.");
  const bar = make("div", { class: "buttons" });
  const buttons = [
    ["◀", "earlier", () => move(-0.4)], ["▶", "later", () => move(0.4)],
    ["+", "magnify", () => zoom(0.5)], ["−", "show more", () => zoom(2)], ["all", "show all", () => show(0, whole)],
  ];
  for (const [text, label, does] of buttons) {
    const button = make("button", { type: "button", "aria-label": label, title: label }, text);
    button.addEventListener("click", does);
    bar.append(button);
  }
  place.append(bar, canvas, at, help);

  let from = 0, span = whole, wide = 0, chosen = -1, over = -1, planned = false;
  const shortest = Math.min(whole, Math.max(whole / 50000, 0.05));
  const room = () => Math.max(wide - LABELS, 1);
  const x = (second) => LABELS + ((second - from) / span) * room();
  const second = (pixel) => from + ((pixel - LABELS) / room()) * span;

  function show(start, length) {
    span = Math.min(Math.max(length, shortest), whole);
    from = Math.min(Math.max(start, 0), whole - span);
    plan();
  }
  const move = (share) => show(from + span * share, span);
  const zoom = (factor, around = from + span / 2) => {
    const length = Math.min(Math.max(span * factor, shortest), whole);
    show(around - (around - from) * (length / span), length);
  };
  function plan() {
    if (planned) return;
    planned = true;
    requestAnimationFrame(() => { planned = false; draw(); });
  }

  let colours = {};
  const scheme = matchMedia("(prefers-color-scheme: dark)");
  function readColours() {
    const style = getComputedStyle(document.documentElement);
    const get = (name) => style.getPropertyValue(`--${name}`).trim();
    colours = Object.fromEntries([...kinds, "ink", "soft", "line", "card", "code", "accent", "bad"].map((name) => [name, get(name)]));
  }
  scheme.addEventListener("change", () => { readColours(); plan(); });

  function told(seconds) {
    if (seconds < 0.95) return `${Math.max(1, Math.round(seconds * 1000))} ms`;
    if (seconds < 59.95) return `${seconds.toFixed(1)} s`;
    const minutes = Math.floor(seconds / 60);
    const rest = Math.round(seconds % 60);
    if (minutes < 60) return rest ? `${minutes} min ${rest} s` : `${minutes} min`;
    return minutes % 60 ? `${Math.floor(minutes / 60)} h ${minutes % 60} min` : `${minutes / 60} h`;
  }
  const turnAt = (moment) => {
    let low = 0, high = turns.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (turns[middle][0] <= moment) low = middle; else high = middle - 1;
    }
    return low;
  };
  function words(item) {
    const name = item[1] === 0 || item[1] === 1 || item[1] === 6 ? `${WORDS[kinds[item[1]]]}, ${names[item[4]]}`
      : kinds[item[1]] === "tool" ? names[item[4]] : `${WORDS[kinds[item[1]]]}, ${names[item[4]]}`;
    const failed = item[5] >= 0 ? `, ${names[item[5]]}` : "";
    const turn = turns[turnAt(item[2])];
    const clock = new Date((turn[3] + item[2] - turn[0]) * 1000).toLocaleTimeString();
    return `${name}: ${told(item[3])}${failed} · turn ${turn[2] || turnAt(item[2]) + 1}, ${clock}`;
  }

  const STEPS = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 86400];
  function draw() {
    const scale = devicePixelRatio || 1;
    wide = canvas.clientWidth;
    if (canvas.width !== Math.round(wide * scale) || canvas.height !== Math.round(HEIGHT * scale)) {
      canvas.width = Math.round(wide * scale);
      canvas.height = Math.round(HEIGHT * scale);
    }
    const pen = canvas.getContext("2d");
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    pen.clearRect(0, 0, wide, HEIGHT);
    pen.font = '11px system-ui, -apple-system, "Segoe UI", Roboto, Arial, sans-serif';
    pen.textBaseline = "middle";
    drawTurns(pen);
    used.forEach((lane, row) => {
      const top = TOP + row * (ROW + GAP);
      pen.fillStyle = colours.code;
      pen.fillRect(LABELS, top, room(), ROW);
      pen.fillStyle = colours.soft;
      pen.textAlign = "left";
      pen.fillText(laneName(lane, row), 0, top + ROW / 2);
      drawRow(pen, byRow[row], top);
    });
    drawChosen(pen);
    drawAxis(pen);
  }
  function drawTurns(pen) {
    let free = LABELS;
    pen.textAlign = "left";
    for (let number = turnAt(from); number < turns.length && turns[number][0] <= from + span; number++) {
      const [start, length, prompt] = turns[number];
      const left = Math.max(x(start), LABELS), right = Math.min(x(start + length), wide);
      if (right <= LABELS) continue;
      pen.fillStyle = colours.line;
      pen.fillRect(left, 16, Math.max(right - left, 1), 4);
      if (left >= free && prompt) {
        const text = right - left > 60 ? `turn ${prompt}` : `${prompt}`;
        pen.fillStyle = colours.soft;
        pen.fillText(text, left, 7);
        free = left + pen.measureText(text).width + 8;
      }
    }
  }
  function first(row, moment) {
    let low = 0, high = row.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (row[middle][2] < moment) low = middle + 1; else high = middle;
    }
    return low;
  }
  const longest = byRow.map((row) => row.reduce((most, item) => Math.max(most, item[3]), 0));
  function drawRow(pen, row, top) {
    const place = byRow.indexOf(row);
    let past = -1;
    for (let number = first(row, from - longest[place]); number < row.length; number++) {
      const item = row[number];
      if (item[2] > from + span) break;
      const left = Math.max(x(item[2]), LABELS), right = Math.min(x(item[2] + item[3]), wide);
      if (right < LABELS || right < past + 0.25) continue;
      const width = Math.max(right - left, 1);
      pen.fillStyle = colours[kinds[item[1]]];
      pen.fillRect(left, top, width, ROW);
      if (item[5] >= 0) {
        pen.fillStyle = colours.bad;
        pen.fillRect(left, top + ROW - 4, width, 4);
      }
      if (width > 46 && item[1] !== 0) {
        pen.save();
        pen.beginPath();
        pen.rect(left, top, width, ROW);
        pen.clip();
        pen.fillStyle = colours.card;
        pen.fillText(names[item[4]], left + 5, top + ROW / 2 + 0.5);
        pen.restore();
      }
      past = right;
    }
  }
  function drawChosen(pen) {
    for (const [number, weight] of [[over, 1], [chosen, 2]]) {
      const item = items[number];
      if (!item) continue;
      const left = x(item[2]), right = x(item[2] + item[3]);
      if (right < LABELS || left > wide) continue;
      pen.strokeStyle = colours.ink;
      pen.lineWidth = weight;
      const begin = Math.max(left, LABELS) - 1;
      pen.strokeRect(begin, TOP + rowOf.get(item[0]) * (ROW + GAP) - 1, Math.max(Math.min(right, wide) - begin, 2) + 1, ROW + 2);
    }
  }
  function drawAxis(pen) {
    const current = turns[turnAt(from + span / 2)];
    const single = from >= current[0] - span * 0.02 && from + span <= current[0] + current[1] + span * 0.02;
    const zero = single ? current[0] : 0;
    const step = STEPS.find((each) => (each / span) * room() > 70) || 86400;
    pen.textAlign = "center";
    pen.fillStyle = colours.soft;
    for (let mark = Math.ceil((from - zero) / step) * step; mark <= from - zero + span; mark += step) {
      const at = x(mark + zero);
      if (at < LABELS - 1) continue;
      pen.fillRect(at, HEIGHT - AXIS, 1, 4);
      const text = Math.abs(mark) < step / 2 ? "0" : told(mark);
      const half = pen.measureText(text).width / 2;
      pen.fillText(text, Math.min(Math.max(at, half), wide - half), HEIGHT - 7);
    }
  }

  const tell = (number) => { at.textContent = number >= 0 ? words(items[number]) : ""; };
  function choose(number) {
    chosen = Math.min(Math.max(number, 0), items.length - 1);
    const item = items[chosen];
    if (item[2] < from || item[2] + Math.min(item[3], span) > from + span) show(item[2] + item[3] / 2 - span / 2, span);
    tell(chosen);
    plan();
  }
  function under(pixel, high) {
    const row = Math.floor((high - TOP + GAP / 2) / (ROW + GAP));
    if (row < 0 || row >= byRow.length) return -1;
    const moment = second(pixel), slack = (3 / room()) * span;
    let best = null, nearest = slack;
    for (let number = first(byRow[row], moment - longest[row] - slack); number < byRow[row].length; number++) {
      const item = byRow[row][number];
      if (item[2] > moment + slack) break;
      const away = Math.max(item[2] - moment, moment - item[2] - item[3], 0);
      if (away <= nearest) { best = item; nearest = away; }
    }
    return best ? items.indexOf(best) : -1;
  }
  function goToTurn() {
    const moment = chosen >= 0 ? items[chosen][2] : from + span / 2;
    const prompt = turns[turnAt(moment)][2];
    if (prompt) location.hash = `turn-${prompt}`;
  }
  function byTurn(direction) {
    const before = chosen >= 0 ? turnAt(items[chosen][2]) : span === whole ? -1 : turnAt(from + span / 2);
    const number = Math.min(Math.max(before + direction, 0), turns.length - 1);
    const [start, length] = turns[number];
    show(start - length * 0.02, Math.max(length, shortest) * 1.04);
    chosen = items.findIndex((item) => item[2] >= start - 0.001);
    tell(chosen);
  }
  canvas.addEventListener("keydown", (event) => {
    const does = {
      ArrowLeft: () => (event.shiftKey ? move(-0.2) : choose(chosen < 0 ? first(items, from) : chosen - 1)),
      ArrowRight: () => (event.shiftKey ? move(0.2) : choose(chosen < 0 ? first(items, from) : chosen + 1)),
      "+": () => zoom(0.5, middle()), "=": () => zoom(0.5, middle()), "-": () => zoom(2, middle()),
      0: () => show(0, whole), PageUp: () => byTurn(-1), PageDown: () => byTurn(1),
      Home: () => choose(0), End: () => choose(items.length - 1), Enter: goToTurn,
      Escape: () => { chosen = -1; tell(-1); plan(); },
    }[event.key];
    if (!does || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    does();
  });
  const middle = () => (chosen >= 0 ? items[chosen][2] + items[chosen][3] / 2 : from + span / 2);

  const fingers = new Map();
  let held = null;
  canvas.addEventListener("pointerdown", (event) => {
    fingers.set(event.pointerId, event.offsetX);
    canvas.setPointerCapture(event.pointerId);
    held = { x: event.offsetX, from, span, moved: false, apart: apart() };
  });
  const apart = () => { const [a, b] = [...fingers.values()]; return b === undefined ? 0 : Math.abs(a - b); };
  canvas.addEventListener("pointermove", (event) => {
    if (fingers.has(event.pointerId)) {
      fingers.set(event.pointerId, event.offsetX);
      if (fingers.size > 1 && held.apart > 0) {
        const length = held.span * (held.apart / Math.max(apart(), 1));
        show(held.from + (held.span - length) / 2, length);
      } else if (fingers.size === 1 && Math.abs(event.offsetX - held.x) > 3) {
        held.moved = true;
        show(held.from - ((event.offsetX - held.x) / room()) * held.span, held.span);
      }
      return;
    }
    const found = under(event.offsetX, event.offsetY);
    if (found !== over) { over = found; tell(over >= 0 ? over : chosen); plan(); }
  });
  const letGo = (event) => {
    if (event.type === "pointerup" && held && !held.moved && fingers.size === 1) {
      chosen = under(event.offsetX, event.offsetY);
      tell(chosen);
      plan();
    }
    fingers.delete(event.pointerId);
  };
  canvas.addEventListener("pointerup", letGo);
  canvas.addEventListener("pointercancel", letGo);
  canvas.addEventListener("pointerleave", () => { over = -1; tell(chosen); plan(); });
  canvas.addEventListener("dblclick", (event) => zoom(0.4, second(event.offsetX)));
  canvas.addEventListener("wheel", (event) => {
    if (event.ctrlKey || event.metaKey) {
      event.preventDefault();
      zoom(Math.exp(Math.min(Math.max(event.deltaY, -120), 120) / 200), second(event.offsetX));
    } else if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      event.preventDefault();
      show(from + (event.deltaX / room()) * span, span);
    }
  }, { passive: false });

  canvas.classList.add(`rows-${used.length}`);
  new ResizeObserver(plan).observe(canvas);
  readColours();
  draw();
})();
