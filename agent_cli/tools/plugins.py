"""Tools that others write: from installed packages (entry points) and from a project's `.agent/tools`.

Whoever writes one needs a name, a `Params` struct and a `run`; everything else has a default. A tool of a
project always asks before a call, whatever it says of itself, since the repository's authors wrote it.
"""

import asyncio
import contextlib
import inspect
import re
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from pathlib import PurePosixPath
from types import ModuleType
from typing import Any

import msgspec

from agent_cli.protocol.actions import Action, CallExternal
from agent_cli.protocol.messages import ResultKind

from .kit.base import Preview, Tool, ToolContext, ToolOutcome
from .kit.schema import object_schema

GROUP = "agent_cli.tools"
"""The entry points' group. Each names a tool, its class, or a list of tools."""
_NAME = re.compile(r"[a-z][a-z0-9_]{0,47}")

_LABEL = re.compile(r"[A-Za-z][A-Za-z ]{0,30}")
"""Words for a call that cannot be taken for a command or a mark of our own."""
_RESULT_KINDS: tuple[ResultKind, ...] = ("text", "output", "summary")
"""Those that a plug-in may choose: its text never passes for the model's answer or the user's."""


class ExtensionError(Exception):
    """A tool of somebody else cannot be used; the text says which, where and why."""


class Extension:
    """Adapt a tool of a plug-in to ours.

    Raises:
        ExtensionError: it lacks what a tool needs.
    """

    editable = ""

    def __init__(self, tool: Any, source: str, *, asks: bool) -> None:
        """`source` names where it comes from in permission rules, `mcp(SOURCE/NAME)`; with `asks` its own word
        on what it does to the world is not taken."""
        self._tool = tool
        self.source = source
        self._own_actions = None if asks else getattr(tool, "actions", None)
        self.name: str = getattr(tool, "name", "")
        self.Params: type[msgspec.Struct] = getattr(tool, "Params", None)  # type: ignore[assignment]
        self.result_kind: ResultKind = getattr(tool, "result_kind", "text")
        label = getattr(tool, "label", "")
        self.label = label if isinstance(label, str) and _LABEL.fullmatch(label) else ""
        self.counted = ""  # its results are shown one by one
        self._check()
        own = getattr(tool, "description", None)
        self.description = inspect.cleandoc(own if isinstance(own, str) else type(tool).__doc__ or self.name)
        """What the model is told."""
        self._is_async = inspect.iscoroutinefunction(tool.run)

    def title(self, params: Any) -> str:
        if own := getattr(self._tool, "title", None):
            return str(own(params))
        return next((value for value in msgspec.structs.astuple(params) if isinstance(value, str)), "")

    def actions(self, params: Any, context: ToolContext) -> tuple[Action, ...]:
        if self._own_actions is not None:
            return tuple(self._own_actions(params, context))
        return (CallExternal(self.source, self.name),)

    async def preview(self, params: Any, context: ToolContext) -> Preview:
        return Preview(msgspec.json.format(msgspec.json.encode(params)).decode())

    async def run(self, params: Any, context: ToolContext) -> ToolOutcome:
        """Return a plain function runs in a thread, so that it cannot hold up the rest."""
        if self._is_async:
            said = await self._tool.run(params, context)
        else:
            said = await in_a_thread(lambda: self._tool.run(params, context))
        return said if isinstance(said, ToolOutcome) else ToolOutcome(text="" if said is None else str(said))

    def _check(self) -> None:
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name):
            raise ExtensionError(f"its name {self.name!r} is not of lower-case letters, digits and underscores")
        if not (isinstance(self.Params, type) and issubclass(self.Params, msgspec.Struct)):
            raise ExtensionError(f"{self.name} has no `Params`, a class derived from msgspec.Struct")
        if self.result_kind not in _RESULT_KINDS:
            raise ExtensionError(f"{self.name} has a `result_kind` that is not one of {', '.join(_RESULT_KINDS)}")
        if not callable(getattr(self._tool, "run", None)):
            raise ExtensionError(f"{self.name} has no `run(params, context)`")
        try:
            object_schema(self.Params)
        except TypeError as error:
            raise ExtensionError(f"{self.name}: a parameter has {error}") from error


