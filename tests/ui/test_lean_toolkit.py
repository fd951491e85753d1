"""The line editor is loaded without what it seldom needs, which is there for whoever asks for it."""

import subprocess
import sys


def printed(script: str) -> list[str]:
    """Run a script in an interpreter that has loaded nothing; returns its lines."""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=90)
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\n")[:-1]


LOADED = "import sys\nfrom agent_cli.ui.lean_toolkit import load_toolkit\nload_toolkit()\n"


def test_the_repl_does_not_load_dialogs_vi_keys_xml_or_compression() -> None:
    lines = printed(f"{LOADED}import agent_cli.ui.repl.repl\nprint(*sys.modules, sep='\\n')")
    never = {"prompt_toolkit.shortcuts", "prompt_toolkit.widgets.dialogs", "prompt_toolkit.key_binding.digraphs"}
    assert "prompt_toolkit.application" in lines
    assert not {*never, "prompt_toolkit.key_binding.bindings.vi", "pyexpat", "_bz2", "_lzma"} & {*lines}


def test_whoever_asks_for_what_was_put_off_has_it() -> None:
    assert printed(f"""{LOADED}
from prompt_toolkit.formatted_text import HTML
print(HTML("<b>x</b>").__pt_formatted_text__())
from prompt_toolkit.widgets import TextArea
from prompt_toolkit import PromptSession, search
print(TextArea.__name__, PromptSession.__name__, search.__name__)
from prompt_toolkit.key_binding.bindings.vi import load_vi_bindings
print(len(load_vi_bindings().bindings) > 100)
import bz2, prompt_toolkit
print(bz2.decompress(bz2.compress(b"abc")), prompt_toolkit.__version__ > "3", hasattr(bz2, "none"))
""") == [
        "FormattedText([('class:b', 'x')])",
        "TextArea PromptSession prompt_toolkit.search",
        "True",
        "b'abc' True False",
    ]


def test_what_is_loaded_already_stays_as_it_is() -> None:
    assert printed(
        f"import prompt_toolkit as before\n{LOADED}import prompt_toolkit\nprint(prompt_toolkit is before)"
    ) == ["True"]


def test_threads_that_ask_at_once_all_have_it() -> None:
    assert printed(f"""{LOADED}
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
import lzma
barrier = Barrier(8)
def ask(_):
    barrier.wait()
    return lzma.decompress(lzma.compress(b"abc"))
with ThreadPoolExecutor(8) as pool:
    print(set(pool.map(ask, range(8))))
""") == ["{b'abc'}"]


def test_frames_leave_little_behind() -> None:
    (count,) = printed(f"""{LOADED}
import gc
from prompt_toolkit.application import Application
from prompt_toolkit.input import DummyInput
from prompt_toolkit.layout import Layout, Window
from prompt_toolkit.layout.controls import FormattedTextControl
from prompt_toolkit.layout.screen import Screen
from prompt_toolkit.output import DummyOutput
from agent_cli.ui.repl.start import collect_often
gc.set_threshold(50_000, 20, 50)
collect_often()
number = 0
control = FormattedTextControl(lambda: f"row {{number}}" * 10)
app = Application(layout=Layout(Window(control, height=2)), input=DummyInput(), output=DummyOutput())
seen = []
for number in range(1, 121):
    app.renderer.render(app, app.layout)
    if number % 20 == 0:
        seen.append(sum(isinstance(each, Screen) for each in gc.get_objects()))
print(max(seen))
""")
    assert int(count) <= 8, "screens of frames that nobody sees any more"
