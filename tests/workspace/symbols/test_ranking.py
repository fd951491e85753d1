"""Files and definitions are ranked by how much the rest refers to them."""

from agent_cli.workspace.symbols.parse import Definition, Symbols
from agent_cli.workspace.symbols.ranking import rank


def file(defines: str = "", **mentions: int) -> Symbols:
    names = defines.split()
    return Symbols(tuple(Definition(name, at, name) for at, name in enumerate(names, 1)), mentions)


def test_votes_go_to_those_who_define() -> None:
    files = {"a.py": file("used unused"), "b.py": file("b_one", used=5), "c.py": file("c_one", used=1)}
    first, *_ = rank(files)
    assert first.path == "a.py"
    scores = {each.name: score for score, each in first.definitions}
    assert scores["used"] > 10 * scores["unused"]


def test_a_vote_of_an_important_file_counts_more() -> None:
    files = {f"x{n}.py": file(core=1) for n in range(9)}
    files |= {
        "core.py": file("core", deep=1),
        "deep.py": file("deep"),
        "y.py": file(shallow=1),
        "z.py": file("shallow"),
    }
    order = [each.path for each in rank(files)]
    assert order.index("deep.py") < order.index("z.py")


def test_languages_do_not_vote_for_each_other() -> None:
    files = {"a.py": file("render"), "b.go": file(render=9), "c.ts": file("draw_it"), "d.js": file(draw_it=1)}
    scores = {each.path: each.score for each in rank(files)}
    assert scores["c.ts"] > scores["a.py"]


def test_names_that_everybody_defines_say_nothing() -> None:
    files = {f"f{n}.py": file("run") for n in range(40)} | {"g.py": file(run=9)}
    assert len({round(each.score, 9) for each in rank(files)}) == 1


def test_the_sum_of_all_scores_is_one_and_nothing_is_no_error() -> None:
    assert rank({}) == []
    files = {f"f{n}.py": file(f"name_{n}", **{f"name_{n * 7 % 50}": 2}) for n in range(50)}
    for focus in ((), ("f7",), ("name_3",), ("",)):
        assert abs(sum(each.score for each in rank(files, focus)) - 1) < 1e-3
