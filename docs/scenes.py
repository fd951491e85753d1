"""The scenes of `docs/pictures/`: what the model answers, and what a person at the terminal does.

Each scene runs the real program in a pseudo-terminal, in a small project and with a model that answers from a
script, and ends with the screen that the picture shows.
"""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, assert_never

import msgspec

from tests.e2e.person import Person
from tests.e2e.world import World
from tests.model.server import Call, Reply

COLUMNS, ROWS = 98, 44
MODEL = "openai/gpt-5.6"
PROMPT = "the total is wrong when I buy three apples"
FILES = {
    "basket.py": '''\
"""A shopping basket: items with a price in cents and a quantity."""


class Basket:
    def __init__(self):
        self.items = {}

    def add(self, name, cents, quantity=1):
        self.items[name] = (cents, quantity)

    def total(self):
        """The sum in cents."""
        return sum(cents for cents, quantity in self.items.values())
''',
    "check.py": """\
from basket import Basket

basket = Basket()
basket.add("apple", 60, 3)
wrong = basket.total() != 180
print(f"three apples: {basket.total()} cents" + ", and not 180" * wrong)
raise SystemExit(wrong)
""",
    "prices.py": """\
import time

for name in ("apples", "bananas", "cherries"):
    print(f"{name}: checked", flush=True)
time.sleep(600)
""",
}
CHECK, PRICES = "python3 -B check.py", "python3 prices.py"
CONFIGURATION = """\
permissions: {{allow: ['shell({check})', 'shell({prices})']}}
ui: {{theme: {theme}, notify: 'off'}}
providers: {{openai: {{base_url: {url}}}}}
"""
USAGE = {"prompt_tokens": 5200, "completion_tokens": 90, "prompt_tokens_details": {"cached_tokens": 4700}}
QUESTION, READY = "1 y  Yes", "/help for commands"
ASKED, ENDED = rf"(?ms){QUESTION}.*^›.*%$", "(?ms)^— .*^>.*%$"


class Step(msgspec.Struct, frozen=True):
    """One thing that a person does."""

    kind: Literal["say", "answer", "press"]
    text: str


class Scene(msgspec.Struct, frozen=True):
    """One picture: the model's `answers`, what the person does, and the text that the screen then shows."""

    name: str
    until: str
    steps: tuple[Step, ...] = ()
    answers: tuple[Reply, ...] = ()
    arguments: tuple[str, ...] = ()
    earlier: str = ""
    """The prompt of a session before this one, which takes the first answers."""
    theme: Literal["dark", "light"] = "dark"
    is_truecolour: bool = False


def _say(text: str) -> Step:
    return Step("say", text)


def _calls(text: str, *calls: Call) -> Reply:
    return Reply(text=text, calls=calls, usage=USAGE)


def _edit(*edits: tuple[str, str]) -> Call:
    changes = [{"old": old, "new": new} for old, new in edits]
    return Call("edit_file", {"path": "basket.py", "edits": changes})


def _shell(command: str) -> Call:
    return Call("shell", {"command": command})


_READ = Call("read_file", {"path": "basket.py"})
_SUM = ("sum(cents for cents", "sum(cents * quantity for cents")
_LOOK = _calls("I'll look at the code, and at what its check says.", _READ, _shell(CHECK))
_FIX = _calls("`total` adds up the prices and leaves the **quantities** out.", _edit(_SUM))
_FIXED = _calls("Three apples are 180 cents now.")
_EXPLANATION = _calls('''\
## How the total is computed

`Basket.total` adds up the price of **every kind** of item. It *ignores* how many there are:

1. `add` keeps a pair of price and quantity for each name
2. `total` reads both, and uses the price alone

```python
def total(self):
    """The sum in cents."""
    return sum(cents * quantity for cents, quantity in self.items.values())
```

| Basket | Now | Expected |
|---|--:|--:|
| one apple | 60 | 60 |
| three apples | 60 | 180 |
''')
_PLAN = _calls("""\
The plan:

1. In `basket.py`, multiply the price by the quantity in `total`
2. Run `check.py`, which expects 180 cents
""")

