"""`agent bug` writes the report of `/bug` for a saved session."""

import zipfile

from tests.cli.running import kept, said
from tests.e2e.world import World


def test_a_report_of_the_last_session_or_of_a_named_one(world: World) -> None:
    first = kept(world, ("the first", "Yes."))
    second = kept(world, ("the second", "Yes."))
    last, named, unknown = said(world, ["bug"], ["bug", first], ["bug", "nothing-like-it"])
    assert last.code == named.code == 0 and "Report written, nothing sent: " in last.out, last
    assert unknown.code == 2 and "no session with the ID or name" in unknown.err
    reports = [line.partition("sent: ")[2] for done in (last, named) for line in done.out.splitlines()[:1]]
    for report, identifier in zip(reports, (second, first), strict=True):
        with zipfile.ZipFile(report) as archive:
            assert f"session: {identifier}, 1 prompt" in archive.read("facts.txt").decode()
            assert archive.namelist()[-1] == "session.json"
