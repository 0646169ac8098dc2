// A host of a widget's page with the least that an anywidget can rely on: elements, and a model. It reads the module and
// the model's state from stdin, uses the page as a person would, and writes what came of it to stdout.
import { readFileSync } from "node:fs";

const given = JSON.parse(readFileSync(0, "utf8"));
const refuse = (what) => ({
  get: (object, name) => {
    if (name in object || typeof name === "symbol") return object[name];
    throw new Error(`${what} has no ${name}`);
  },
});

class Element {
  constructor(tag) {
    Object.assign(this, { tag, children: [], listeners: {}, attributes: {}, parentElement: null });
    Object.assign(this, { className: "", title: "", hidden: false, disabled: false, words: "" });
    if (tag === "input") Object.assign(this, { type: "text", value: "", placeholder: "", checked: false, spellcheck: true });
    if (tag === "button") this.type = "submit";
  }
  set innerHTML(text) { throw new Error("texts of jobs are never HTML"); }
  get textContent() { return this.words + this.children.map((child) => child.textContent).join(" "); }
  set textContent(text) { this.children = []; this.words = String(text); }
  get classList() {
    return { toggle: (name, on) => {
      const names = this.className.split(" ").filter((one) => one && one !== name);
      this.className = [...names, ...(on ? [name] : [])].join(" ");
    } };
  }
  setAttribute(name, value) { this.attributes[name] = value; }
  addEventListener(name, listener) { this.listeners[name] = listener; }
  append(...children) { for (const child of children) child.parentElement = this; this.children.push(...children); }
  replaceChildren(...children) { this.children = []; this.append(...children); }
  all(tag) { return this.children.flatMap((child) => [...(child.tag === tag ? [child] : []), ...child.all(tag)]); }
  press(name, more = {}) { if (!this.disabled) this.listeners[name]({ stopPropagation: () => {}, ...more }); }
}

let letters = "rgb(33, 33, 33)";
const timers = new Map();
globalThis.document = new Proxy(
  { createElement: (tag) => new Element(tag), visibilityState: "visible" }, refuse("document"),
);
globalThis.getComputedStyle = () => ({ color: letters });
globalThis.setInterval = (work) => { timers.set(timers.size + 1, work); return timers.size; };
globalThis.clearInterval = (number) => timers.delete(number);

const used = new Set(), sent = [], listeners = new Map();
const offered = {
  get: (name) => given.state[name],
  on: (name, listener) => listeners.set(name, listener),
  off: (name) => listeners.delete(name),
  send: (content) => sent.push(content),
};
const model = new Proxy(offered, {
  get: (object, name) => { used.add(name); return refuse("model").get(object, name); },
});

const page = (await import(`data:text/javascript,${encodeURIComponent(given.module)}`)).default;
const unknown = Object.keys(page).filter((name) => !["render", "initialize"].includes(name));
if (unknown.length) throw new Error(`a module exports no ${unknown}`);

const place = new Element("div");
place.append(new Element("div"));
const el = place.children[0];
const close = await page.render({ model, el });
const [root] = el.children, [, rows] = [null, root.all("tbody").at(-1)];
const classes = [root.className];
const [retry, remove] = root.all("button"), [filter] = root.all("input");
for (const work of timers.values()) { work(); work(); } // the second one waits for the first one's answer
retry.press("click");
letters = "rgb(238, 238, 238)";
listeners.get("change:table")();
classes.push(root.className);
const box = root.all("tbody").at(-1).all("input")[0];
box.checked = true;
box.press("change");
remove.press("click");
filter.value = "type:mail";
filter.press("keydown", { key: "Enter" });
const found = { used: null, sent, classes, rows: rows.children.length, text: root.textContent };
close();
process.stdout.write(JSON.stringify({ ...found, used: [...used].sort(), listeners: listeners.size, timers: timers.size }));
