"""What a user sees of sub-agents, and what their answers do: the real program in a terminal."""

import re

from tests.e2e.person import Person
from tests.e2e.test_agents import isolated, merge
from tests.e2e.world import World, until
from tests.model.server import Call, Reply


def test_a_user_sees_a_sub_agent_ask_answers_it_and_reads_what_it_did(world: World) -> None:
    world.script(
        Reply(calls=(Call("agent", {"task": "Make a new file."}),)),
        Reply(text="I make it.", calls=(Call("shell", {"command": "touch new.txt"}),)),
        Reply(text="It was not wanted.\nSo there is none."),
        Reply(text="Nothing was made."),
    )
    with Person(world) as person:
        person.say("go")
        person.wait(r"(?m)^\? general-1 wants to run  touch new.txt")
        person.wait(r"(?m)^\? general-1  general  waiting for you  1 step")
        shown = [line.rstrip() for line in person.screen.display]
        at = next(at for at, row in enumerate(shown) if row.startswith("? general-1  general  waiting"))
        assert shown[at + 1 : at + 4] == ["  Make a new file.", "  $ touch new.txt", "  I make it."]
        asked = next(at for at, row in enumerate(shown) if row.startswith("? general-1 wants to run"))
        assert shown[asked + 1] == "  Make a new file."
        person.decide("wants to run", "never make files")
        person.turn_over()
        assert not (world.work / "new.txt").exists()
        assert "never make files" in world.messages(2, "tool")[-1]
        ended = [row for row in person.lines if "● Agent general: Make a new file." in row]
        assert len(ended) == 1 and "general-1 done, 2 steps" in ended[0]
        assert "waiting for you" not in "\n".join(person.screen.display)
        person.say("/agents")
        person.wait(r"(?m)^  ● general-1  [0-9a-f]{8}  general  done  2 steps  .*\n    Make a new file\.$")
        person.say("/agents general-1")
        person.wait(r"(?s)session: /.*▌ Make a new file\..*I make it\..*never make files.*It was not wanted\.")
        person.say("/agents types")
        person.wait("(?m)^  explore  built-in$")
        person.say("/cost")
        person.wait("(?m)^  sub-agents .* 2 ")
        person.leave()
        assert len(re.findall(r"(?m)^▌ Make a new file", person.text)) == 1


def test_one_in_the_background_is_reported_when_it_ends_and_takes_a_further_task(world: World) -> None:
    world.script(
        Reply(calls=(Call("agent", {"task": "Look around.", "background": True}),)),
        Reply(text="Seen."),
        Reply(text="Seen."),
        Reply(text="Seen again."),
    )
    with Person(world) as person:
        person.ask("go")
        person.wait(r"(?m)^● Agent general-1  1 step  done  Seen\.$")
        person.say("/agents send general-1 Look again.")
        person.wait(r"(?m)^● Agent general-1  2 steps  done  Seen again\.$")
        person.say("/agents general-1")
        person.wait(r"(?s)▌ Look around\..*▌ Look again\.")
        person.leave()
        assert len(re.findall(r"(?m)^● Agent general-1 ", person.text)) == 2


def test_watch_steer_answer_stop_merge_and_undo_it_all(world: World) -> None:
    isolated(world)
    slow = " ".join(f"word{at}" for at in range(400))
    world.script(
        Reply(calls=(Call("agent", {"task": "First part."}), Call("agent", {"task": "Second part."}))),
        Reply(text=slow, piece=8, event_delay_s=0.05),
        Reply(calls=(Call("shell", {"command": "touch new.txt"}),)),
        Reply(text="I made it."),
        Reply(text="Both are over."),
        Reply(calls=(Call("agent", {"task": "Build.", "type": "builder"}),)),
        Reply(calls=(Call("read_file", {"path": "a.txt"}),)),
        Reply(calls=(Call("write_file", {"path": "a.txt", "content": "two\n"}),)),
        Reply(text="Built."),
        Reply(text="It is built."),
    )
    with Person(world, "--sandbox", "off") as person:
        person.say("go")
        person.wait(r"(?m)^\? general-\d wants to run  touch new.txt")
        asker = re.findall(r"(?m)^\? (general-\d) wants to run", person.text)[-1]
        other = {"general-1": "general-2", "general-2": "general-1"}[asker]
        assert re.search(rf"(?m)^● {other}  \d steps?  \S+ part", "\n".join(person.screen.display))
        person.decide(f"{asker} wants to run", "1")
        until(lambda: (world.work / "new.txt").exists())
        person.say(f"/agents send {other} Hurry.")
        person.wait(f"{other} reads it at its next step")
        person.say(f"/agents stop {other}")
        person.wait(f"{other} is stopped")
        person.turn_over()
        told = world.messages(-1, "tool")
        assert sum('state="stopped"' in each for each in told) == 1 and "I made it." in "".join(told)
        person.say("build it")
        person.decide("wants to write|builder-1: ", "1")
        person.turn_over()
        (world.work / "a.txt").write_text("mine\n", encoding="utf-8")
        merge(person)
        person.wait("Nothing was merged: a.txt")
        (world.work / "a.txt").write_text("one\n", encoding="utf-8")
        merge(person)
        person.wait("Merged 1 file of builder-1: a.txt")
        assert (world.work / "a.txt").read_text(encoding="utf-8") == "two\n"
        person.say("/undo 3")
        person.wait("Undid 3 turns")
        until(lambda: not (world.work / "new.txt").exists())
        assert (world.work / "a.txt").read_text(encoding="utf-8") == "one\n"
        person.leave()
