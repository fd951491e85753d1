"""Files that define sub-agents: what each product's fields mean here, and what is never to widen a right."""

from pathlib import Path

from agent_cli.extensions.agents.find import AgentFile, FoundAgents, agent_files, find_agents
from agent_cli.extensions.agents.parse import own_names
from agent_cli.extensions.places import Origin, Place, Product
from agent_cli.protocol.agent_types import AgentType
from tests.rows import each_row

EDIT = ("edit_file", "apply_patch")


def put(folder: Path, name: str, data: str | bytes) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data if isinstance(data, bytes) else data.encode("utf-8"))
    return path


def read(folder: Path, head: str, product: Product = "claude", body: str = "Do it.") -> AgentFile:
    """What one file says."""
    if product == "codex":
        put(folder, "one.toml", head)
    else:
        put(folder, "one.md", f"---\n{head}\n---\n{body}")
    (file,) = agent_files(Place(folder, product, "user"))
    return file


def made(folder: Path, head: str, product: Product = "claude") -> AgentType:
    found = read(folder, head, product).type
    assert found is not None
    return found


def test_the_fields_of_cursor(tmp_path: Path) -> None:
    head = "name: verifier\ndescription: d\nmodel: fast\nreadonly: true\nis_background: true"
    file = read(tmp_path, head, "cursor")
    assert file.type is not None and file.notes == (
        "`model: fast` has no effect: it uses the model of the conversation",
    )
    assert (file.type.mode, file.type.background, file.type.model) == ("plan", True, "")
    assert made(tmp_path, "name: verifier\ndescription: d\nreadonly: false\nmodel: gpt-5.2", "cursor").mode is None


def test_every_field_of_claude_code_has_its_meaning_or_a_note(tmp_path: Path) -> None:
    file = read(
        tmp_path,
        "name: Code-Critic\ndescription: Criticises.\ntools: Read, Grep, Edit, Write, Bash, mcp__docs__*, mcp__web\n"
        "disallowedTools: [WebFetch, 'Bash(rm *)']\nmodel: opus\npermissionMode: acceptEdits\nmaxTurns: 7\n"
        "skills: [lint, test]\nbackground: true\neffort: High\nisolation: worktree\ncolor: red\nmemory: user\n"
        "hooks: {Stop: []}\nmcpServers: [docs]",
        body="\nBe strict.\n",
    )
    assert file.type == AgentType(
        name="code-critic",
        description="Criticises.",
        instructions="Be strict.",
        tools=("read_file", "grep", *EDIT, "write_file", "shell", "mcp__docs__*", "mcp__web__*"),
        without_tools=("web_fetch",),
        deny_rules=("shell(rm *)",),
        mode="auto-edit",
        model="opus",
        effort="high",
        max_turns=7,
        background=True,
        isolation="worktree",
        skills=("lint", "test"),
        source=str(tmp_path / "one.md"),
        origin="user",
    )
    assert file.notes == ("without effect: color, memory, hooks, mcpServers",)


def test_every_field_of_codex_has_its_meaning_or_a_note(tmp_path: Path) -> None:
    file = read(
        tmp_path,
        'name = "worker"\ndescription = "Works"\ndeveloper_instructions = """\nWork.\n"""\nmodel = "gpt-5"\n'
        'model_reasoning_effort = "low"\nsandbox_mode = "read-only"\nnickname_candidates = ["a"]\n',
        "codex",
    )
    assert file.type is not None and file.notes == ("without effect: nickname_candidates",)
    assert (file.type.instructions, file.type.mode, file.type.effort) == ("Work.", "plan", "low")


def test_every_field_of_opencode_has_its_meaning_or_a_note(tmp_path: Path) -> None:
    file = read(
        tmp_path,
        "description: Writes docs.\nmode: subagent\nmodel: anthropic/x\nsteps: 3\ntemperature: 0.1\n"
        "tools: {bash: false, write: true, 'mcp__docs__*': false}\n"
        "permission: {edit: deny, webfetch: ask, bash: {'git push *': ask, 'rm *': deny, 'ls *': allow}, task: deny}",
        "opencode",
    )
    found = file.type
    assert found is not None and found.name == "one" and found.mode is None and found.max_turns == 3
    assert found.tools is None
    assert found.without_tools == ("shell", "mcp__docs__*", *EDIT, "write_file", "agent", "agents")
    assert (found.ask_rules, found.deny_rules) == (("fetch", "shell(git push *)"), ("shell(rm *)",))
    assert file.notes == ("without effect: temperature",)


