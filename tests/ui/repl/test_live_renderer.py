"""What the renderer of the live region keeps."""

from prompt_toolkit import utils
from prompt_toolkit.application import Application
from prompt_toolkit.input import DummyInput
from prompt_toolkit.layout import Layout, Window
from prompt_toolkit.output import DummyOutput

from agent_cli.ui.repl.live_renderer import LiveRenderer


def test_the_widths_of_rows_that_were_drawn_are_forgotten_some_time() -> None:
    app: Application[None] = Application(layout=Layout(Window()), input=DummyInput(), output=DummyOutput())
    renderer = LiveRenderer(app.renderer.style, DummyOutput())
    widths = [utils.get_cwidth(f"working for {number} s") for number in range(1_500)]
    assert len(utils._CHAR_SIZES_CACHE) > 1_000 and widths[-1] == len("working for 1499 s")
    renderer.render(app, app.layout)
    assert len(utils._CHAR_SIZES_CACHE) < 100 and utils.get_cwidth("値段") == 4