SCENES = (
    Scene("start", f"(?ms){READY}.*^>.*%$"),
    Scene("answer", ENDED, (_say("how is the total computed?"),), (_EXPLANATION,)),
    Scene("edit", ASKED, (_say(PROMPT),), (_LOOK, _FIX), is_truecolour=True),
    Scene("command", ASKED, (_say("publish it"),), (_calls("I'll push it.", _shell("git push origin main")),)),
    Scene(
        "hunks", "(?ms)Hunk 1 of 2.*^›.*%$", (_say(PROMPT), Step("answer", "h")),
        (_calls("", _READ), _calls("", _edit(_SUM, ("quantity.", "quantity each.")))),
    ),
    Scene(
        "running", "(?ms)cherries: checked.*Esc stops.*%$", (_say("are all prices up to date?"),),
        (_calls("I'll check.", _READ), _calls("", _shell(PRICES))),
    ),
    Scene(
        "error", "(?ms)HTTP 401.*^>.*%$", (_say(PROMPT),),
        (Reply(status=401, body={"error": {"message": "Incorrect API key provided."}}),),
    ),
    Scene("menu", "(?ms)/undo .*%$", (Step("press", "/"),)),
    Scene("resume", "(?ms)180 cents now.*^>.*%$", (), (_LOOK, _FIXED), ("-c",), earlier=PROMPT),
    Scene("plan", ENDED, (_say(PROMPT),), (_LOOK, _PLAN), ("--mode", "plan")),
    Scene("yolo", ENDED, (_say(PROMPT),), (_LOOK, _FIX, _calls("", _shell(CHECK)), _FIXED), ("--mode", "yolo")),
    Scene(
        "light", ENDED, (_say(PROMPT),), (_LOOK, _FIX, _FIXED), ("--mode", "auto-edit"), theme="light",
        is_truecolour=True,
    ),
)  # fmt: skip


class _World(World):
    """A machine whose terminal may have all colours."""

    colours: Mapping[str, str] = MappingProxyType({})

    def environment(self, changes: Any = None) -> dict[str, str]:
        """A fresh user's environment."""
        return super().environment({**self.colours, **(changes or {})})


def play(scene: Scene) -> bytes:
    """What the program has written when the scene ends."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder, _World(Path(folder)) as world:
        _furnish(world, scene)
        if scene.earlier:
            assert world.run("run", "-m", MODEL, scene.earlier).code == 0
        with Person(world, "-m", MODEL, *scene.arguments, columns=COLUMNS, rows=ROWS, is_awaited=False) as person:
            return _acted(person, scene)


def _furnish(world: "_World", scene: Scene) -> None:
    world.work = world.home / "src" / "basket"
    world.work.mkdir(parents=True)
    world.colours = {"COLORTERM": "truecolor"} if scene.is_truecolour else {}
    for name, text in FILES.items():
        (world.work / name).write_text(text, encoding="utf-8")
    (world.config / "config.yaml").write_text(
        CONFIGURATION.format(check=CHECK, prices=PRICES, theme=scene.theme, url=world.server.url), encoding="utf-8"
    )
    keys = world.config / "keys.yaml"
    keys.write_text("OPENAI_API_KEY: none\n", encoding="utf-8")
    keys.chmod(0o600)
    world.script(*scene.answers)


def _acted(person: Person, scene: Scene) -> bytes:
    """Do the steps; return what was written until the last of them has had its effect."""
    person.wait(READY)
    person.wait_for_editor()
    for step in scene.steps:
        _act(person, step)
    person.wait(scene.until)
    person.pump(0.3)
    shown = person.log
    person.process.terminate()
    person.finish()
    return shown


def _act(person: Person, step: Step) -> None:
    match step.kind:
        case "say":
            person.say(step.text)
        case "answer":
            person.decide(QUESTION, step.text)
        case "press":
            person.type(step.text)
        case _ as unreachable:
            assert_never(unreachable)