def test_every_field_of_gemini_has_its_meaning(tmp_path: Path) -> None:
    found = made(
        tmp_path,
        "name: near\ndescription: x\nkind: local\ntools: [read_file, run_shell_command, search_file_content,"
        " mcp_docs_search, mcp_web_*, 'mcp_*']\nmax_turns: 30\ntimeout_mins: 5",
        "gemini",
    )
    assert found.tools == ("read_file", "shell", "grep", "mcp__docs__search", "mcp__web__*", "mcp__*")
    assert (found.max_turns, found.max_time_s) == (30, 300.0)
    assert made(tmp_path, "name: near\ndescription: x\ntools: ['*']", "gemini").tools is None


def test_our_own_fields(tmp_path: Path) -> None:
    found = made(
        tmp_path,
        "name: mine\ndescription: x\ntools: [shell]\nwithout_tools: [jobs]\nmode: plan\nmax_cost_usd: 0.5\n"
        "max_time_s: 60",
        "agent",
    )
    assert (found.tools, found.without_tools, found.mode) == (("shell",), ("jobs",), "plan")
    assert (found.max_cost_usd, found.max_time_s) == (0.5, 60.0)


@each_row(
    ("theirs", "ours"),
    [
        ("Bash", ("shell",)), ("Read", ("read_file",)), ("Edit", EDIT), ("MultiEdit", EDIT), ("Write", ("write_file",)),
        ("Grep", ("grep",)), ("Glob", ("glob",)), ("LS", ("list_dir",)), ("WebFetch", ("web_fetch",)),
        ("WebSearch", ("web_search",)), ("TodoWrite", ("update_plan",)), ("Task", ("agent", "agents")),
        ("Agent", ("agent", "agents")), ("mcp__s__t", ("mcp__s__t",)), ("google_web_search", ("web_search",)),
        ("my_tool", ("my_tool",)), ("web_*", ("web_*",)), ("replace", EDIT),
    ],
)  # fmt: skip
def test_names_of_tools_are_translated(theirs: str, ours: tuple[str, ...]) -> None:
    assert own_names(theirs) == ours


@each_row(
    ("head", "mode"),
    [
        ("permissionMode: default", "ask"),
        ("permissionMode: plan", "plan"),
        ("permissionMode: bypassPermissions", "yolo"),
        ("permissionMode: dontAsk", "ask"),
        ("sandbox_mode: workspace-write", "auto-edit"),
        ("sandbox_mode: danger-full-access\napproval_policy: untrusted", "ask"),
        ("approval_policy: never", None),
        ("permissionMode: plan\nmode: yolo", "plan"),
        ("mode: all", None),
        ("permissionMode: very-careful", "ask"),
        ("permissionMode: [plan]", "ask"),
    ],
)
def test_the_mode_is_the_narrowest_that_is_named(tmp_path: Path, head: str, mode: str | None) -> None:
    assert made(tmp_path, f"name: a\ndescription: x\n{head}").mode == mode


@each_row(
    ("permission", "tools", "without", "ask", "deny"),
    [
        ("deny", (), (), (), ()),
        ("{'*': deny, read: allow}", ("read_file",), (), (), ()),
        ("ask", None, (), ("shell", "write", "fetch", "mcp"), ()),
        ("{bash: {'*': deny, 'git *': allow}}", None, ("shell",), (), ()),
        ("{bash: {'*': ask, 'git *': allow}}", None, (), ("shell",), ()),
        ("{bash: maybe}", None, ("shell",), (), ()),
        ("{task: {'x*': deny}}", None, ("agent", "agents"), (), ()),
        ("[bash]", (), (), (), ()),
    ],
)
def test_permission_of_opencode_only_takes_away(
    tmp_path: Path,
    permission: str,
    tools: tuple[str, ...] | None,
    without: tuple[str, ...],
    ask: tuple[str, ...],
    deny: tuple[str, ...],
) -> None:
    found = made(tmp_path, f"description: x\npermission: {permission}", "opencode")
    assert (found.tools, found.without_tools, found.ask_rules, found.deny_rules) == (tools, without, ask, deny)


