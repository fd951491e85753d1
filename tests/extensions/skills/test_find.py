"""Skills are found in the folders of every product, each with a name of its own; nothing disappears silently."""

from pathlib import Path

import pytest

from agent_cli.extensions.places import Place
from agent_cli.extensions.skills.find import SkillCache, find_skills, read_skill

from .files import Machine, age, write_skill


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_folders_of_several_products_are_read(machine: Machine) -> None:
    write_skill(machine.project / ".claude/skills/one")
    write_skill(machine.project / ".agents/skills/two")
    write_skill(machine.project / ".opencode/skill/three")
    write_skill(machine.home / ".codex/skills/four")
    write_skill(machine.config / "skills/five")
    assert machine.names() == ["five", "four", "one", "three", "two"]
    assert machine.find().notes == ()


def test_the_nearest_has_the_bare_name_and_the_others_stay(machine: Machine) -> None:
    write_skill(machine.project / ".agents/skills/deploy", "near")
    write_skill(machine.project / ".claude/skills/deploy", "beside")
    write_skill(machine.home / ".claude/skills/deploy", "mine")
    write_skill(machine.home / ".codex/skills/deploy", "old")
    found = {skill.name: skill for skill in machine.find().skills}
    assert list(found) == ["claude:deploy", "codex:deploy", "deploy", "user:deploy"]
    assert [read_skill(found[name]).body for name in found] == ["beside", "old", "near", "mine"]
    assert sum("another skill is named deploy" in why for _, why in machine.find().notes) == 3


def test_skills_of_one_name_in_one_place_can_all_be_called(machine: Machine) -> None:
    for group in "abcde":
        write_skill(machine.home / f".claude/skills/{group}/deploy")
    names = ["claude:deploy", "deploy", "user:claude:deploy", "user:deploy", "user:deploy-2"]
    assert machine.names() == names


def test_copies_of_a_skill_for_several_products_count_once(machine: Machine) -> None:
    """As installers of skills make them; not in different words, and not yours and the project's."""
    for folder in (machine.project / ".agents", machine.project / ".claude", machine.home / ".cursor"):
        write_skill(folder / "skills/deploy")
        write_skill(folder / "skills/look", folder.name)
    assert machine.names() == ["claude:look", "deploy", "look", "user:deploy", "user:look"]
    copies = [(Path(path).parts[-4], why) for path, why in machine.find().notes if "copy" in why]
    first = machine.project / ".agents/skills/deploy/SKILL.md"
    assert copies == [(".claude", f"it is a copy of {first}, which is used")]
    write_skill(machine.project / ".claude/skills/deploy", "Otherwise now.")
    assert "claude:deploy" in machine.names()


def test_skills_of_a_plugin_have_its_name(machine: Machine, tmp_path: Path) -> None:
    write_skill(tmp_path / "plug/skills/deploy")
    place = Place(tmp_path / "plug/skills", "claude", "plugin", "acme")
    found = find_skills([place], SkillCache(machine.cache))
    assert [(skill.name, skill.place.plugin) for skill in found.skills] == [("acme:deploy", "acme")]
    assert found.notes == ()


def test_one_folder_that_two_ways_lead_to_counts_once(machine: Machine) -> None:
    write_skill(machine.home / ".agents/skills/deploy")
    (machine.home / ".claude").mkdir()
    (machine.home / ".claude/skills").symlink_to(machine.home / ".agents/skills")
    (machine.home / ".agents/skills/again").symlink_to(machine.home / ".agents/skills/deploy")
    assert machine.names() == ["deploy"]


def test_depth_and_skipped_folders(machine: Machine) -> None:
    top = machine.home / ".claude/skills"
    write_skill(top / "a/b/c/d/deep")
    write_skill(top / "a/b/c/d/e/deeper")
    write_skill(top / "node_modules/x")
    write_skill(top / ".git/y")
    write_skill(top / "whole/inner/part")
    write_skill(top / "whole")
    assert machine.names() == ["deep", "whole"]


def test_too_many_folders_are_said(machine: Machine) -> None:
    for number in range(2_001):
        (machine.home / f".claude/skills/{number:04}").mkdir(parents=True)
    write_skill(machine.home / ".claude/skills/zz")
    assert machine.names() == []
    assert machine.find().notes[0][1] == "it holds more than 2,000 folders; the rest is left out"


def test_lenient_reading(machine: Machine) -> None:
    top = machine.home / ".claude/skills"
    write_skill(top / "folder", name="My Skill")
    write_skill(top / "colon", description="Use when: always, e.g. `a: b`")
    (top / "bare").mkdir()
    (top / "bare/skill.md").write_text("# Fix the build\n\nRun make.\n")
    (top / "latin").mkdir()
    (top / "latin/SKILL.md").write_bytes(b"---\nname: latin\n---\n\xff")
    (top / "huge").mkdir()
    (top / "huge/SKILL.md").write_bytes(b"x" * 1_000_001)
    found = machine.find()
    assert [(skill.name, skill.head.description) for skill in found.skills] == [
        ("bare", "Fix the build"),
        ("colon", "Use when: always, e.g. `a: b`"),
        ("my-skill", "Does a thing."),
    ]
    notes = {(Path(path).parent.name, why.partition(" (")[0][:40]) for path, why in found.notes}
    assert ("latin", "it is not UTF-8 text") in notes
    assert ("huge", "it is larger than 1,000,000 bytes") in notes
    assert ("folder", "it is named My Skill, and its folder fol") in notes
    assert ("bare", "it has no description; its first line st") in notes
    assert any(folder == "colon" and "not valid YAML" in why for folder, why in notes)


