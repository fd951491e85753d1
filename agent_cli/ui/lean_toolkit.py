"""Load prompt_toolkit without what few use: its dialogs, progress bars and prompts, which its packages import on
their own, its vi keys, the XML parser behind its HTML, and the compression of archives that `shutil` can unpack.

Each part is still there for whoever asks for it, who waits for it then.
"""

import importlib.util
import sys
from threading import RLock
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
    _defer(_PACKAGE, *_SELDOM)
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


def _defer(*names: str) -> None:
    """Have modules in place, packages with what they contain to be imported, and run the code of each when one of
    its own names is asked for, by any thread. Those that are loaded already stay as they are, and names of modules
    that are not there are left to whoever imports them. (`importlib.util.LazyLoader` runs a module that is
    imported twice.)"""
    for name in names:
        if name in sys.modules or (spec := importlib.util.find_spec(name)) is None or spec.loader is None:
            continue
        module = importlib.util.module_from_spec(spec)
        vars(module)["__getattr__"] = _Running(module)
        sys.modules[name] = module
        above, _, own = name.rpartition(".")
        if above:
            setattr(sys.modules[above], own, module)


class _Running:
    """Finds names of a module that has not run."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module
        self._lock = RLock()
        self._began = False

    def __call__(self, name: str) -> Any:
        spec = self._module.__spec__
        assert spec is not None and spec.loader is not None
        if name.startswith("__") or (
            spec.submodule_search_locations and importlib.util.find_spec(f"{spec.name}.{name}")
        ):
            raise AttributeError(name)  # the import system finds it
        with self._lock:
            if not self._began:
                self._began = True
                spec.loader.exec_module(self._module)
        if vars(self._module).get("__getattr__") is self:
            del self._module.__getattr__
        try:
            return getattr(self._module, name)
        except AttributeError:
            raise AttributeError(f"module {spec.name!r} has no attribute {name!r}") from None
