"""Tools that the program defines as plain functions: the model sees their types and docstrings."""

import copy
import inspect
import json
from collections.abc import Callable
from typing import Any, Generic, ParamSpec, TypeVar, get_type_hints, overload

import msgspec

from .options import AgentError

P = ParamSpec("P")
R = TypeVar("R")
SOURCE = "sdk"
"""Server name in permission rules, such as `mcp(sdk/ticket)`."""


class FunctionTool(Generic[P, R]):
    """A function as a tool. It can still be called as a function.

    Raises:
        AgentError: a parameter has no type that a schema can express, there is no docstring, or it is a generator.
    """

    def __init__(self, function: Callable[P, R], *, name: str, reads: bool) -> None:
        """`reads` means that the tool changes nothing: it runs in every mode without approval."""
        self._function = function
        self.name = name
        self.description = inspect.getdoc(function) or ""
        if not self.description:
            raise AgentError(f"the tool {name} has no docstring, which tells the model what it does")
        if any(
            kind(inspect.unwrap(function)) for kind in (inspect.isgeneratorfunction, inspect.isasyncgenfunction)
        ):
            raise AgentError(f"the tool {name} is a generator; let it return a text or a list instead")
        self.Params = _params(function, name)
        if reads:
            self.actions = lambda params, context: ()

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._function(*args, **kwargs)

    @property
    def run(self) -> Callable[[Any, Any], Any]:
        """The function in the form in which tools are run; async if the function is, also inside a decorator."""
        function: Callable[..., Any] = self._function

        async def run_async(params: Any, context: Any) -> Any:
            return _said(await function(**msgspec.structs.asdict(params)))

        async def run_decorated(params: Any, context: Any) -> Any:
            from agent_cli.tools.plugins import in_a_thread

            value = await in_a_thread(lambda: function(**msgspec.structs.asdict(params)))
            return _said(await value if inspect.isawaitable(value) else value)

        def run(params: Any, context: Any) -> Any:
            return _said(function(**msgspec.structs.asdict(params)))

        if inspect.iscoroutinefunction(function):
            return run_async
        return run_decorated if inspect.iscoroutinefunction(inspect.unwrap(function)) else run


@overload
def tool(function: Callable[P, R], /) -> FunctionTool[P, R]:
    """Make a function a tool."""


@overload
def tool(*, name: str = "", reads: bool = False) -> Callable[[Callable[P, R]], FunctionTool[P, R]]:
    """Return a decorator that makes a function a tool."""


def tool(function: Any = None, /, *, name: str = "", reads: bool = False) -> Any:
    """Make a function, sync or async, a tool for `Agent(tools=[…])`.

    Parameters need types: str, int, float, bool, Literal, lists of them, msgspec Structs, or one of these or None.
    The return value is the result: a text, or a value that is given to the model as JSON. An exception becomes the
    error that the model gets.

    Args:
        function: the function, if the decorator is used without parentheses.
        name: the name for the model; defaults to that of the function.
        reads: the tool changes nothing, so it runs in every mode without approval. Any other tool asks like tools
        of MCP servers, by rules such as `mcp(sdk/NAME)`.

    Raises:
        AgentError: the function cannot be a tool.
    """

    def made(function: Callable[P, R]) -> FunctionTool[P, R]:
        # From Python 3.14 on, a `partial` is a routine, without a name.
        if not inspect.isroutine(function) or not hasattr(function, "__name__"):
            raise AgentError(f"a tool is a function, not {function!r}: write one that calls it")
        return FunctionTool(function, name=name or function.__name__, reads=reads)

    return made if function is None else made(function)


def adapted(tools: "list[FunctionTool[Any, Any]]") -> tuple[Any, ...]:
    """Convert tools to the registry's form.

    Raises:
        AgentError: a name is taken, or invalid.
    """
    from agent_cli.tools.plugins import Extension, ExtensionError
    from agent_cli.tools.registry import LATE_TOOLS, built_in

    taken = {*(each.name for each in built_in()), *LATE_TOOLS}
    found = []
    for each in tools:
        if each.name in taken:
            raise AgentError(f"there is another tool named {each.name}; give it a name: @tool(name=…)")
        taken.add(each.name)
        try:
            found.append(Extension(each, SOURCE, asks=False))
        except ExtensionError as error:
            raise AgentError(f"a tool cannot be used: {error}") from error
    return tuple(found)


def _params(function: Callable[..., Any], name: str) -> type[msgspec.Struct]:
    try:
        types = get_type_hints(function, include_extras=True)
    except NameError as error:
        raise AgentError(f"the tool {name}: a type cannot be found: {error}") from error
    fields: list[Any] = []
    for each in inspect.signature(function).parameters.values():
        if each.kind not in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY):
            raise AgentError(f"the tool {name}: the parameter {each} cannot be given by name")
        if each.name not in types:
            raise AgentError(f"the tool {name}: the parameter {each.name} has no type")
        has_default = each.default is not each.empty
        fields.append((each.name, types[each.name], *((_default(each.default),) if has_default else ())))
    return msgspec.defstruct(f"{name}_params", fields, frozen=True, forbid_unknown_fields=True, kw_only=True)


def _default(value: Any) -> Any:
    """Return the default of a field. Each call gets its own copy of a default that it could change."""
    if value is None or isinstance(value, str | int | float | bool | tuple | frozenset | bytes):
        return value
    return msgspec.field(default_factory=lambda: copy.deepcopy(value))


def _said(value: Any) -> Any:
    """Return the result for the model: a text unchanged, any other value as JSON."""
    from agent_cli.tools.kit.base import ToolOutcome

    if value is None or isinstance(value, str | ToolOutcome):
        return value
    try:
        return msgspec.json.encode(value, enc_hook=str).decode()
    except UnicodeEncodeError:  # half a character, as in a file name that is not UTF-8
        return json.dumps(msgspec.to_builtins(value, enc_hook=str, str_keys=True))
