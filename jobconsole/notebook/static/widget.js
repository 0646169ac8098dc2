// The page of a JobsWidget: it shows texts that it is given, and asks for the next ones. Texts of jobs are only ever set
// as text, never as HTML.

const node = (tag, attributes = {}, ...children) => {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name in made) made[name] = value;
    else made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
};

const spans = (cell) => cell.map(([text, tone]) => node("span", { className: tone, textContent: text }));

// Light letters mean a dark ground, whichever notebook this is.
const isDark = (element) => {
  const colour = getComputedStyle(element.parentElement ?? element).color.match(/[\d.]+/g) ?? [];
  const [red, green, blue] = colour.map(Number);
  return 0.299 * red + 0.587 * green + 0.114 * blue > 140;
};

function render({ model, el }) {
  const marked = new Set();
  let asked = false;

  const ask = (content) => {
    asked = true;
    model.send(content);
  };

  const filter = node("input", {
    type: "text",
    value: model.get("filter"),
    placeholder: "filter, as in type:mail err:~smtp age:<1h",
    ariaLabel: "filter",
    spellcheck: false,
    onkeydown: (event) => {
      event.stopPropagation();
      if (event.key === "Enter") {
        marked.clear();
        ask({ do: "filter", text: filter.value });
      }
    },
  });
  const open = (verb) => () => ask({ do: "preview", verb, ids: marked.size ? [...marked] : null });
  const retry = node("button", { type: "button", onclick: open("retry") });
  const remove = node("button", { type: "button", onclick: open("delete") });
  const bar = node("div", { className: "jc-bar" }, filter, retry, remove);
  const message = node("div", { className: "l", role: "status" });
  const sheet = node("div", { className: "jc-sheet", hidden: true });
  const rows = node("tbody");
  const head = node("tr");
  const table = node("table", { className: "jc" }, node("thead", {}, head), rows);
  const note = node("div", { className: "l faint" });
  const root = node("div", { className: "jobconsole jc-widget" }, bar, message, sheet, table, note);

  const drawButtons = () => {
    const which = marked.size ? `${marked.size} marked` : "all that match";
    retry.textContent = `Retry ${which} …`;
    remove.textContent = `Delete ${which} …`;
    const off = model.get("read_only") || !model.get("table").rows.length || !sheet.hidden;
    retry.disabled = remove.disabled = off;
    retry.title = remove.title = model.get("read_only") ? "this connection is read-only" : "a preview comes first";
  };

  const drawRow = ({ id, cells }) => {
    const box = node("input", {
      type: "checkbox",
      checked: marked.has(id),
      ariaLabel: `mark job ${id}`,
      onchange: () => {
        if (box.checked) marked.add(id);
        else marked.delete(id);
        drawButtons();
      },
    });
    const titles = model.get("table").titles;
    const tds = cells.map((cell, at) => node("td", { className: titles[at][1] ? "r" : "" }, ...spans(cell)));
    return node("tr", {}, node("td", {}, box), ...tds);
  };

  const drawTable = () => {
    asked = false;
    const { titles, rows: jobs, note: words, moment } = model.get("table");
    const here = new Set(jobs.map((job) => job.id));
    for (const id of marked) if (!here.has(id)) marked.delete(id);
    const ths = titles.map(([title, right]) => node("th", { className: right ? "r" : "", textContent: title }));
    head.replaceChildren(node("th"), ...ths);
    rows.replaceChildren(...jobs.map(drawRow));
    note.textContent = `${words}, as of ${moment}`;
    root.classList.toggle("dark", isDark(root));
    drawButtons();
  };

  const drawMessage = () => {
    const { text = "", tone = "text" } = model.get("message");
    message.className = `l ${tone}`;
    message.textContent = text;
  };

  const drawSheet = () => {
    const { number, title, button, jobs, facts = [], then } = model.get("preview");
    sheet.hidden = number === undefined;
    drawButtons();
    if (sheet.hidden) {
      sheet.replaceChildren();
      return;
    }
    const why = node("input", {
      type: "text",
      placeholder: "why? It is kept with your name",
      ariaLabel: "reason",
      onkeydown: (event) => event.stopPropagation(),
    });
    const lines = facts.map(([label, text]) =>
      node("tr", {}, node("th", { className: "k", textContent: label }), node("td", { className: "w", textContent: text })),
    );
    sheet.replaceChildren(
      node("div", { className: "h", textContent: `${title}: a preview, nothing is changed yet` }),
      node("table", { className: "jc" }, node("tbody", {}, ...lines)),
      node("div", { className: "l muted", textContent: then }),
      node(
        "div",
        { className: "jc-bar" },
        why,
        node("button", { type: "button", textContent: "Back", onclick: () => ask({ do: "back" }) }),
        node("button", {
          type: "button",
          className: "jc-go",
          textContent: button,
          disabled: !jobs,
          onclick: () => {
            marked.clear();
            ask({ do: "run", number, why: why.value });
          },
        }),
      ),
    );
  };

  const changes = { table: drawTable, message: drawMessage, preview: drawSheet };
  for (const [name, draw] of Object.entries(changes)) model.on(`change:${name}`, draw);
  el.append(root);
  drawTable();
  drawMessage();
  drawSheet();
  // While the kernel works on a cell it answers nothing: one question waits there, not one for each interval.
  const timer = setInterval(() => {
    if (!asked && document.visibilityState === "visible") ask({ do: "refresh" });
  }, 1000 * model.get("every"));
  return () => {
    clearInterval(timer);
    for (const [name, draw] of Object.entries(changes)) model.off(`change:${name}`, draw);
  };
}

export default { render };
