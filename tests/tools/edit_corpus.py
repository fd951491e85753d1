"""Edits as models write them: a base file, a passage of it as it is, the passage as it should become, and the ways
in which a model's rendering of both drifts from the file. What is intended is always the undrifted change."""

import difflib
import re
import textwrap
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parent / "edited"


def base(name: str) -> str:
    return (FOLDER / f"{name}.txt").read_text(encoding="utf-8")


class Seed(NamedTuple):
    """A passage given by its first and last line (stripped), and what is replaced in it."""

    file: str
    first: str
    last: str
    change: tuple[tuple[str, str], ...]
    nth: int = 0


def s(file: str, first: str, last: str, *change: str, nth: int = 0) -> Seed:
    pairs = tuple(zip(change[::2], change[1::2], strict=True))
    return Seed(file, first, last, pairs, nth)


SEEDS = [
    s("cache.py", "def get_user(self, key: str) -> object | None:", "made, value = entry", "self.entries.get(key)", "self.entries.get(key.lower())"),
    s("cache.py", "def get_group(self, key: str) -> object | None:", "return None", "return None", "return self.load(key)"),
    s("cache.py", "def put(self, key: str, value: object) -> None:", "self.entries.popitem(last=False)", "        self.entries[key]", "        if not key:\n            raise KeyError(key)\n        self.entries[key]"),
    s("cache.py", "def describe(self) -> str:", 'return "entries:\\n" + "".join(lines)', "self.entries.items()", "sorted(self.entries.items())"),
    s("cache.py", "def shared(limit: int = 100) -> Cache:", "return Cache(limit, max_age_s=60.0)", "60.0", "90.0"),
    s("server.go", "func (s *Store) HandleItem(w http.ResponseWriter, r *http.Request) {", "item, ok := s.Items[id]", "missing id", "which item?"),
    s("server.go", "if !ok {", "// Write the order as JSON, whatever the client says it wants.", "http.StatusNotFound", "http.StatusGone", nth=1),
    s("server.go", "func (s *Store) Close() error {", "return nil", "\ts.Closed = true\n", "\tfor id := range s.Items {\n\t\tif id == \"\" {\n\t\t\tcontinue\n\t\t}\n\t\tdelete(s.Items, id)\n\t}\n\ts.Closed = true\n"),
    s("server.go", "// Write the item as JSON, whatever the client says it wants.", 'fmt.Printf("encode: %v\\n", err)', "fmt.Printf", "log.Printf"),
    s("server.go", "type Store struct {", "}", "Closed bool", "Open bool"),
    s("cart.js", "export function addItem(cart, item) {", "return { ...cart, changed: true };", "line.count += 1;", "line.count += item.count ?? 1;"),
    s("cart.js", "export function removeItem(cart, item) {", "return cart;", "    line.count -= 1;\n", "    line.count -= 1;\n    if (line.count < 1) {\n      return without(cart, line);\n    }\n"),
    s("cart.js", "for (const line of cart.lines) {", "if (Number.isNaN(sum)) {", "?? 1", "?? fallback"),
    s("cart.js", "export function receipt(cart) {", "}", "line.name", "line.title"),
    s("cart.js", "const rates = await loadRates();", "let sum = 0;", "loadRates()", "loadRates(currency)"),
    s("List.tsx", "<section className=\"list\">", "<input", "className", "role=\"search\" className"),
    s("List.tsx", "<p>“{filter}” was found in {shown.length} items – of {items.length}</p>", "<ul>", "was found in", "occurs in"),
    s("List.tsx", "{shown.map((item) => (", "{item}", "key={item}", "key={item} className=\"item\""),
    s("List.tsx", "<p>Nothing here yet…</p>", "</button>", "    Don’t wait", "    Don’t wait longer"),
    s("List.tsx", "const [filter, setFilter] = useState(\"\");", "const shown = items.filter((item) => item.includes(filter));", "item.includes(filter)", "item.startsWith(filter)"),
    s("Account.java", "public void deposit(long amount) {", "balance += amount;", "balance += amount;", "balance = Math.addExact(balance, amount);"),
    s("Account.java", "if (amount > balance) {", "// Every movement is written down before the balance changes.", "not enough money", "balance too low"),
    s("Account.java", "public long getBalance() {", "return List.copyOf(log);", "public long getBalance", "public synchronized long getBalance"),
    s("Account.java", "// Every movement is written down before the balance changes.", "balance -= amount;", "        balance -= amount;", "        synchronized (this) {\n            balance -= amount;\n        }", nth=1),
    s("ring.c", "struct ring *r = malloc(sizeof *r);", "r->data = malloc(size);", "malloc(size)", "calloc(size, 1)"),
    s("ring.c", "int ring_put(struct ring *r, char c)", "return -1;", "return -1;", "return RING_FULL;"),
    s("ring.c", "int ring_get(struct ring *r, char *c)", "*c = r->data[r->tail];", "\t*c = r->data", "\tif (c)\n\t\t*c = r->data"),
    s("ring.c", "if (next == r->tail) {", 'fprintf(stderr, "ring is full\\n");', "stderr", "r->log"),
    s("ring.c", "/* A ring of fixed size; one slot stays empty to tell full from empty. */", "size_t tail;", "size_t tail", "size_t last"),
    s("parse.rs", "pub fn parse_number(input: &str) -> Result<(Value, &str), String> {", "if end == 0 {", ".unwrap_or(input.len());", ".unwrap_or_else(|| input.len());"),
    s("parse.rs", "return Err(format!(\"expected a text at {:?}\", input));", "Ok((Value::Text(input[..end].to_string()), &input[end + 1..]))", "to_string()", "to_owned()"),
    s("parse.rs", "match self {", 'Value::Number(number) => write!(f, "{}\\n", number),', "write!(f, \"{}\\n\", number)", "write!(f, \"{:.3}\\n\", number)"),
    s("parse.rs", "pub enum Value {", "List(Vec<Value>),", "    Number(f64),\n", "    Number(f64),\n    Flag(bool),\n"),
    s("deploy.yaml", "needs: test", "python-version: \"3.11\"", "3.11", "3.13"),
    s("deploy.yaml", "- name: Run the tests", "pytest -q", "pytest -q", "pytest -q --maxfail=3"),
    s("deploy.yaml", "# The token is kept in the settings of the repository.", "TOKEN: ${{ secrets.TOKEN }}", "TOKEN: ${{ secrets.TOKEN }}", "TOKEN: ${{ secrets.TOKEN }}\n          REGION: eu"),
    s("deploy.yaml", "push:", "branches: [main]", "[main]", "[main, next]"),
    s("GUIDE.md", "The tool reads a folder – any folder – and makes a list of what’s in it. It doesn’t change anything.", "The tool reads a folder – any folder – and makes a list of what’s in it. It doesn’t change anything.", "makes a list", "prints a list"),
    s("GUIDE.md", "Run the installer and answer “yes” to each of the questions it asks. Then open a new shell.", "- On Linux, the installer needs `curl` and about 20 MB of space.", "open a new shell", "open another shell"),
    s("GUIDE.md", "- On macOS, the installer needs Xcode’s command line tools.", "- On Windows, use the “portable” archive.", "archive", "zip file"),
    s("GUIDE.md", "The list shows names, sizes and dates. Names with accents (café, naïve) are shown as they are.", "| option | meaning |", "sizes and dates", "sizes, owners and dates"),
    s("GUIDE.md", "If the list stays empty, you don’t have the right to read the folder. Ask whoever owns it.", "If the list stops early, the disk is damaged. Copy what’s readable – then replace it.", "Ask whoever owns it", "Ask the owner"),
    s("site.css", ".panel {", "border: 1px solid #ddd;", "24px", "20px"),
    s("site.css", ".card:hover {", "border-color: var(--accent);", "var(--accent)", "black"),
    s("site.css", "/* Small screens get one column and less room around it. */", "padding: 8px;", "600px", "640px"),
    s("site.css", ".panel {", "gap: 4px;", "gap: 4px;", "gap: 4px;\n    border: none;", nth=1),
    s("report.sql", "-- Sales of each week, with the share of every region.", "r.name AS region,", "AS week", "AS week_start"),
    s("report.sql", "date_trunc('month', o.created_at) AS month,", "sum(o.amount) AS amount", "sum(o.amount)", "round(sum(o.amount), 2)"),
    s("report.sql", "CREATE TABLE audit (", "what text NOT NULL", "    actor text NOT NULL,\n", "    actor text NOT NULL,\n    place text,\n"),
    s("build.mk", "tool: $(OBJECTS)", '@echo "built $@"', "-o $@", "$(LDFLAGS) -o $@"),
    s("build.mk", "# The tests need the tool and a folder they may write to.", "done", "sh $$each", "timeout 60 sh $$each"),
    s("build.mk", "install: tool", "install -m 755 tool $(DESTDIR)/usr/bin/tool", "-m 755", "-m 0755"),
    s("queue.rb", "def pop", "File.delete(File.join(folder, path))", "JSON.parse(", "JSON.parse!("),
    s("queue.rb", "def peek", "JSON.parse(File.read(File.join(folder, path)))", "return nil", "return :empty"),
    s("queue.rb", "# A queue on disk: one file for every job, named by when it came.", "def initialize(folder)", "attr_reader :folder", "attr_reader :folder, :limit"),
    s("queue.rb", "Dir.children(folder).sort.each do |name|", "yield JSON.parse(File.read(File.join(folder, name)))", "yield", "yield name,"),
]  # fmt: skip


