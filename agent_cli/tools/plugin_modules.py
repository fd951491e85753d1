"""Import a project's Python files from the text that was read and agreed to, never from the disk: what changes
there later does not run, and no compiled file beside it is used."""

import sys
from collections.abc import Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from pathlib import PurePosixPath
from types import ModuleType

PACKAGE = "agent_project_tools"
"""The package in which the files of `.agent/tools` are modules, and its folders packages."""
_FOLDER = (".agent", "tools")


class ProjectModules(MetaPathFinder, Loader):
    """Finds and runs the modules of one set of files, given by their paths."""

    def __init__(self, sources: Mapping[str, bytes]) -> None:
        self._files = {_name_of(path): (path, source) for path, source in sources.items()}

    def install(self) -> None:
        """Take the place of an earlier set."""
        sys.meta_path[:] = [self, *(each for each in sys.meta_path if not isinstance(each, ProjectModules))]
        for name in [name for name in sys.modules if name.partition(".")[0] == PACKAGE]:
            del sys.modules[name]

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        is_package = any(name.startswith(f"{fullname}.") for name in self._files)
        if fullname not in self._files and not is_package and fullname != PACKAGE:
            return None
        return spec_from_loader(fullname, self, is_package=is_package or fullname == PACKAGE)

    def exec_module(self, module: ModuleType) -> None:
        name = module.__name__
        path, source = self._files.get(name) or self._files.get(f"{name}.__init__") or ("", b"")
        module.__file__ = path
        exec(compile(source, path, "exec"), module.__dict__)


def tool_modules(sources: Mapping[str, bytes]) -> dict[str, str]:
    """The files that may hold tools, each with the name of its module: those of the folder itself whose names do
    not begin with `_`."""
    names = {path: _name_of(path) for path in sources}
    return {path: name for path, name in names.items() if name.count(".") == 1 and "._" not in name}


def _name_of(path: str) -> str:
    parts = PurePosixPath(path).with_suffix("").parts
    return ".".join((PACKAGE, *(parts[2:] if parts[:2] == _FOLDER else parts)))
