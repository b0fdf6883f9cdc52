// Ask the search of a built site, with the code that a browser runs: node search.js SITE WORD...
// Prints an object from each word to the pages that are found, the best first.
const fs = require("fs"), path = require("path"), vm = require("vm");
const [site, ...words] = process.argv.slice(2);
const world = { console, URLSearchParams, document: { addEventListener() {}, getElementById: () => ({}) } };
world.window = world;
world.localStorage = { setItem() {}, getItem() {} };
world._ready = () => {};
world._ = (text) => text;
world.SPHINX_HIGHLIGHT_ENABLED = false;
vm.createContext(world);
const parts = ["documentation_options.js", "base-stemmer.js", "english-stemmer.js", "language_data.js", "searchtools.js"];
let code = parts.map((name) => path.join(site, "_static", name)).filter(fs.existsSync);
code = code.map((file) => fs.readFileSync(file, "utf8")).join("\n");
const ask = `
Search._index = (() => { let found; const Search = { setIndex: (index) => (found = index) };
  ${fs.readFileSync(path.join(site, "searchindex.js"), "utf8")}; return found; })();
(words) => Object.fromEntries(words.map((word) => [word,
  Search._performSearch(...Search._parseQuery(word)).reverse().map((found) => found[0])]));`;
const find = vm.runInContext(`${code}\n${ask}`, world);
console.log(JSON.stringify(find(words)));