def test_a_denied_pattern_that_is_no_rule_takes_the_tool_away(tmp_path: Path) -> None:
    file = read(tmp_path, "name: a\ndescription: x\ndisallowedTools: Task(worker), Read(a[b])")
    assert file.type is not None and file.type.without_tools == ("agent", "agents", "read_file")
    assert any("cannot be denied alone" in note for note in file.notes)


@each_row(
    ("name", "data", "problem"),
    [
        ("a.md", "No head.", "no front matter"),
        ("a.md", "---\nname: a\ndescription: x\n---\n", "no instructions"),
        ("a.md", "---\nname: a\nkind: remote\n---\nGo.", "the kind remote"),
        ("a.md", "---\nmode: primary\n---\nGo.", "for the user to talk to"),
        ("a.md", "---\nname: a\ndisable: true\n---\nGo.", "switched off"),
        ("a.md", b"---\nname: caf\xe9\n---\nGo.", "not UTF-8"),
        ("a.md", "---\nname: a\n---\n" + "x" * 100_000, "larger than"),
        ("1.md", "---\nname: '!'\ndescription: x\n---\nGo.", "can be typed"),
        ("a.md", "---\n" + "# x\n" * 5_000 + "---\nGo.", "longer than 16,000"),
    ],
)
def test_what_cannot_be_used_says_why(tmp_path: Path, name: str, data: str | bytes, problem: str) -> None:
    put(tmp_path, name, data)
    (file,) = agent_files(Place(tmp_path, "claude", "user"))
    assert file.type is None and problem in file.problem


@each_row(
    "head",
    [
        "name: a\ntools: {[x]: 1}", "name: a\nmaxTurns: .inf\nmax_cost_usd: -3\ntimeout_mins: true",
        "name: a\ntools: 7\nskills: {x: 1}\npermission: {1: {2: 3}}", "name: a\nmodel: [1, {2: 3}]\nisolation: 4",
        "name: a\ndescription: not: yaml", "name: [a]\ndescription: {b: c}\neffort: null\nmode: 9",
        "name: a\ntools: null\ndisallowedTools: ['(', '', '*']",
    ],
)  # fmt: skip
def test_hostile_values_never_raise_and_never_widen(tmp_path: Path, head: str) -> None:
    found = read(tmp_path, head).type
    assert found is None or (
        found.mode in (None, "ask") and found.max_turns is None and found.max_cost_usd is None
    )


def test_broken_toml_and_too_many_files_are_notes(tmp_path: Path) -> None:
    put(tmp_path, "codex/a.toml", "name = ")
    for number in range(205):
        put(tmp_path, f"many/c{number:03}.md", "---\nname: a\n---\nGo.")
    (broken,) = agent_files(Place(tmp_path / "codex", "codex", "user"))
    assert "not valid TOML" in broken.problem
    many = list(agent_files(Place(tmp_path / "many", "claude", "user")))
    assert len(many) == 201 and "more than 200" in many[-1].problem


def named(folder: Path, *places: tuple[str, Product, Origin, str]) -> FoundAgents:
    for at, each in enumerate(places):
        put(folder, f"{at}/x.md", f"---\nname: {each[0]}\ndescription: x\n---\nGo.")
    listed = [
        Place(folder / str(at), product, origin, plugin) for at, (_, product, origin, plugin) in enumerate(places)
    ]
    return find_agents(listed, lambda file: "2" not in file.path.split("/")[-2])


def test_one_name_twice_and_what_is_not_trusted(tmp_path: Path) -> None:
    found = named(
        tmp_path,
        ("critic", "claude", "user", ""),
        ("critic", "claude", "project", ""),
        ("critic", "claude", "project", ""),
        ("critic", "agent", "plugin", "kit"),
    )
    assert [each.name for each in found.types] == ["claude:critic", "critic", "kit:critic"]
    assert [each.name for each in found.inert] == ["critic"] and found.inert[0].content
    assert [note for _, note in found.notes] == ["another sub-agent is named critic; this one is claude:critic"]


def test_links_of_a_project_are_not_followed(tmp_path: Path) -> None:
    secret = put(tmp_path, "home/secret.md", "---\nname: s\n---\nSecret.")
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "stolen.md").symlink_to(secret)
    (file,) = agent_files(Place(tmp_path / "agents", "claude", "project"))
    assert file.type is None and file.problem == "it is a link"
    (mine,) = agent_files(Place(tmp_path / "agents", "claude", "user"))
    assert mine.name == "s"