def test_what_the_front_matter_says(machine: Machine) -> None:
    write_skill(
        machine.home / ".claude/skills/all",
        when_to_use="never used",
        argument_hint="[file] [line]",
        arguments="[file, line]",
        allowed_tools="Bash(git add:*), Bash(npm run *) Read",
        disable_model_invocation="true",
        user_invocable="false",
    )
    path = machine.home / ".claude/skills/all/SKILL.md"
    path.write_text(path.read_text().replace("when-to-use: never used", "when_to_use: Before a release"))
    (skill,) = machine.find().skills
    head = skill.head
    assert (head.hint, head.arguments) == ("[file] [line]", ("file", "line"))
    assert head.allowed_tools == ("Bash(git add:*)", "Bash(npm run *)", "Read")
    assert (head.is_for_model, head.is_offered) == (False, False)
    assert skill.about == "Does a thing. Before a release"


def test_links_out_of_a_project_are_not_followed(machine: Machine, tmp_path: Path) -> None:
    write_skill(tmp_path / "elsewhere/secret")
    top = machine.project / ".claude/skills"
    write_skill(machine.project / "shared/inside")
    (top / "file").mkdir(parents=True)
    (top / "out").symlink_to(tmp_path / "elsewhere/secret")
    (top / "in").symlink_to(machine.project / "shared/inside")
    (top / "file/SKILL.md").symlink_to(tmp_path / "elsewhere/secret/SKILL.md")
    found = machine.find()
    assert [skill.name for skill in found.skills] == ["inside"]
    assert [why for _, why in found.notes] == ["it is a link that leads out of the project"] * 2
    (machine.project / ".codex").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere/skills").mkdir()
    assert "it is outside the project" in [why for _, why in machine.find().notes]


def test_a_file_that_becomes_a_link_out_of_the_project_is_not_read(machine: Machine, tmp_path: Path) -> None:
    file = write_skill(machine.project / ".claude/skills/one")
    (skill,) = machine.find().skills
    (tmp_path / "secret").write_text("key")
    file.unlink()
    file.symlink_to(tmp_path / "secret")
    assert read_skill(skill).head.problem == "it is a link that leads out of the project"
    assert read_skill(skill).content == b""


def test_links_of_the_user_are_followed(machine: Machine, tmp_path: Path) -> None:
    write_skill(tmp_path / "dotfiles/deploy")
    (machine.home / ".claude/skills").mkdir(parents=True)
    (machine.home / ".claude/skills/deploy").symlink_to(tmp_path / "dotfiles/deploy")
    (machine.home / ".claude/skills/loop").symlink_to(machine.home / ".claude/skills")
    assert machine.names() == ["deploy"]
    assert machine.find().skills[0].folder == str(tmp_path / "dotfiles/deploy")


def test_disabled_skills_are_set_apart(machine: Machine) -> None:
    write_skill(machine.home / ".claude/skills/one")
    write_skill(machine.home / ".claude/skills/two")
    machine.disabled = ("one",)
    assert (machine.names(), [skill.name for skill in machine.find().off]) == (["two"], ["one"])


def test_what_is_known_is_not_read_again(machine: Machine) -> None:
    file = write_skill(machine.home / ".claude/skills/one", description="Before")
    assert machine.find().skills[0].head.description == "Before"
    about = file.stat()
    changed = file.read_bytes().replace(b"Before", b"After!")
    file.write_bytes(changed)
    import os

    os.utime(file, ns=(about.st_atime_ns, about.st_mtime_ns))
    assert machine.find().skills[0].head.description == "Before", "size, time and number are the same"
    age(file)
    assert machine.find().skills[0].head.description == "After!"


def test_new_and_removed_skills_are_seen(machine: Machine) -> None:
    top = machine.home / ".claude/skills"
    write_skill(top / "one")
    write_skill(top / "group/two", old=False)
    assert machine.names() == ["one", "two"]
    write_skill(top / "three", old=False)
    write_skill(top / "group/four", old=False)
    (top / "one/SKILL.md").unlink()
    assert machine.names() == ["four", "three", "two"]


@pytest.mark.parametrize("damage", [b"", b"\xc1\x00", b'{"version": 1}', b"\x81\xa7version\x63"])
def test_a_damaged_cache_is_made_anew(machine: Machine, damage: bytes) -> None:
    write_skill(machine.home / ".claude/skills/one")
    machine.find()
    whole = machine.cache.read_bytes()
    machine.cache.write_bytes(damage)
    assert machine.names() == ["one"]
    assert machine.cache.read_bytes() == whole
    machine.cache.write_bytes(whole[:-20])
    assert machine.names() == ["one"]


def test_places_of_other_projects_stay_in_the_cache(machine: Machine, tmp_path: Path) -> None:
    other = Machine(tmp_path / "other")
    other.cache = machine.cache
    write_skill(machine.project / ".claude/skills/one")
    write_skill(other.project / ".claude/skills/two")
    machine.find()
    other.find()
    before = machine.cache.read_bytes()
    machine.find()
    other.find()
    assert machine.cache.read_bytes() == before
