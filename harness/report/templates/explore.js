"use strict";
// The explorer. Every text of the data enters the page as text; what is shown is named by the address.
(() => {
  const PAGE = 100; // rows of the table
  const LISTED = 30; // relevant documents that nobody shows, of one query
  const SAMPLE = 400; // documents in which words are counted
  const COMMON = 0.3; // share of them that makes a word common
  const OUTCOMES = ["worse", "better", "same", "failed", "none"];
  const OUTCOME_WORDS = { worse: "worse", better: "better", same: "same", failed: "failed", none: "no value" };
  const COLUMNS = {
    difference: "Difference", query: "Query", control: "Control", candidate: "Candidate",
    class: "Class", alike: "Jaccard@10",
  };
  const [WORSE, BETTER, SAME, FAILED, NONE] = [0, 1, 2, 3, 4];
  const $ = (id) => document.getElementById(id);

  // ---- making elements

  const make = (kind, of = {}, ...children) => {
    const made = document.createElement(kind);
    for (const [name, value] of Object.entries(of)) {
      if (value === false || value === undefined || value === null) continue;
      made.setAttribute(name, value === true ? "" : value);
    }
    made.append(...children.filter((child) => child !== "" && child !== null));
    return made;
  };
  const draw = (kind, of, ...children) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", kind);
    for (const [name, value] of Object.entries(of)) made.setAttribute(name, value);
    made.append(...children);
    return made;
  };
  const foreign = (text) => make("bdi", {}, text);

  // ---- numbers, as harness/report/rounding.py writes them

  const count = (value) => value.toLocaleString("en-US");
  const queries = (value) => `${count(value)} ${value === 1 ? "query" : "queries"}`;
  const rounded = (digits) => new Intl.NumberFormat("en-US", {
    minimumFractionDigits: digits, maximumFractionDigits: digits, roundingMode: "halfEven",
  });
  const [one, three, four] = [1, 3, 4].map(rounded);
  const number = (value) => {
    if (value === null || !Number.isFinite(value)) return "not defined";
    const size = Math.abs(value);
    if (size === 0) return "0";
    const text =
      size < 0.00005 ? value.toExponential(1).replace(/e-(\d)$/, "e-0$1")
      : size < 1 ? four.format(value)
      : size < 100 ? three.format(value)
      : one.format(value);
    return text.replace("-", "−");
  };
  const signed = (value) => (value > 0 ? `+${number(value)}` : number(value));
  const end = (value) => (value === null ? "unbounded" : number(value));
  const interval = ([, low, high]) => `[${end(low)}, ${end(high)}]`;
  const milliseconds = (nanoseconds) => {
    const value = nanoseconds / 1e6;
    return value >= 100 ? count(Math.round(value)) : value.toPrecision(3);
  };

  // ---- data

  const bytesOf = (base64) => {
    const text = atob(base64);
    const bytes = new Uint8Array(text.length);
    for (let at = 0; at < text.length; at += 1) bytes[at] = text.charCodeAt(at);
    return bytes;
  };
  const unpack = async (id) => {
    const source = $(id);
    const stream = new Blob([bytesOf(source.textContent)]).stream();
    const text = await new Response(stream.pipeThrough(new DecompressionStream("gzip"))).text();
    source.textContent = "";
    return JSON.parse(text);
  };
  const starts = (lengths) => {
    const found = new Int32Array(lengths.length + 1);
    for (let at = 0; at < lengths.length; at += 1) found[at + 1] = found[at] + lengths[at];
    return found;
  };

  const tables = new Map(); // by number of the data set
  const rankings = new Map(); // promises
  const names = [...$("dataset").options].map((option) => option.textContent);

  const table = async (at) => {
    if (!tables.has(at)) {
      const data = await unpack(`values-${at}`);
      data.folded = data.texts.map((text, row) => `${text}\n${data.ids[row]}\n${data.params[row]}`.toLowerCase());
      data.found = new Map(data.ids.map((id, row) => [id, row]).reverse());
      tables.set(at, data);
    }
    return tables.get(at);
  };
  const details = (at) => {
    if (!rankings.has(at)) {
      rankings.set(at, unpack(`hits-${at}`).then((data) => {
        data.judgedAt = starts(data.lengths);
        for (const shown of data.shown) {
          shown.at = starts(shown.lengths);
          shown.deeperAt = starts(data.distinct.map((many, row) => many - shown.lengths[row]));
        }
        for (const apart of data.apart) apart.row = new Map(apart.queries.map((query, at) => [query, at]));
        for (const times of data.times) times.row = new Map(times.queries.map((query, row) => [query, row]));
        return data;
      }));
    }
    return rankings.get(at);
  };

  // ---- what is chosen; the address holds it

  const START = { d: 0, a: 0, b: 0, m: 0, text: "", outcome: "", slice: "", class: "", sort: "difference", page: 1, q: -1 };
  let state = { ...START };
  let data = null; // of the data set that is chosen
  let pair = null; // values of the arms that are chosen
  let order = []; // rows that fit the filter, in order
  let later = 0; // the wait before what is typed enters the address
  let opener = -1; // the row to which the focus returns

  const firstPair = (of) => {
    const first = of.compared.find((each) => each.control !== each.candidate);
    return first ? [first.control, first.candidate] : [0, Math.min(1, of.arms.length - 1)];
  };
  const known = (list, name, otherwise) => (list.includes(name) ? list.indexOf(name) : otherwise);

  const address = (of) => {
    const said = new URLSearchParams();
    said.set("d", names[of.d]);
    if (data.arms.length) {
      said.set("a", data.arms[of.a]);
      said.set("b", data.arms[of.b]);
    }
    if (of.m) said.set("m", data.measures[of.m]);
    for (const name of ["text", "outcome", "slice", "class"]) if (of[name]) said.set(name, of[name]);
    if (of.sort !== START.sort) said.set("sort", of.sort);
    if (of.page > 1) said.set("page", of.page);
    if (of.q >= 0) said.set("q", data.ids[of.q]);
    return `#${said.toString().replaceAll("+", "%20")}`;
  };

  const read = async () => {
    clearTimeout(later); // what was typed before is no longer what the address holds
    const said = new URLSearchParams(location.hash.slice(1));
    const d = known(names, said.get("d"), 0);
    data = await table(d);
    const [a, b] = firstPair(data);
    const sort = said.get("sort") ?? START.sort;
    state = {
      d,
      a: known(data.arms, said.get("a"), a),
      b: known(data.arms, said.get("b"), b),
      m: known(data.measures, said.get("m"), 0),
      text: said.get("text") ?? "",
      outcome: OUTCOMES.includes(said.get("outcome")) ? said.get("outcome") : "",
      slice: data.slices.includes(said.get("slice")) ? said.get("slice") : "",
      class: data.classes.includes(said.get("class")) ? said.get("class") : "",
      sort: sort.replace(/^-/, "") in COLUMNS ? sort : START.sort,
      page: Math.max(1, Math.trunc(Number(said.get("page"))) || 1),
      q: data.found.get(said.get("q")) ?? -1,
    };
  };

  const keep = (push) => {
    clearTimeout(later);
    const to = address(state);
    if (to === location.hash) return;
    if (push) history.pushState(null, "", to);
    else later = setTimeout(() => history.replaceState(null, "", to), 150);
  };

  // ---- counting

  const comparison = () => data.compared.find((each) => each.control === state.a && each.candidate === state.b);
  const valueOf = (code) => (code < 0 ? null : data.numbers[code]);

  // Failed or timed out. A query that was not asked is neither: it has a value, or a reason for none.
  const ended = (status) => status === 1 || status === 2;

  const paired = () => {
    const codes = [state.a, state.b].map((arm) => data.scores[arm][state.m]);
    const status = [data.status[state.a], data.status[state.b]];
    const difference = new Float64Array(data.ids.length).fill(NaN);
    const outcome = new Uint8Array(data.ids.length);
    for (let row = 0; row < difference.length; row += 1) {
      const [left, right] = [codes[0][row], codes[1][row]];
      if (left >= 0 && right >= 0) {
        const by = data.numbers[right] - data.numbers[left];
        difference[row] = by;
        outcome[row] = by < 0 ? WORSE : by > 0 ? BETTER : SAME;
      } else outcome[row] = status.some((of) => ended(of[row])) ? FAILED : NONE;
    }
    return { codes, difference, outcome };
  };

  const wordOf = (column, row) => (column && column[row] >= 0 ? data.classes[column[row]] : "");

  const keyOf = (name) => {
    const compared = comparison();
    switch (name) {
      case "query": return (row) => data.folded[row];
      case "control": return (row) => valueOf(pair.codes[0][row]);
      case "candidate": return (row) => valueOf(pair.codes[1][row]);
      case "class": return (row) => wordOf(compared?.classes, row) || null;
      case "alike": return (row) => (compared ? valueOf(compared.alike[row]) : null);
      default: return (row) => (Number.isNaN(pair.difference[row]) ? null : pair.difference[row]);
    }
  };

  const fitting = () => {
    const text = state.text.toLowerCase().trim();
    const slice = data.slices.indexOf(state.slice);
    const kind = data.classes.indexOf(state.class);
    const outcome = OUTCOMES.indexOf(state.outcome);
    const classes = comparison()?.classes;
    const fits = [];
    for (let row = 0; row < data.ids.length; row += 1) {
      if (outcome >= 0 && pair.outcome[row] !== outcome) continue;
      if (slice >= 0 && !data.parts[row].includes(slice)) continue;
      if (kind >= 0 && (!classes || classes[row] !== kind)) continue;
      if (text && !data.folded[row].includes(text)) continue;
      fits.push(row);
    }
    const way = state.sort.startsWith("-") ? -1 : 1;
    const key = keyOf(state.sort.replace(/^-/, ""));
    const keys = new Map(fits.map((row) => [row, key(row)]));
    const by = (left, right) => {
      const [one, two] = [keys.get(left), keys.get(right)];
      if (one === two) return left - right;
      if (one === null || two === null) return one === null ? 1 : -1; // what has no value is last
      return (one < two ? -1 : 1) * way;
    };
    return fits.sort(by);
  };

  // ---- the overview

  const fact = (what, ...said) => [make("dt", {}, what), make("dd", {}, ...said)];
  const sure = (found) => make("span", { class: "sure" }, `${interval(found)}, ${queries(found[3])}`);

  const facts = () => {
    const compared = comparison();
    const all = !state.text && !state.outcome && !state.class;
    const slice = all && state.slice ? data.slices.indexOf(state.slice) : -1;
    const whole = all && !state.slice;
    const known = whole ? compared?.differences[state.m]
      : slice >= 0 && state.m === 0 ? compared?.slices[slice] : undefined;
    const differences = order.map((row) => pair.difference[row]).filter((value) => !Number.isNaN(value));
    const mean = differences.length ? differences.reduce((sum, value) => sum + value, 0) / differences.length : null;
    const found = [];
    if (known) found.push(...fact("Mean difference", `${signed(known[0])} `, sure(known)));
    else if (mean !== null) {
      const why = !whole && slice < 0 ? "no interval: one stands where nothing, or only a slice, is filtered"
        : !compared ? "no interval was computed for this pair of arms"
        : whole ? `no interval was computed in ${data.measures[state.m]}`
        : state.m ? `of a slice, an interval is told in ${data.measures[0]} alone`
        : "no interval was computed of this slice";
      found.push(...fact("Mean difference", `${signed(mean)} `, make("span", { class: "sure" }, `over ${queries(differences.length)}; ${why}`)));
    } else found.push(...fact("Mean difference", "no query here has a value in both arms"));
    for (const [role, arm] of [["Control", state.a], ["Candidate", state.b]]) {
      const known = whole ? data.means[arm][state.m] : slice >= 0 ? data.slice_means[slice][arm][state.m] : null;
      if (known) found.push(...fact(make("span", {}, `${role} `, foreign(data.arms[arm])), `${number(known[0])} `, sure(known)));
    }
    const noise = compared && order.filter((row) => compared.noise[row] >= 0);
    if (noise?.length) {
      const exact = noise.filter((row) => ["exact", "both_empty"].includes(wordOf(compared.noise, row))).length;
      found.push(...fact("Noise (A/A)", `A/A run of the control: ${count(exact)} of ${queries(noise.length)} with the same ranking`));
    }
    $("facts").replaceChildren(...found);
    return { differences, mean, known };
  };

  const counted = () => {
    const sums = OUTCOMES.map(() => 0);
    for (const row of order) sums[pair.outcome[row]] += 1;
    const parts = OUTCOMES.flatMap((name, at) => (sums[at] ? [`${count(sums[at])} ${OUTCOME_WORDS[name]}`] : []));
    $("count").textContent = `${count(order.length)} of ${queries(data.ids.length)}${parts.length ? `: ${parts.join(", ")}` : ""}`;
    return sums;
  };

  const histogram = ({ differences, mean, known }) => {
    const moved = differences.filter((value) => value !== 0);
    const figure = $("histogram");
    if (!moved.length) {
      figure.replaceChildren(make("figcaption", {}, differences.length ? "No query moved, so there is nothing to draw." : ""));
      return;
    }
    const [width, height, floor, half] = [400, 130, 104, 20];
    const most = moved.reduce((size, value) => Math.max(size, Math.abs(value)), 0);
    const bins = new Array(2 * half).fill(0);
    for (const value of moved) {
      const step = Math.min(half - 1, Math.floor((Math.abs(value) / most) * half));
      bins[value < 0 ? half - 1 - step : half + step] += 1;
    }
    const tallest = Math.max(...bins);
    const x = (value) => width / 2 + (value / most) * (width / 2 - 8);
    const step = (width - 16) / bins.length;
    const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-labelledby": "histogram-said" });
    bins.forEach((of, at) => {
      const tall = (of / tallest) * (floor - 30);
      if (of) svg.append(draw("rect", { class: at < half ? "below" : "above", x: 8 + at * step + 0.5, width: step - 1, y: floor - Math.max(1.5, tall), height: Math.max(1.5, tall) }));
    });
    svg.append(draw("line", { class: "axis", x1: 8, x2: width - 8, y1: floor, y2: floor }));
    if (known) {
      const [low, high] = [known[1] ?? -most, known[2] ?? most].map((value) => x(Math.max(-most, Math.min(most, value))));
      svg.append(draw("path", { class: "ends", d: `M${low} 20H${high}M${low} 16v8M${high} 16v8` }));
    }
    svg.append(draw("line", { class: "mean", x1: x(mean), x2: x(mean), y1: 14, y2: floor }));
    const label = (at, anchor, text, y = floor + 16) => svg.append(draw("text", { x: at, y, "text-anchor": anchor }, text));
    label(8, "start", signed(-most));
    label(width / 2, "middle", "0");
    label(width - 8, "end", signed(most));
    label(8, "start", `at most ${count(tallest)} in a bar`, 10);
    const [worse, better] = [moved.filter((value) => value < 0).length, moved.filter((value) => value > 0).length];
    const still = differences.length - moved.length;
    const text = `Differences of the ${queries(moved.length)} that moved: ${count(worse)} lose, ${count(better)} gain. `
      + `The line is the mean of what is filtered, ${signed(mean)}${known ? "; the bar across it is its interval" : ""}. `
      + (still ? `${count(still)} did not move and are not drawn.` : "");
    figure.replaceChildren(svg, make("figcaption", { id: "histogram-said" }, text));
  };

  // ---- the table

  const differenceOf = (row) => {
    const outcome = pair.outcome[row];
    if (outcome === FAILED) return "failed";
    return outcome === NONE ? reasonOf(row) : signed(pair.difference[row]);
  };
  const reasonOf = (row) => {
    const code = pair.codes[0][row] < 0 ? pair.codes[0][row] : pair.codes[1][row];
    return code < 0 ? data.reasons[-1 - code] : "no value";
  };
  const valueWord = (code) => (code < 0 ? data.reasons[-1 - code] : number(data.numbers[code]));
  const about = (row) => {
    const parts = data.parts[row].map((part) => data.slices[part]);
    return [data.ids[row], ...parts].flatMap((text, at) => (at ? [" · ", foreign(text)] : [foreign(text)]));
  };

  const rowOf = (row) => {
    const compared = comparison();
    const cell = (name, text) => make("td", { class: `at-${name}` }, text);
    const link = make("a", { href: address({ ...state, q: row }), "data-row": row }, foreign(data.texts[row] || "(nothing was typed)"));
    const [left, right] = pair.codes.map((codes) => valueWord(codes[row]));
    return make("tr", { class: OUTCOMES[pair.outcome[row]] },
      make("td", { class: "at-difference" }, make("span", { class: "moved-by" }, differenceOf(row)), make("small", { class: "narrow" }, `${left} → ${right}`)),
      make("th", { scope: "row" }, link, make("small", {}, ...about(row))),
      cell("control", left),
      cell("candidate", right),
      cell("class", wordOf(compared?.classes, row).replaceAll("_", " ") || "not classified"),
      cell("alike", compared ? valueWord(compared.alike[row]) : "not measured"));
  };

  const heads = () => {
    const [name, down] = [state.sort.replace(/^-/, ""), state.sort.startsWith("-")];
    const made = Object.entries(COLUMNS).map(([key, words]) => {
      const sorted = key === name ? (down ? "descending" : "ascending") : null;
      const sign = sorted ? make("span", { "aria-hidden": "true" }, down ? " ↓" : " ↑") : "";
      const depth = key === "class" && comparison()?.depth ? `@${comparison().depth}` : "";
      const button = make("button", { type: "button", "data-sort": key }, words, depth, sign);
      return make("th", { scope: "col", class: `at-${key}`, "aria-sort": sorted }, button);
    });
    const focused = document.activeElement?.dataset?.sort;
    $("head").replaceChildren(...made);
    if (focused) $("head").querySelector(`[data-sort="${focused}"]`).focus();
  };

  const list = () => {
    const pages = Math.max(1, Math.ceil(order.length / PAGE));
    state.page = Math.min(state.page, pages);
    const from = (state.page - 1) * PAGE;
    const shown = order.slice(from, from + PAGE);
    $("rows").replaceChildren(...(shown.length ? shown.map(rowOf)
      : [make("tr", {}, make("td", { colspan: 6 }, "No query fits. Clear a filter to see more."))]));
    heads();
    $("caption").textContent = `Queries of ${names[state.d]}, ${data.arms[state.a]} against ${data.arms[state.b]}, ${data.measures[state.m]}`;
    $("page").textContent = order.length ? `${count(from + 1)} to ${count(from + shown.length)} of ${count(order.length)}` : "";
    $("before").disabled = state.page === 1;
    $("after").disabled = state.page === pages;
    document.querySelector(".pager").hidden = pages === 1;
  };

  // ---- one query

  // Words of a query that are worth a mark: not those that stand in most documents anyway.
  const wordsOf = (text, all) => {
    const words = [...new Set(text.toLowerCase().match(/[\p{L}\p{N}_]+/gu) ?? [])].slice(0, 60);
    const by = Math.max(1, Math.floor(all.texts.length / SAMPLE));
    const sample = all.texts.filter((found, at) => found !== null && at % by === 0).map((found) => ` ${found.toLowerCase()} `);
    const rare = words.filter((word) => sample.filter((found) => found.includes(` ${word} `)).length <= sample.length * COMMON);
    return rare.length ? rare : words;
  };
  // A word of three letters is marked whole, a longer one also where it begins a word.
  const marker = (words) => {
    const longest = [...words].sort((a, b) => b.length - a.length);
    const parts = longest.map((word) => (word.length > 3 ? word : `${word}(?![\\p{L}\\p{N}_])`));
    return parts.length ? new RegExp(`(?<![\\p{L}\\p{N}_])(?:${parts.join("|")})`, "giu") : null;
  };

  const marked = (text, mark) => {
    const made = foreign("");
    let from = 0;
    for (const found of mark ? text.matchAll(mark) : []) {
      made.append(text.slice(from, found.index), make("mark", {}, found[0]));
      from = found.index + found[0].length;
    }
    made.append(text.slice(from));
    return made;
  };
  const snippet = (text, mark, limit) => {
    const first = mark ? Math.max(0, text.search(mark)) : 0;
    let start = Math.max(0, Math.min(first - Math.floor(limit / 4), text.length - limit));
    if (start) start = text.lastIndexOf(" ", start) + 1;
    const letters = [...text.slice(start, start + limit + 1)].slice(0, limit).join(""); // no half of a pair
    return (start ? "…" : "") + letters.trim() + (start + limit < text.length ? "…" : "");
  };

  const gradesOf = (all, row) => {
    const grades = new Map();
    for (let at = all.judgedAt[row]; at < all.judgedAt[row + 1]; at += 1) grades.set(all.judged[at], at);
    return grades;
  };
  const shownBy = (all, arm, row) => all.shown[arm].docs.slice(all.shown[arm].at[row], all.shown[arm].at[row + 1]);

  // Ranks in the whole ranking of an arm, of all that some arm shows; 0 where it has none.
  const ranksBy = (all, arm, row) => {
    const ranks = new Map(shownBy(all, arm, row).map((doc, at) => [doc, at + 1]));
    let at = all.shown[arm].deeperAt[row];
    for (const other of all.shown.keys()) {
      for (const doc of shownBy(all, other, row)) if (!ranks.has(doc)) ranks.set(doc, all.shown[arm].deeper[at++]);
    }
    return ranks;
  };

  // As harness/report/page/tables.py says it.
  const move = (rank, other, candidate) => {
    if (!other) return candidate ? "new" : "gone";
    const by = candidate ? other - rank : rank - other;
    return by === 0 ? "same" : by > 0 ? `up ${by}` : `down ${-by}`;
  };
  const gradeWord = (all, at) => {
    if (at === undefined) return ["not judged", "unjudged"];
    const grade = all.grades[at];
    return grade > 0 ? [`relevant, grade ${grade}`, "relevant"] : [`not relevant, grade ${grade}`, "irrelevant"];
  };

  const ranking = (all, row, arm, other, candidate, mark) => {
    const docs = shownBy(all, arm, row);
    const ranks = ranksBy(all, other, row);
    const told = !data.status[other][row]; // of what was never answered nothing is gone, or new
    const grades = gradesOf(all, row);
    const items = docs.map((doc, at) => {
      const [said, look] = gradeWord(all, grades.get(doc));
      const went = told ? move(at + 1, ranks.get(doc), candidate) : "";
      const text = all.texts[doc];
      return make("li", { "data-doc": doc },
        make("span", { class: "rank" }, String(at + 1)),
        make("span", { class: `grade ${look}` }, said),
        told ? make("span", { class: `move ${went.split(" ")[0]}` }, went) : make("span"),
        make("span", { class: "id" }, foreign(all.ids[doc])),
        make("span", { class: "title" }, marked(all.titles[doc] || all.ids[doc], mark)),
        make("span", { class: "snippet" }, text === null ? "not in the corpus" : marked(snippet(text, mark, all.snippet), mark)));
    });
    const found = all.shown[arm].found[row];
    const more = found > docs.length ? `; ${count(found)} hits were kept` : "";
    const raced = all.times.find((each) => each.arm === arm);
    const time = raced?.row.has(row) ? `; ${milliseconds(raced.median[raced.row.get(row)])} ms in the race` : "";
    const head = make("h3", {}, `${candidate ? "Candidate" : "Control"}: `, make("b", {}, foreign(data.arms[arm])),
      ` ${data.measures[state.m]} ${valueWord(data.scores[arm][state.m][row])}${more}${time}`);
    const body = docs.length ? make("ol", {}, ...items) : make("p", { class: "instead" }, all.shown[arm].instead[row] ?? "found nothing");
    return make("div", { class: "ranking" }, head, body);
  };

  // What happened to the relevant documents, in a sentence: the first thing to look at.
  const happened = (all, row) => {
    const silent = [state.a, state.b].filter((arm) => data.status[arm][row]);
    const why = silent.map((arm) => `${data.arms[arm]}: ${all.shown[arm].instead[row]}.`).join(" ");
    if (silent.some((arm) => ended(data.status[arm][row]))) return why;
    const [left, right] = [shownBy(all, state.a, row), shownBy(all, state.b, row)];
    const grades = gradesOf(all, row);
    const good = (doc) => grades.has(doc) && all.grades[grades.get(doc)] > 0;
    const lost = left.filter((doc) => good(doc) && !right.includes(doc));
    const came = right.filter((doc) => good(doc) && !left.includes(doc));
    const both = left.filter((doc) => good(doc) && right.includes(doc));
    const [down, up] = [-1, 1].map((way) => both.filter((doc) => Math.sign(left.indexOf(doc) - right.indexOf(doc)) === way));
    const fresh = right.filter((doc) => !left.includes(doc));
    const unknown = fresh.filter((doc) => !grades.has(doc));
    const said = [];
    const rank = (doc, arm) => all.shown[arm].ranks[grades.get(doc)] || "none";
    const ways = (docs) => docs.map((doc) => `rank ${rank(doc, state.a)} → ${rank(doc, state.b)}`).join(", ");
    const noun = (docs) => `${docs.length} relevant ${docs.length === 1 ? "document" : "documents"}`;
    if (lost.length) said.push(`${noun(lost)} left the first ten (${ways(lost)})`);
    if (came.length) said.push(`${noun(came)} came in (${ways(came)})`);
    if (down.length) said.push(`${noun(down)} moved down (${ways(down)})`);
    if (up.length) said.push(`${noun(up)} moved up (${ways(up)})`);
    if (!said.length && why) return why;
    if (!said.length) said.push(left.join() === right.join() ? "Both show the same" : "No relevant document moved in the first ten");
    const text = `${why ? `${why} ` : ""}${said.join("; ")}.`;
    return unknown.length ? `${text} Of ${fresh.length} that are new in the first ten, ${unknown.length} ${unknown.length === 1 ? "was" : "were"} never judged.` : text;
  };

  const missing = (all, row) => {
    const shown = new Set([...shownBy(all, state.a, row), ...shownBy(all, state.b, row)]);
    const found = [...gradesOf(all, row)].filter(([doc, at]) => all.grades[at] > 0 && !shown.has(doc));
    if (!found.length) return [];
    const where = (arm, at) => {
      const { instead, ranks, found } = all.shown[arm];
      if (instead[row]) return instead[row];
      return ranks[at] ? `rank ${ranks[at]}` : `not among the ${count(found[row])} hits kept`;
    };
    const rows = found.slice(0, LISTED).map(([doc, at]) => make("tr", {},
      make("th", { scope: "row" }, foreign(all.titles[doc] || all.ids[doc]), make("small", {}, foreign(all.ids[doc]))),
      make("td", {}, String(all.grades[at])), make("td", {}, where(state.a, at)), make("td", {}, where(state.b, at))));
    const rest = found.length > LISTED ? [make("p", { class: "meta" }, `and ${count(found.length - LISTED)} more`)] : [];
    return [make("h3", {}, "Relevant, and in neither first ten"), grid(["document", "grade", foreign(data.arms[state.a]), foreign(data.arms[state.b])], rows, "Relevant documents that neither arm shows"), ...rest];
  };

  const grid = (header, rows, label) => make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label },
    make("table", {}, make("thead", {}, make("tr", {}, ...header.map((text) => make("th", { scope: "col" }, text)))), make("tbody", {}, ...rows)));

  const measures = (row) => grid(["measure", foreign(data.arms[state.a]), foreign(data.arms[state.b]), "difference"],
    data.measures.map((name, m) => {
      const [left, right] = [data.scores[state.a][m][row], data.scores[state.b][m][row]];
      const by = left < 0 || right < 0 ? "" : signed(data.numbers[right] - data.numbers[left]);
      return make("tr", {}, make("th", { scope: "row" }, name), make("td", {}, valueWord(left)), make("td", {}, valueWord(right)), make("td", {}, by));
    }), "Every measure of this query");

  const times = (all, row) => {
    const rows = [state.a, state.b].map((arm) => {
      const of = all.times.find((each) => each.arm === arm);
      const at = of?.row.get(row);
      const name = make("th", { scope: "row" }, foreign(data.arms[arm]));
      if (at === undefined) {
        const why = all.unverified.includes(arm) ? "not told: in the race it answered otherwise than in its run"
          : of ? "this query was not drawn for the race" : "not raced";
        return make("tr", {}, name, make("td", { colspan: 4 }, why));
      }
      const again = of.again[at] ? milliseconds(of.again[at]) : "not asked again";
      return make("tr", {}, name, ...[milliseconds(of.median[at]), milliseconds(of.low[at]), milliseconds(of.high[at]), again].map((text) => make("td", {}, text)));
    });
    if (!all.times.length && !all.unverified.length && !all.machine) return [make("p", { class: "instead" }, "No race was run, so nothing is said about time.")];
    const told = all.times.length
      ? `Milliseconds to the first answer in the race, in ${all.times[0].processes} processes, the arms interleaved, on ${all.machine}. `
        + "One query says little: the ratio with its interval is on the decision's page."
      : `A race was run, on ${all.machine}, and the times of no arm are told.`;
    return [make("p", { class: "meta" }, told), grid(["arm", "median", "least", "most", "when the text came again"], rows, "Times of this query")];
  };

  const quoted = (text) => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);
  const stages = (all, row) => all.apart.filter((each) => each.control === state.a && each.candidate === state.b && each.row.has(row)).flatMap((of) => {
    const at = of.row.get(row);
    const rows = of.stages.map((stage, n) => make("tr", {}, make("th", { scope: "row" }, foreign(stage)),
      ...[of.shown[n][at], of.order[n][at], of.shown[n][at] + of.order[n][at]].map((value) => make("td", {}, signed(value)))));
    return [make("p", { class: "meta" }, `The way of the candidate, stage by stage, in ${of.measure}; all parts sum to the difference.`),
      grid(["to the stage", "documents", "order", "both"], rows, "Stages of the candidate")];
  });
  const apart = (all, row) => {
    const compared = comparison();
    const parts = compared && compared.shown[row] >= 0 && compared.order[row] >= 0
      ? [make("p", { class: "why" }, `Difference in ${data.measures[0]}: documents ${signed(valueOf(compared.shown[row]))}, order ${signed(valueOf(compared.order[row]))}.`)] : [];
    const place = data.place || `--dataset ${quoted(data.dataset)}`;
    const known = stages(all, row);
    if (known.length) return [...parts, ...known];
    const command = `python3 run.py harness decompose ${place} --control ${quoted(data.arms[state.a])} --candidate ${quoted(data.arms[state.b])}`;
    return [...parts, make("p", { class: "meta" }, "To see the stage behind it, run this command and rebuild the report:"), make("pre", { tabindex: "0" }, make("code", {}, command))];
  };

  const steer = (row) => {
    const at = order.indexOf(row);
    const button = (id, words, off) => make("button", { type: "button", id, disabled: off }, words);
    const where = at < 0 ? "not among what is filtered" : `${count(at + 1)} of ${count(order.length)}`;
    return make("p", { class: "steer" }, button("back", "Back to the table", false),
      button("previous", "Previous", at <= 0), button("next", "Next", at >= order.length - 1), make("span", {}, where));
  };

  const panel = async (row, focus) => {
    const [d, a, b, m] = [state.d, state.a, state.b, state.m];
    const place = $("panel");
    const compared = comparison();
    const title = make("h2", { id: "panel-title", tabindex: "-1" }, foreign(data.texts[row] || "(nothing was typed)"));
    const relevant = data.relevant[row] < 0 ? "not judged" : `${count(data.relevant[row])} relevant`;
    const said = [...about(row), ` · ${relevant}`];
    if (data.params[row]) said.push(" · asked with ", foreign(data.params[row]));
    if (compared) said.push(` · ${wordOf(compared.classes, row).replaceAll("_", " ") || "not classified"}${compared.depth ? ` in the first ${compared.depth}` : ""}`, ` · Jaccard@10 ${valueWord(compared.alike[row])}`);
    if (compared && wordOf(compared.noise, row)) said.push(` · A/A run of the control: ${wordOf(compared.noise, row).replaceAll("_", " ")}`);
    const [left, right] = pair.codes.map((codes) => valueWord(codes[row]));
    const by = make("p", { class: `why ${OUTCOMES[pair.outcome[row]]}` }, `${data.measures[m]} ${left} → ${right} `, make("span", { class: "moved-by" }, differenceOf(row)), " ");
    const wait = make("p", { class: "instead" }, "Unpacking the rankings …");
    place.replaceChildren(steer(row), title, make("p", { class: "meta" }, ...said), by, wait);
    place.setAttribute("aria-busy", "true");
    if (focus) title.focus();
    const all = await details(d);
    if (!wait.isConnected) return; // something else was opened meanwhile
    const mark = marker(wordsOf(data.texts[row], all));
    by.append(happened(all, row));
    wait.replaceWith(
      make("div", { class: "pair" }, ranking(all, row, a, b, false, mark), ranking(all, row, b, a, true, mark)),
      ...missing(all, row),
      make("h3", {}, "Why"), ...apart(all, row),
      make("h3", {}, "Measures"), measures(row),
      make("h3", {}, "Time"), ...times(all, row));
    place.removeAttribute("aria-busy");
  };

  // ---- putting it on the page

  const offered = new Map(); // what each list offers: it is made anew only where that changed
  const options = (select, list, chosen) => {
    const said = JSON.stringify(list);
    if (offered.get(select) !== said) select.replaceChildren(...list.map(([value, words]) => make("option", { value }, words)));
    offered.set(select, said);
    select.value = chosen;
  };
  const choices = () => {
    const arms = data.arms.map((arm, at) => [String(at), arm]);
    const at = data.compared.indexOf(comparison());
    options($("comparison"), [...data.compared.map((each, n) => [String(n), `${each.name}: ${data.arms[each.control]} → ${data.arms[each.candidate]}`]), ["-1", "any two arms"]], String(at));
    options($("control"), arms, String(state.a));
    options($("candidate"), arms, String(state.b));
    options($("measure"), data.measures.map((name, n) => [String(n), name]), String(state.m));
    options($("outcome"), [["", "all"], ...OUTCOMES.map((name) => [name, OUTCOME_WORDS[name]])], state.outcome);
    options($("slice"), [["", "all"], ...data.slices.map((name) => [name, name])], state.slice);
    const classes = at < 0 ? [] : data.classes.map((name) => [name, name.replaceAll("_", " ")]);
    options($("class"), [["", classes.length ? "all" : "not classified"], ...classes], at < 0 ? "" : state.class);
    $("class").disabled = !classes.length;
    if (at < 0) state.class = "";
    $("dataset").value = String(state.d);
    $("dataset-of").hidden = names.length < 2;
    if ($("text").value !== state.text) $("text").value = state.text;
  };

  const show = (focus = false) => {
    pair = paired();
    choices();
    order = fitting();
    counted();
    histogram(facts());
    const opened = state.q >= 0;
    document.body.classList.toggle("opened", opened);
    $("list").hidden = opened;
    $("panel").hidden = !opened;
    list();
    if (opened) {
      opener = state.q;
      panel(state.q, focus).catch(failed);
    } else {
      $("panel").replaceChildren();
      if (focus && opener >= 0) ($("rows").querySelector(`[data-row="${opener}"]`) ?? $("list")).focus();
      opener = -1;
    }
  };

  const change = (to, push = false) => {
    const opened = state.q;
    state = { ...state, ...to };
    show(state.q !== opened);
    keep(push);
  };
  const open = (row) => {
    const at = order.indexOf(row);
    change({ q: row, page: at < 0 ? state.page : Math.floor(at / PAGE) + 1 });
  };
  const beside = (by) => {
    const at = order.indexOf(state.q);
    const to = at < 0 ? 0 : at + by;
    if (to >= 0 && to < order.length) open(order[to]);
  };
  const shut = () => change({ q: -1 }, true);

  const trouble = (text) => {
    $("trouble").textContent = text;
    $("trouble").hidden = false;
  };
  const failed = (error) => trouble(`This page is damaged (${error.message ?? error}). Run again: python3 run.py harness report`);

  // ---- listening

  const row = (by) => {
    const links = [...$("rows").querySelectorAll("a")];
    const at = links.indexOf(document.activeElement);
    const to = links[at < 0 ? 0 : Math.max(0, Math.min(links.length - 1, at + by))];
    to?.focus();
  };

  const listen = () => {
    const chosen = { control: "a", candidate: "b", measure: "m" };
    for (const [id, key] of Object.entries(chosen)) $(id).addEventListener("change", (event) => change({ [key]: Number(event.target.value), page: 1 }));
    for (const id of ["outcome", "slice", "class"]) $(id).addEventListener("change", (event) => change({ [id]: event.target.value, page: 1, q: -1 }));
    $("text").addEventListener("input", (event) => change({ text: event.target.value, page: 1, q: -1 }));
    $("comparison").addEventListener("change", (event) => {
      const of = data.compared[Number(event.target.value)];
      if (of) change({ a: of.control, b: of.candidate, page: 1 });
    });
    $("dataset").addEventListener("change", async (event) => {
      const d = Number(event.target.value);
      data = await table(d);
      const [a, b] = firstPair(data);
      change({ ...START, d, a, b }, true);
      await details(d);
    });
    $("swap").addEventListener("click", () => change({ a: state.b, b: state.a, page: 1 }));
    $("clear").addEventListener("click", () => change({ text: "", outcome: "", slice: "", class: "", page: 1 }));
    $("choose").addEventListener("submit", (event) => event.preventDefault());
    $("head").addEventListener("click", (event) => {
      const key = event.target.closest("[data-sort]")?.dataset.sort;
      if (key) change({ sort: state.sort === key ? `-${key}` : key, page: 1 });
    });
    $("before").addEventListener("click", () => change({ page: state.page - 1 }));
    $("after").addEventListener("click", () => change({ page: state.page + 1 }));
    $("skip").addEventListener("click", (event) => {
      event.preventDefault();
      (state.q >= 0 ? $("panel-title") : $("list")).focus();
    });
    $("panel").addEventListener("click", (event) => {
      const does = { back: shut, previous: () => beside(-1), next: () => beside(1) }[event.target.id];
      does?.();
    });
    for (const kind of ["mouseover", "mouseout"]) {
      $("panel").addEventListener(kind, (event) => {
        const doc = event.target.closest?.("[data-doc]")?.dataset.doc;
        for (const item of $("panel").querySelectorAll("[data-doc]")) item.classList.toggle("same", kind === "mouseover" && item.dataset.doc === doc);
      });
    }
    $("keys").addEventListener("click", () => $("help").showModal());
    $("close-help").addEventListener("click", () => $("help").close());
    window.addEventListener("popstate", async () => {
      if (location.hash === address(state)) return;
      const opened = state.q;
      await read();
      show(state.q !== opened);
    });
    document.addEventListener("keydown", typed);
  };

  const typed = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || $("help").open) return;
    const at = event.target;
    const writing = at.matches?.("input[type=search], select, textarea");
    const does = {
      Escape: () => (state.q >= 0 ? shut() : at === $("text") && at.blur()),
      ArrowDown: () => row(1),
      ArrowUp: () => row(-1),
    };
    const single = { "/": () => $("text").focus(), "?": () => $("help").showModal(), j: () => row(1), k: () => row(-1), n: () => beside(1), p: () => beside(-1) };
    const listed = state.q < 0;
    let found;
    if (event.key in does) {
      const inRows = at.closest?.("#rows") || (at === $("text") && event.key === "ArrowDown");
      if (event.key === "Escape" || (listed && inRows)) found = does[event.key];
    } else if (!writing && $("single").checked && event.key in single) {
      if (!("jk".includes(event.key) && !listed) && !("np".includes(event.key) && listed)) found = single[event.key];
    }
    if (found) {
      event.preventDefault();
      found();
    }
  };

  const ready = (what) => {
    document.documentElement.dataset.ready = what;
    performance.mark(what);
  };
  const start = async () => {
    if (!("DecompressionStream" in window)) {
      trouble("This browser cannot unpack the data of this page: it lacks DecompressionStream. Use one of 2023 or newer.");
      return;
    }
    await read();
    if (!data.arms.length) {
      trouble(`No arm was measured on ${data.dataset}, so there is nothing to explore.`);
      return;
    }
    for (const id of ["choose", "overview"]) $(id).hidden = false;
    listen();
    show(state.q >= 0);
    ready("table");
    await new Promise((done) => setTimeout(done));
    await details(state.d);
    ready("all");
  };
  start().catch(failed);
})();