async def in_a_thread(work: Callable[[], Any]) -> Any:
    """Like `asyncio.to_thread`, but in a thread that nobody waits for at the end: work that never ends must not
    keep the program from ending."""
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[Any] = loop.create_future()

    def told(settle: Callable[[Any], None], value: Any) -> None:
        if not outcome.done():
            settle(value)

    def run() -> None:
        try:
            value = work()
        except BaseException as error:  # it belongs to whoever awaits the tool
            settled: tuple[Callable[[Any], None], Any] = (outcome.set_exception, error)
        else:
            settled = (outcome.set_result, value)
        with contextlib.suppress(RuntimeError):  # the loop has been closed meanwhile
            loop.call_soon_threadsafe(told, *settled)

    threading.Thread(target=run, daemon=True).start()
    return await outcome


def installed(names: Iterable[str], taken: set[str]) -> tuple[list[Tool], list[str]]:
    """Return the tools of the named entry points, and what is wrong with those that cannot be used. `taken` are
    the names that are given already; those of the new tools are added."""
    from importlib.metadata import entry_points

    wanted = list(names)
    known = {point.name: point for point in entry_points(group=GROUP)} if wanted else {}
    tools: list[Tool] = []
    problems: list[str] = []
    for name in wanted:
        point = known.get(name)
        if point is None:
            problems.append(f"tools.plugins: no installed package has a tool {name!r}")
            continue
        _gather(f"the plugin {name}", point.load, name, tools, problems, taken, asks=False)
    return tools, problems


def of_project(sources: dict[str, bytes], taken: set[str]) -> tuple[list[Tool], list[str]]:
    """Return the tools in these files, whose code is run by this, and what is wrong with the others; files named
    `_*.py` and those of subfolders hold none and can be imported from `agent_project_tools`. `taken` is as for
    `installed`. Only what was read runs: no other version of it on the disk, no compiled one."""
    ProjectModules(sources).install()
    tools: list[Tool] = []
    problems: list[str] = []
    for path, name in tool_modules(sources).items():
        _gather(path, partial(_offered, name), "project", tools, problems, taken, asks=True)
    return tools, problems


def _gather(
    where: str,
    load: Callable[[], Any],
    source: str,
    tools: list[Tool],
    problems: list[str],
    taken: set[str],
    *,
    asks: bool,
) -> None:
    """Load what an author offers; whatever is wrong with it is told and harms nothing else."""
    try:
        offered = load()
        for each in offered if isinstance(offered, list | tuple) else [offered]:
            tool = Extension(each() if isinstance(each, type) else each, source, asks=asks)
            if tool.name in taken:
                raise ExtensionError(f"there is another tool named {tool.name}")
            taken.add(tool.name)
            tools.append(tool)
    except ExtensionError as error:
        problems.append(f"{where} is not used: {error}")
    except (Exception, SystemExit) as error:  # an author's module may raise anything
        problems.append(f"{where} is not used: {type(error).__name__}: {error}")


def _offered(name: str) -> Any:
    """Return what a module offers as its tools."""
    from importlib import import_module

    module = import_module(name)
    if not hasattr(module, "TOOLS"):
        raise ExtensionError("it has no list `TOOLS`")
    return module.TOOLS


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
        if path:  # an empty one would end every search of `inspect` for a module
            module.__file__ = path
        exec(compile(source, path, "exec"), module.__dict__)


def tool_modules(sources: Mapping[str, bytes]) -> dict[str, str]:
    """Return the files that may hold tools, each with the name of its module: those of the folder itself whose
    names do not begin with `_`."""
    names = {path: _name_of(path) for path in sources}
    return {path: name for path, name in names.items() if name.count(".") == 1 and "._" not in name}


def _name_of(path: str) -> str:
    parts = PurePosixPath(path).with_suffix("").parts
    return ".".join((PACKAGE, *(parts[2:] if parts[:2] == _FOLDER else parts)))
