"""Third-party tools: from installed packages (entry points) and from a project's `.agent/tools`.

A tool needs a name, a `Params` struct and a `run`; everything else has a default. A project's tool always asks
before a call, whatever actions it declares, since the repository's authors wrote it.
"""

import asyncio
import contextlib
import inspect
import re
import sys
import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from importlib import import_module
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
"""Entry point group. Each entry point refers to a tool, its class, or a list of tools."""
_NAME = re.compile(r"[a-z][a-z0-9_]{0,47}")

_LABEL = re.compile(r"[A-Za-z][A-Za-z ]{0,30}")
"""Labels that cannot be mistaken for a command or one of the program's own marks."""
_RESULT_KINDS: tuple[ResultKind, ...] = ("text", "output", "summary")
"""Kinds allowed for plug-ins, so that their text never passes for the model's or the user's answer."""


class ExtensionError(Exception):
    """A third-party tool cannot be used; the message says which, where and why."""


class Extension:
    """Adapt a plug-in's tool to the `Tool` protocol.

    Raises:
        ExtensionError: it lacks something that a tool needs.
    """

    editable = ""

    def __init__(self, tool: Any, source: str, *, asks: bool) -> None:
        """`source` is its origin in permission rules, `mcp(SOURCE/NAME)`. With `asks`, the actions it declares are
        ignored."""
        self._tool = tool
        self.source = source
        self._own_actions = None if asks else getattr(tool, "actions", None)
        self.name: str = getattr(tool, "name", "")
        self.Params: type[msgspec.Struct] = getattr(tool, "Params", None)  # type: ignore[assignment]
        self.result_kind: ResultKind = getattr(tool, "result_kind", "text")
        label = getattr(tool, "label", "")
        self.label = label if isinstance(label, str) and _LABEL.fullmatch(label) else ""
        self.counted = ""  # its results are shown individually
        self._check()
        own = getattr(tool, "description", None)
        self.description = inspect.cleandoc(own if isinstance(own, str) else type(tool).__doc__ or self.name)
        """Description for the model."""
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
        """Run the tool. A plain function runs in a thread, so that it cannot block the event loop."""
        if self._is_async:
            said = await unless_stopped(self._tool.run(params, context))
        else:
            said = await in_a_thread(lambda: self._tool.run(params, context))
        return said if isinstance(said, ToolOutcome) else ToolOutcome(text="" if said is None else str(said))

    def _check(self) -> None:
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name):
            raise ExtensionError(f"its name {self.name!r} is not of lower-case letters, digits and underscores")
        if self.name.startswith("mcp__"):
            raise ExtensionError(f"its name {self.name} would be that of a tool of an MCP server")
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
    """Run work like `asyncio.to_thread`, but in a daemon thread: work that never ends must not keep the program
    from exiting."""
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[Any] = loop.create_future()

    def told(settle: Callable[[Any], None], value: Any) -> None:
        if not outcome.done():
            settle(value)

    def run() -> None:
        try:
            value = work()
        except BaseException as error:  # raised to the task that awaits the tool
            settled: tuple[Callable[[Any], None], Any] = (outcome.set_exception, _as_error(error))
        else:
            settled = (outcome.set_result, value)
        with contextlib.suppress(RuntimeError):  # the event loop was closed in the meantime
            loop.call_soon_threadsafe(told, *settled)

    threading.Thread(target=run, daemon=True).start()
    return await unless_stopped(outcome)


async def unless_stopped(work: Awaitable[Any]) -> Any:
    """Await code of others. A `CancelledError` of its own, or a stop of the task that it runs in, is an error like
    any other: it must not look like a stop of the task that awaits it."""
    try:
        return await asyncio.ensure_future(_without_exit(work))
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        raise _as_error(error) from error


async def _without_exit(work: Awaitable[Any]) -> Any:
    """Await code of others. A `SystemExit`, such as that of a parser of arguments, would end the event loop."""
    try:
        return await work
    except SystemExit as error:
        raise _as_error(error) from error


def _as_error(error: BaseException) -> Exception:
    """Return an error for an exception that no future takes, or that would end a task or the event loop."""
    if isinstance(error, Exception) and not isinstance(error, StopIteration):
        return error
    return RuntimeError(f"{type(error).__name__}: {error}".removesuffix(": "))


def installed(names: Iterable[str], taken: set[str]) -> tuple[list[Tool], list[str]]:
    """Return the tools of the named entry points, and a description of each problem. `taken` holds the names in
    use; those of the new tools are added."""
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
    """Return the tools in these files, executing their code, and a description of each problem. Files named
    `_*.py` and those in subfolders contain no tools but can be imported from `agent_project_tools`. `taken` is as
    in `installed`. Only the given sources run: neither a newer version on disk nor a compiled one."""
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
    """Load the tools of one source. Any error is reported and affects no other source."""
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
    except (Exception, SystemExit) as error:  # a third-party module may raise anything
        problems.append(f"{where} is not used: {type(error).__name__}: {error}")


def _offered(name: str) -> Any:
    """Return the tools that a module offers."""
    module = import_module(name)
    if not hasattr(module, "TOOLS"):
        raise ExtensionError("it has no list `TOOLS`")
    return module.TOOLS


PACKAGE = "agent_project_tools"
"""Package whose modules are the files of `.agent/tools`; subfolders are subpackages."""


_FOLDER = (".agent", "tools")


class ProjectModules(MetaPathFinder, Loader):
    """Imports the modules of a set of files, given by path."""

    def __init__(self, sources: Mapping[str, bytes]) -> None:
        self._files = {_name_of(path): (path, source) for path, source in sources.items()}

    def install(self) -> None:
        """Install this importer in place of an earlier one."""
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
        if path:  # an empty `__file__` would break every module search of `inspect`
            module.__file__ = path
        exec(compile(source, path, "exec"), module.__dict__)


def tool_modules(sources: Mapping[str, bytes]) -> dict[str, str]:
    """Return path → module name of the files that may contain tools: those directly in the folder whose names do
    not begin with `_`."""
    names = {path: _name_of(path) for path in sources}
    return {path: name for path, name in names.items() if name.count(".") == 1 and "._" not in name}


def _name_of(path: str) -> str:
    parts = PurePosixPath(path).with_suffix("").parts
    return ".".join((PACKAGE, *(parts[2:] if parts[:2] == _FOLDER else parts)))