class Case(NamedTuple):
    """One call and what it is meant to give."""

    name: str
    text: str
    old: str
    new: str
    wanted: str


def passage(seed: Seed) -> tuple[str, str, str]:
    """The base text, the passage (with its last line end) and the passage as it should become."""
    text = base(seed.file)
    lines = text.splitlines(keepends=True)
    firsts = [index for index, line in enumerate(lines) if line.strip() == seed.first]
    start = firsts[seed.nth]
    end = next(index for index in range(start, len(lines)) if lines[index].strip() == seed.last) + 1
    old = "".join(lines[start:end])
    new = old
    for before, after in seed.change:
        assert new.count(before) >= 1, (seed, before)
        new = new.replace(before, after, 1)
    return text, old, new


Drift = Callable[[str], str]


def _each_indent(how: Callable[[str], str]) -> Drift:
    return lambda text: re.sub(r"(?m)^[ \t]+(?=\S)", lambda found: how(found.group()), text)


def _step(text: str) -> int:
    return min((len(found) for found in re.findall(r"(?m)^ +(?=\S)", text)), default=4)


def _plain(text: str) -> str:
    return text.translate({ord(a): b for a, b in {"’": "'", "“": '"', "”": '"', "–": "-", "…": "..."}.items()})


def _blanks_after(text: str) -> str:
    return re.sub(r"(?m)(?<=[^\s])$", "  ", text)


