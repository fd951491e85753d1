"""Every configuration key with its type and default. `config.example.yaml` is generated from this file, and a test
compares them. Unknown keys and wrong types are errors with a place (see `load`)."""

from typing import Annotated, Literal

import msgspec

from agent_cli.protocol.actions import Mode, SandboxLevel
from agent_cli.protocol.usage import Effort

from .call_rule_schema import ToolRule

Wire = Literal["chat_completions", "ollama_chat", "anthropic_messages", "openai_responses", "litellm"]
Count = Annotated[int, msgspec.Meta(gt=0)]
Amount = Annotated[float, msgspec.Meta(gt=0)]
Price = Annotated[float, msgspec.Meta(ge=0, le=1e9)]
"""The upper bound rejects `.inf`; any bound rejects `.nan`."""


class Examples(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the rules are meant to say, such as `shell(git push)` under `deny`; checked at each start."""

    allow: tuple[str, ...] = ()
    """Must be allowed."""
    ask: tuple[str, ...] = ()
    """Must ask."""
    deny: tuple[str, ...] = ()
    """Must be denied."""


class Permissions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Rules such as `shell(git diff *)`. Deny beats ask beats allow, in any order and file."""

    allow: tuple[str, ...] = ()
    """Runs without a question."""
    ask: tuple[str, ...] = ()
    """Asks, in every mode."""
    deny: tuple[str, ...] = ()
    """Never runs."""
    examples: Examples = Examples()
    """Examples of what the rules should decide, such as `shell(git push)` under deny; checked at each start."""


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Limits; null means none."""

    turns: Count | None = 200
    """Model calls per prompt."""
    cost_usd: Amount | None = None
    """Per prompt, checked before each request against its worst case, like the next two."""
    session_cost_usd: Amount | None = None
    """For a session, however often it is resumed."""
    day_cost_usd: Amount | None = None
    """All sessions together, since midnight."""
    warn_cost_usd: Amount | None = 5.0
    """At this cost a session asks whether to continue, and again at each doubling; a run only reports it."""
    time_s: Amount | None = None
    """Per prompt, including the closing summary: a fifth of it, at most 90 s, is reserved for that."""
    retry_s: Amount = 600.0
    """How long requests to a failing model are retried."""
    park_s: Annotated[float, msgspec.Meta(ge=0)] | None = None
    """Longest wait for a rate limit to reset; null: 6 hours in the REPL, none in a run."""


class Prices(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """US dollars per million tokens."""

    input: Price | None = None
    output: Price | None = None
    cache_read: Price | None = None
    cache_write: Price | None = None


class ModelOverride(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Facts about one model that win over every other source."""

    context_window: Count | None = None
    max_output_tokens: Count | None = None
    tools: bool | None = None
    """Takes tools by itself; false describes them in the prompt and parses calls from the text."""
    images: bool | None = None
    reasoning: bool | None = None
    prices: Prices = Prices()


class Timeouts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Seconds without progress before a request counts as dead."""

    connect_s: Amount = 10.0
    first_byte_s: Amount | None = None
    """null: 120, or 600 for a server on this machine."""
    idle_s: Amount = 60.0
    stalled_s: Amount = 600.0
    """Keep-alives alone, without any content."""


class Provider(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One provider, by the prefix its models are named with. Unset values come from the built-in table
    and the usual environment variables."""

    wire: Wire | None = None
    """The protocol; seldom needed, since it follows from the provider."""
    base_url: str | None = None
    """Where the provider's server is, such as https://models.example.com/v1."""
    api_key_env: str | None = None
    """Name of the variable that holds the key."""
    headers: dict[str, str] = {}
    """Sent with every request."""
    timeouts: Timeouts = Timeouts()
    models: dict[str, ModelOverride] = {}


class Context(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the model is sent."""

    compact_at: Annotated[float, msgspec.Meta(gt=0, le=1)] = 0.8
    """Share of the usable context window at which the conversation is compacted."""
    instructions: tuple[str, ...] = ("AGENTS.md", "CLAUDE.md", "GEMINI.md")
    """Names of instruction files, from the repository's root down to the working directory; the first found
    in each folder is used."""


class Shell(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Commands the agent runs."""

    timeout_s: Amount = 120.0
    """Time-out of a command in seconds, unless the model asks for another; then it continues as a job."""
    env: dict[str, str] = {}
    """Environment variables set for every command."""
    pass_env: tuple[str, ...] = ()
    """Variables that commands in the sandbox see although they look like secrets, such as DATABASE_URL."""


class Web(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The tools that reach the web."""

    private_hosts: tuple[str, ...] = ()
    """Hosts (HOST, HOST:PORT or *.DOMAIN) on this machine or a private network that web_fetch may reach."""
    search: Literal["brave", "tavily", "exa", "searxng"] | None = None
    """Search engine of web_search; null: the first of brave, tavily and exa with a key (BRAVE_API_KEY …)."""
    search_url: str | None = None
    """Base URL of the search engine; required for searxng."""

    def __post_init__(self) -> None:
        for host in self.private_hosts:
            if (host != "*" and set("/@* ") & set(host.removeprefix("*."))) or not host:
                raise ValueError(f"private_hosts: {host!r} is no host; write HOST, HOST:PORT or *.DOMAIN")


class Tools(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the model can do."""

    enabled: tuple[str, ...] = ()
    """Tools and presets (core, read-only, full) to offer, -NAME removes one; empty means full."""
    plugins: tuple[str, ...] = ()
    """Tools of installed packages to load, by the names of their entry points."""
    mcp_share: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.03
    """Share of the context window that definitions of MCP tools may take; above it they are found by a search."""
    finish_plan: bool = False
    """Remind a model that stops while its plan has open items, at most twice."""
    shell: Shell = Shell()
    web: Web = Web()


class McpTools(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which tools of a server the model may use, by patterns such as `read_*`."""

    allow: tuple[str, ...] = ()
    """Only these; none means all."""
    deny: tuple[str, ...] = ()
    """Not these."""
    always: tuple[str, ...] = ()
    """Those whose definitions are in every request, however many tools there are."""


class McpOAuth(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A login that needs more than the server says itself."""

    client_id: str | None = None
    """Of a client registered with the authorization server; null: registered by itself."""
    client_secret: str | None = None
    """Its secret, as ${NAME}."""
    scopes: tuple[str, ...] = ()
    """Permissions to ask for; none means those that the server names."""
    callback_port: int = 0
    """Port of the redirect on this machine; 0 for any."""
    callback_host: Literal["127.0.0.1", "localhost"] = "127.0.0.1"
    """Name of this machine in the redirect address that the client is registered with."""


class McpServer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An MCP server: a `command` to start, or a `url`."""

    type: Literal["stdio", "http", "sse"] | None = None
    """How it is reached; null: stdio for a command, http for a url."""
    command: str | None = None
    """Program to start."""
    args: tuple[str, ...] = ()
    """Its arguments; ${NAME} and ${NAME:-default} are replaced, here and below."""
    env: dict[str, str] = {}
    """Variables for the server, which otherwise gets PATH, HOME, LANG and a few more, and no keys."""
    cwd: str | None = None
    """Folder to start in; null: the workspace."""
    url: str | None = None
    """Address of a server that is running already."""
    headers: dict[str, str] = {}
    """Sent with every request to the url."""
    oauth: McpOAuth = McpOAuth()
    """For servers that need a login (agent mcp login NAME)."""
    enabled: bool = True
    """Whether the server is used."""
    timeout_s: Amount = 600.0
    """The longest a call may take."""
    idle_timeout_s: Amount = 60.0
    """The longest a call may take without a word of progress."""
    start_timeout_s: Amount = 120.0
    """The longest a start may take."""
    max_result_tokens: Annotated[int, msgspec.Meta(gt=0)] | None = None
    """The longest result; null: as for all tools. The rest can be recalled."""
    tools: McpTools = McpTools()
    sampling: bool = False
    """Whether the server may ask the model, at your cost and within your limits."""
    sandbox: bool = False
    """Whether its process runs in the sandbox, with the network."""


class HookEntry(
    msgspec.Struct,
    frozen=True,
    forbid_unknown_fields=True,
    rename={"only_if": "if", "runs_beside": "async"},
):
    """A program to run at an event."""

    command: str | tuple[str, ...]
    """A line for the shell, or a program with its arguments; it is given the event as JSON on standard input."""
    match: str = ""
    """Tools, sources or reasons it is for: names with | between them, or a regular expression; none means all."""
    timeout_s: Amount | None = None
    """The longest it may take; null: 60 s, at the end of a session 2 s."""
    on_error: Literal["allow", "ask", "block"] | None = None
    """What holds when it fails; null: block where it decides, else allow."""
    name: str = ""
    """What it is called in messages."""
    only_if: str = ""
    """A permission rule such as shell(git *): it is run for calls that the rule covers; none means all."""
    runs_beside: bool = False
    """Whether it runs in the background, decides nothing, and is stopped when the session ends."""
    once: bool = False
    """Whether it is run once a session."""


class Agents(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Sub-agents (see docs/agents.md)."""

    depth: Annotated[int, msgspec.Meta(ge=1, le=3)] = 1
    """How deep sub-agents may start others; 1: only the conversation itself starts any."""
    running: Annotated[int, msgspec.Meta(gt=0)] = 4
    """How many work at the same time."""
    per_prompt: Annotated[int, msgspec.Meta(gt=0)] = 12
    """How many may be started for one prompt."""


class Skills(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Folders of instructions for particular tasks (see docs/skills.md)."""

    enabled: bool = True
    """Whether skills are used."""
    disabled: tuple[str, ...] = ()
    """Names of skills that are not used, as /skills shows them."""


class Sessions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Saved conversations."""

    dir: str | None = None
    """Where sessions are saved, relative to this file; null: the state directory."""
    keep_days: Annotated[int, msgspec.Meta(ge=0)] | None = 30
    """Days after the last write until deletion; null: never. Named sessions are never deleted."""
    keep_mb: Annotated[int, msgspec.Meta(ge=0)] | None = 2000
    """Sessions, spilled output and checkpoints together; the oldest are deleted first. null: no limit."""


class Telemetry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Traces of sessions (see docs/traces.md); off by default."""

    otlp: bool = False
    """Send traces to the OpenTelemetry collector that OTEL_EXPORTER_OTLP_ENDPOINT names."""
    content: tuple[Literal["prompts", "answers", "arguments", "results", "commands"], ...] = ()
    """Texts to include in traces: prompts, answers, arguments, results, commands. Secrets are masked."""


class Ui(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The terminal."""

    theme: Literal["auto", "dark", "light", "high-contrast", "none"] = "auto"
    """Colours; auto is light where the terminal says so, else dark."""
    plain: bool = False
    """Plain mode: whole lines, no colours, no cursor movement, for screen readers and simple terminals."""
    markdown: bool = True
    """Render Markdown in answers; false prints them as the model wrote them."""
    show_reasoning: bool = True
    """Show the model's reasoning."""
    title: bool = True
    """Set the title of the terminal window to the folder and the session."""
    links: Literal["auto", "on", "off"] = "auto"
    """Links in answers that the terminal opens (OSC 8); auto where it is known to support them."""
    vi_mode: bool = False
    """Use vi keys in the input line."""
    notify: Literal["off", "bell", "osc9", "osc777"] = "bell"
    """Notification when an answer is needed or a long turn has ended while you are away: the bell, or a terminal
    notification."""
    notify_command: str | None = None
    """Notification command, run with the message as its last argument, such as notify-send."""


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole configuration."""

    model: str | None = None
    """PROVIDER/MODEL, such as anthropic/claude-sonnet-4-5; null: the first provider with a key, else a local
    server that answers."""
    small_model: str | None = None
    """Writes the summaries when the conversation is compacted; null: the model in use."""
    fallback_models: tuple[str, ...] = ()
    """Tried in order when the model fails or its account is empty; each input begins with `model` again."""
    effort: Effort | None = None
    """none, minimal, low, medium, high, xhigh or max; null leaves it to the provider."""
    mode: Mode = "ask"
    """plan, ask, auto-edit or yolo: what may happen without asking."""
    sandbox: SandboxLevel = "workspace-write"
    """read-only, workspace-write or off. Where no sandbox is available, commands ask."""
    permissions: Permissions = Permissions()
    limits: Limits = Limits()
    providers: dict[str, Provider] = {}
    """By prefix: wire, base_url, api_key_env, headers, timeouts, models (see docs/providers.md)."""
    context: Context = Context()
    tools: Tools = Tools()
    rules: tuple[str | ToolRule, ...] = ()
    """Instructions for the model, and enforced rules, each of one kind: never_run, never_edit,
    needs_approval, after_edit_run, run_first, only_after, then_only, at_most, required_before_end, ends_turn
    (see docs/security.md)."""
    sessions: Sessions = Sessions()
    ui: Ui = Ui()
    hooks: dict[str, tuple[HookEntry, ...]] = {}
    """Hooks by event, such as PreToolUse (see docs/hooks.md)."""
    mcp_servers: dict[str, McpServer] = {}
    """MCP servers by name (see docs/mcp.md)."""
    skills: Skills = Skills()
    agents: Agents = Agents()
    telemetry: Telemetry = Telemetry()
