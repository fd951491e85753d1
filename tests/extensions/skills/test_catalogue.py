"""The list of skills in the system prompt: every name, descriptions as far as there is room, stable bytes."""

from pathlib import Path

import pytest

from agent_cli.extensions.places import Place
from agent_cli.extensions.skills.catalogue import SkillNews, catalogue, listed_names
from agent_cli.extensions.skills.find import FoundSkills
from agent_cli.extensions.skills.skill import Skill, SkillHead
from agent_cli.tools.kit.output import result_tokens

WINDOW = 200_000


def skill(name: str, description: str = "Does it. Use it often.", size: int = 1) -> Skill:
    place = Place(Path("/skills"), "agent", "user")
    head = SkillHead(name, description)
    return Skill(name, f"/skills/{name}/SKILL.md", place, head, (size, 0, 0))


def skills(count: int, description: str) -> list[Skill]:
    return [skill(f"skill-{number:04}", description.format(number=number)) for number in range(count)]


@pytest.mark.parametrize(
    ("count", "description", "line"),
    [
        (3, "Makes thing {number}. Use it so.", "- skill-0000: Makes thing 0. Use it so."),
        (100, f"Makes thing {{number}}. {'More. ' * 60}", "- skill-0000: Makes thing 0."),
        (60, f"Makes thing {{number}} {'on and on ' * 30}", f"- skill-0000: {'Makes thing 0 on and on on and on on and on on and on on and':.59}…"),
        (149, "", "- skill-0000"),
    ],
)  # fmt: skip
def test_descriptions_are_shortened_all_alike(count: int, description: str, line: str) -> None:
    text = catalogue(skills(count, description), WINDOW)
    first, *_ = [row for row in text.split("\n") if row.startswith("- ")]
    assert first == line
    assert len({(": " in row, row.endswith("…")) for row in text.split("\n") if row.startswith("- ")}) == 1
    assert result_tokens(text) <= 2_000
    assert listed_names(f"Before.\n\n{text}\n\n# Rules\n- x") == tuple(
        f"skill-{number:04}" for number in range(count)
    )


def test_a_small_window_has_room_for_a_thousand_tokens() -> None:
    text = catalogue(skills(20, "A sentence of some length about number {number}."), 8_000)
    assert 80 < result_tokens(text) <= 1_000 and "about number 19." in text


def test_names_stay_whatever_the_room() -> None:
    text = catalogue(skills(149, "A sentence of some length about number {number}."), 8_000)
    assert "- skill-0148" in text and "sentence" not in text


def test_from_150_on_only_names_are_listed() -> None:
    text = catalogue(skills(150, "About {number}."), WINDOW)
    assert "About" not in text and "find_skills" in text
    assert listed_names(text) == tuple(f"skill-{number:04}" for number in range(150))
    assert catalogue([], WINDOW) == "" and listed_names("No list.") is None


def test_control_characters_are_written_out() -> None:
    assert "\x1b" not in catalogue([skill("x", "Red \x1b[31m text")], WINDOW)


def test_news_are_told_once_they_differ_and_when_they_no_longer_do() -> None:
    before = FoundSkills((skill("a"), skill("b")))
    news = SkillNews(("a", "b"), before)
    assert news.facts(before) == {}
    later = FoundSkills((skill("a", size=2), skill("c")))
    assert news.facts(later) == {"Skills": "new: c (Does it.); changed: a; removed: b"}
    assert news.facts(before) == {"Skills": "as listed at the beginning"}


def test_skills_that_only_the_user_calls_are_no_news() -> None:
    hidden = skill("h")
    hidden = Skill(hidden.name, hidden.path, hidden.place, SkillHead("h", "x", is_for_model=False), hidden.stamp)
    assert SkillNews((), FoundSkills()).facts(FoundSkills((hidden,))) == {}


def test_many_new_skills_are_counted() -> None:
    told = SkillNews((), FoundSkills()).facts(FoundSkills(tuple(skills(50, "It."))))["Skills"]
    assert "skill-0019 (It.) and 30 more" in told and "skill-0020" not in told
