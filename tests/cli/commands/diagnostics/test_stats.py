"""`agent stats`: tables for people in any width, JSON for programs, and no session is no error."""

import json
from pathlib import Path

from agent_cli.cli.commands.diagnostics.stats_tables import Written, overview, table
from agent_cli.store.catalog import Sessions
from agent_cli.telemetry.recorded.statistics import Statistics, statistics
from agent_cli.ui.text import lines
from agent_cli.ui.text.theme import NONE, Theme
from tests.cli.running import said
from tests.e2e.world import Done, World
from tests.telemetry.recorded.made import a_turn, header, save
from tests.telemetry.recorded.test_statistics import ALL, later, stored


def found(folder: Path) -> Statistics:
    return statistics(stored(folder, [header(), *a_turn()], later(2)), ALL)


def out(width: int, theme: Theme = NONE) -> Written:
    return Written(width, theme, lambda text: text)


def test_the_overview_says_what_it_took(tmp_path: Path) -> None:
    text = "\n".join(overview(found(tmp_path), out(100)))
    for words in (
        "2, 2 prompts, 2026-09-21 to 2026-09-23", "4.1k in, 200 out, 93% of what was sent came from the cache",
        "$0.0600, 6 model calls, 2 failed", "6 calls, 2 failed, 0 denied", "60 s of turns",
        "20%  waiting for you, 12.0 s", "23%  model, answering, 14.0 s", "10%  waiting for the provider, 6.0 s",
    ):  # fmt: skip
        assert words.replace("60 s of", "1 min of") in text, text


def test_no_line_is_wider_than_the_terminal_and_figures_are_never_cut(tmp_path: Path) -> None:
    given = found(tmp_path)
    given.rows["project"][0].key = "/home/me/" + "a-very-long-folder-name/" * 5 + "end"
    for width in (20, 40, 60, 80, 120):
        rows = overview(given, out(width))
        for by in ALL:
            rows += table(by, given, out(width), is_alone=True)
        if width >= 40:
            assert max(map(lines.cells, rows)) <= width, max(rows, key=lines.cells)
    assert "$0.0300" in "\n".join(table("project", given, out(40), is_alone=True))
    assert "name/end" in "\n".join(table("project", given, out(40), is_alone=True))


def test_a_program_reads_json_and_names_of_others_do_nothing(world: World) -> None:
    nothing, wrong = said(world, ["stats"], ["stats", "--by", "colour"])
    assert nothing == Done(0, "No sessions yet. Start one with `agent`.\n", "")
    assert wrong.code == 2 and "model, project, tool, day, session" in wrong.err
    folder = Sessions(world.state / "sessions").folder / "p"
    hostile = [header(cwd="/x/\x1b[31mred\u202e"), *a_turn()]
    save(folder / "20260921T120000Z-0ab1727c.json", hostile)
    broken = save(folder / "20260921T120000Z-0ab1727d.json", [])
    broken.write_text("nothing")
    plain, shown, since, drawn = said(
        world, ["stats", "--json"], ["stats", "--by", "project"], ["stats", "--since", "2099-01-01"],
        ["trace", "show", "0ab1727c"],
    )  # fmt: skip
    assert "  shell " in drawn.out and "  waiting for you " in drawn.out
    broken.unlink()
    given = json.loads(plain.out)
    assert (given["total"]["cost_usd"], given["total"]["prompts"], given["unreadable"]) == (0.03, 1, 1)
    assert {"by_day", "by_model", "by_tool"} < set(given) and given["by_tool"][0]["tools"]["shell"][
        "waited_s"
    ] == 6
    assert given["total"]["time_s"]["waiting"] == 6
    assert "\x1b" not in shown.out and "\u202e" not in shown.out and "red" in shown.out
    assert "1 session file could not be read; the figures are without it" in shown.err
    assert since.out == "No sessions since then.\n"
