"""Load prompt_toolkit without what few use: its dialogs, progress bars and prompts, which its packages import on
their own, its vi keys, the XML parser behind its HTML, and the compression of archives that `shutil` can unpack.

Each part is still there for whoever asks for it, who waits for it then.
"""

import importlib.util
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prompt_toolkit.key_binding import KeyBindings

_PACKAGE = "prompt_toolkit"
_SELDOM = ("prompt_toolkit.widgets", "xml.dom.minidom", "bz2", "lzma")
_VI = "prompt_toolkit.key_binding.bindings.vi"


def load_toolkit() -> None:
    """Load the line editor of prompt_toolkit; nothing where somebody has loaded it already. An application has no
    vi keys by default then: see `with_vi_keys`."""
    if _PACKAGE in sys.modules:
        return
    for name in (_PACKAGE, *_SELDOM):
        if name not in sys.modules:
            _run_when_asked(name)
    stand_in = ModuleType(_VI)
    stand_in.load_vi_bindings = stand_in.load_vi_search_bindings = _no_bindings  # type: ignore[attr-defined]
    sys.modules[_VI] = stand_in
    try:
        import prompt_toolkit.application  # noqa: F401
    finally:
        del sys.modules[_VI]


def _no_bindings() -> "KeyBindings":
    from prompt_toolkit.key_binding import KeyBindings

    return KeyBindings()


def _run_when_asked(name: str) -> None:
    """Have a module in place, a package with what it contains to be imported, and run its code when one of its own
    names is asked for. (`importlib.util.LazyLoader` runs it when it is imported a second time.)"""
    spec = importlib.util.find_spec(name)
    assert spec is not None and spec.loader is not None
    module, loader = importlib.util.module_from_spec(spec), spec.loader

    def run(attribute: str) -> Any:
        is_inside = spec.submodule_search_locations and importlib.util.find_spec(f"{name}.{attribute}")
        if attribute.startswith("__") or is_inside:
            raise AttributeError(attribute)  # the import system finds it
        vars(module).pop("__getattr__", None)
        loader.exec_module(module)
        return getattr(module, attribute)

    module.__getattr__ = run  # type: ignore[method-assign]
    sys.modules[name] = module
    above, _, own = name.rpartition(".")
    if above:
        setattr(sys.modules[above], own, module)
