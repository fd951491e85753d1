"""Where the agent's files lie: as platformdirs says, also where it is not asked."""

from pathlib import Path

import platformdirs
import pytest

from agent_cli.config.dirs import config_dir, state_dir


@pytest.mark.parametrize("home", ["/home/me", "/home/me/", "/", "", "not/absolute"])
@pytest.mark.parametrize("moved", [None, "", "  ", "/else where", "/with/slash/", "relative/place", "~/place"])
def test_the_folders_are_those_of_platformdirs(
    home: str, moved: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AGENT_CONFIG_DIR", "AGENT_STATE_DIR", "XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
        if moved is not None and name.startswith("XDG"):
            monkeypatch.setenv(name, moved)
    monkeypatch.setenv("HOME", home)
    assert config_dir() == Path(platformdirs.user_config_dir("agent-cli"))
    assert state_dir() == Path(platformdirs.user_state_dir("agent-cli"))