BOTH: dict[str, Drift] = {
    "as it is": lambda text: text,
    "tabs as four spaces": lambda text: text.replace("\t", "    "),
    "tabs as two spaces": _each_indent(lambda indent: indent.replace("\t", "  ")),
    "tabs as eight spaces": _each_indent(lambda indent: indent.replace("\t", " " * 8)),
    "two spaces as a tab": _each_indent(lambda indent: indent.replace("  ", "\t")),
    "four spaces as a tab": _each_indent(lambda indent: indent.replace("    ", "\t")),
    "without the common indent": textwrap.dedent,
    "two deeper": lambda text: textwrap.indent(text, "  "),
    "four deeper": lambda text: textwrap.indent(text, "    "),
    "blanks behind lines": _blanks_after,
    "plain quotes": _plain,
    "composed otherwise": lambda text: unicodedata.normalize("NFD", text),
    "no-break spaces": lambda text: re.sub(r"(?<=\w) (?=\w+ )", "\u00a0", text, count=1),
    "no last line end": lambda text: text.removesuffix("\n"),
}


def _halved(text: str) -> str:
    return _each_indent(lambda indent: " " * (len(indent) // 2) if " " in indent else indent)(text)


def _doubled(text: str) -> str:
    return _each_indent(lambda indent: " " * (len(indent) * 2) if " " in indent else indent)(text)


def _numbered(text: str, first: int) -> str:
    lines = text.removesuffix("\n").split("\n")
    return "\n".join(f"{number}\t{line}" for number, line in enumerate(lines, first)) + "\n"


_OTHER_WORDS = {"the": "this", "every": "each", "for": "of", "with": "and", "stays": "is", "has": "had"}


def _other_word(old: str, new: str) -> tuple[str, str] | None:
    """One short word of a comment that stays is another in the model's mind."""
    for line in old.split("\n"):
        if re.match(r"\s*(#|//|/\*|--|\*) ", line) and line in new.split("\n"):
            for word, other in _OTHER_WORDS.items():
                if found := re.search(rf"(?i)\b{word}\b", line):
                    changed = line[: found.start()] + other + line[found.end() :]
                    return old.replace(line, changed, 1), new.replace(line, changed, 1)
    return None


def _without_a_line(old: str, new: str) -> tuple[str, str] | None:
    """A context line in the middle is left out, well away from the change."""
    olds, news = old.splitlines(keepends=True), new.splitlines(keepends=True)
    blocks = difflib.SequenceMatcher(None, olds, news, autojunk=False).get_matching_blocks()
    for block in blocks:
        for offset in range(1, block.size - 1):
            at = block.a + offset
            if 0 < at < len(olds) - 1 and len(olds) >= 5:
                mine = block.b + offset
                return "".join(olds[:at] + olds[at + 1 :]), "".join(news[:mine] + news[mine + 1 :])
    return None


def _marked(text: str, wanted: str, mark: Callable[[int, str], str]) -> tuple[str, str]:
    """Both texts with a mark on lines that the change leaves alone."""
    olds, news = text.split("\n"), wanted.split("\n")
    codes = difflib.SequenceMatcher(None, olds, news, autojunk=False).get_opcodes()
    for tag, a, b, c, d in codes:
        if tag == "equal":
            for mine, theirs in zip(range(a, b), range(c, d), strict=True):
                olds[mine] = news[theirs] = mark(mine, olds[mine])
    return "\n".join(olds), "\n".join(news)


def _file_variants(text: str, wanted: str) -> Iterator[tuple[str, str, str]]:
    yield "CRLF in the file", text.replace("\n", "\r\n"), wanted.replace("\n", "\r\n")
    yield "no line end at the end of the file", text.removesuffix("\n"), wanted.removesuffix("\n")
    yield (
        "blanks behind the file's lines",
        *_marked(text, wanted, lambda n, line: line + "  " if n % 2 and line else line),
    )
    yield "blanks in the file's blank lines", *_marked(text, wanted, lambda n, line: line or "    ")
    if "'" in text and "’" not in text:
        yield (
            "an odd space in the file",
            *_marked(text, wanted, lambda n, line: re.sub(r"(?<=\w) (?=\w+ )", "\u00a0", line, count=1)),
        )


def cases() -> Iterator[Case]:
    """All applicable combinations."""
    for number, seed in enumerate(SEEDS):
        text, old, new = passage(seed)
        wanted = text.replace(old, new, 1)
        where = f"{seed.file} {number}"
        for name, drift in BOTH.items():
            if drift(old) != old or name == "as it is":
                yield Case(f"{where}: {name}", text, drift(old), drift(new), wanted)
        first = text[: text.index(old)].count("\n") + 1
        yield Case(f"{where}: line numbers", text, _numbered(old, first), _numbered(new, first), wanted)
        if "    " in old and _step(text) >= 4:
            yield Case(f"{where}: half the indent", text, _halved(old), _halved(new), wanted)
        if "  " in old and "\t" not in old and _step(text) == 2:
            yield Case(f"{where}: twice the indent", text, _doubled(old), _doubled(new), wanted)
        if pair := _other_word(old, new):
            yield Case(f"{where}: a word of a comment", text, *pair, wanted)
        if pair := _without_a_line(old, new):
            yield Case(f"{where}: a line left out", text, *pair, wanted)
        if "\\n" in old and "\\n" not in "".join(set(new.split("\n")) - set(old.split("\n"))):
            yield Case(f"{where}: escapes read", text, old.replace("\\n", "\n"), new.replace("\\n", "\n"), wanted)
        if '"' in old and "\\" not in old and "\\" not in new:
            yield Case(f"{where}: escaped twice", text, *(each.replace('"', '\\"') for each in (old, new)), wanted)
        for name, variant, intended in _file_variants(text, wanted):
            if variant != text:
                yield Case(f"{where}: {name}", variant, old, new, intended)


class Trap(NamedTuple):
    """A call that must be refused."""

    name: str
    text: str
    old: str
    new: str


def traps() -> Iterator[Trap]:
    """Passages that are stale, meant for another file, or stand in several places."""
    names = sorted({seed.file for seed in SEEDS})
    for number, seed in enumerate(SEEDS):
        text, old, new = passage(seed)
        where = f"{seed.file} {number}"
        other = base(names[(names.index(seed.file) + 1) % len(names)])
        yield Trap(f"{where}: another file", other, old, new)
        if pair := _stale(old, new, of_change=False):
            yield Trap(f"{where}: a stale line beside it", text, *pair)
        if pair := _stale(old, new, of_change=True):
            yield Trap(f"{where}: a stale line that changes", text, *pair)
        yield Trap(f"{where}: twice in the file", f"{text}\n{old}", old, new)
        deeper, asked = textwrap.indent(old, "    "), textwrap.indent(old, "  ")
        if asked not in f"{text}\n{deeper}":
            yield Trap(f"{where}: twice at two depths", f"{text}\n{deeper}", asked, textwrap.indent(new, "  "))
        lines = old.splitlines(keepends=True)
        if len(lines) > 3:
            short = "".join([lines[0], "    ...\n", lines[-1]])
            yield Trap(
                f"{where}: with dots for lines", text, short, short.replace(lines[0], f"{lines[0]}# more\n", 1)
            )
    yield from _written_traps()


def _stale(old: str, new: str, *, of_change: bool) -> tuple[str, str] | None:
    """A name or number in a line of code is not what the file has (any more)."""
    news = new.split("\n")
    for line in old.split("\n"):
        found = re.search(r"\b[a-z_]{4,}\b|\b\d+\b", line)
        if re.match(r"\s*(#|//|/\*|--|\*|-|[A-Z][a-z]+ .*\.$)", line) or not found or (line in news) == of_change:
            continue
        other = line[: found.start()] + ("7" if found.group().isdigit() else "legacy") + line[found.end() :]
        return old.replace(line, other, 1), new.replace(line, other, 1) if not of_change else new
    return None


def _written_traps() -> Iterator[Trap]:
    """Places that are alike, each with one word in which they differ from what is asked for."""
    cache, go, java = base("cache.py"), base("server.go"), base("Account.java")
    body = cache[cache.index("        entry = self.entries.get(key)") : cache.index("    def get_group")]
    yield Trap("the body of two functions", cache, body, body.replace("is None", "is Nothing"))
    for name in ("get_member", "get_item", "find_user"):
        old = cache[cache.index("    def get_user") : cache.index("    def get_group")].replace("get_user", name)
        yield Trap(f"a function {name} that is not there", cache, old, old.replace("return value", "return made"))
    for name in ("HandleCart", "HandleUser"):
        old = go[go.index("func (s *Store) HandleOrder") : go.index("func (s *Store) Close")].replace(
            "HandleOrder", name
        )
        yield Trap(f"a handler {name} that is not there", go, old, old.replace("missing id", "no id"))
    check = java[java.index("        if (amount <= 0) {") : java.index("        // Every movement")]
    yield Trap("a check made twice, other indent", java, check.replace("    ", "  "), check.replace("<= 0", "< 1"))
    yield Trap("a table with numbers of its own", "5\tActive\n6\tClosed\n", "12\tActive", "12\tGone")
    yield Trap("a number before a part of a line", "return max(1, 2)\n", "1\tx", "1\tQ")
    yield Trap("the number of a line far away", 99 * "a\n" + "x = 1\n", "40\tx = 1", "40\tx = 2")
    yield Trap("the new value of another key", "[dev]\nport = 80\n[prod]\nport = 90\n", "port = 70", "port = 90")
    yield Trap("new lines at the margin", "def f():\n    go()\n", "go()", "go()\nstop()")
    yield Trap("a block around a line without indentation", "if a:\n    go()\n", "go()", "if b:\n    go()")
    yield Trap("the end of a word at the end", "x = 2\nx = 11", "1\n", "3\n")
    yield Trap("a word in a word", "value = 1\nvalue_of = 2\n", "value  \n", "price  \n")
    yield Trap("one brace", java, "}", "};")
    yield Trap("nothing but blanks", cache, "\t\n \n", "x")
    yield Trap("curly or straight in two places", 'a = “x”\na = "x"\nb = „x“\n', "a = ‟x‟", "a = y")
    yield Trap(
        "a number that moved",
        "retries = 3\ntimeout = 60\n",
        "retries = 3\ntimeout = 30\n",
        "retries = 5\ntimeout = 30\n",
    )
    yield Trap(
        "an operator that differs",
        "if a < b:\n    go(a)\n    stop(b)\n",
        "if a > b:\n    go(a)\n    stop(b)\n",
        "if a > b:\n    stay(a)\n    stop(b)\n",
    )
    yield Trap(
        "a product that differs",
        "x = a * b\ny = x + c + d\nz = y\n",
        "x = a * c\ny = x + c + d\nz = y\n",
        "x = a * c\ny = x + c - d\nz = y\n",
    )
    yield Trap(
        "another string",
        'say("the users")\nload(users)\nsave(users)\n',
        'say("the items")\nload(users)\nsave(users)\n',
        'say("the items")\nload(users)\nkeep(users)\n',
    )
