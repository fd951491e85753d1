"""The agent for Harbor: `harbor run -d DATASET --agent agent_cli.fleet.evaluation.harbor_agent:AgentCli -m MODEL`.

Nothing else imports this module: it needs the package `harbor` (0.25), which needs Python 3.12. Options, as
`--agent-kwarg NAME=VALUE`: `archive`, built by `make standalone`, is unpacked in the container; or `package` is
installed there with pip. `max_turns`, `max_cost` and `reasoning_effort` are those of `agent run`.
"""

import json
import shlex
from pathlib import Path
from typing import Annotated, Any

import harbor.agents.installed.base as base
from harbor.agents.capabilities import AgentCapabilities
from harbor.agents.options import Cli, InstalledAgentOptions
from harbor.environments.base import BaseEnvironment
from harbor.models.agent.context import AgentContext
from pydantic import Field

from .harbor_run import TRAJECTORY_FILE, error_name, figures, run_command, trajectory_of_logs

_PLACE = "/opt/agent-cli"
_PATH = f'export PATH="{_PLACE}/bin:$HOME/.local/bin:$PATH"; '


class AgentCliOptions(InstalledAgentOptions):
    """The options of `--agent-kwarg`."""

    archive: str | None = Field(default=None, description="Archive of `make standalone` on this machine.")
    package: str | None = Field(default=None, description="What pip installs where there is no archive.")
    reasoning_effort: Annotated[str | None, Cli("--effort")] = Field(default=None, description="Reasoning effort.")
    max_turns: Annotated[int | None, Cli("--max-turns")] = Field(default=None, description="Limit on model calls.")
    max_cost: Annotated[float | None, Cli("--max-cost")] = Field(default=None, description="Limit in US dollars.")


class AgentCli(base.BaseInstalledAgent):
    """Installs the agent in a container, runs it there, and reports its figures and its trajectory."""

    capabilities = AgentCapabilities(atif=True, resume=True, reasoning_effort=True)
    options_model = AgentCliOptions

    @staticmethod
    def name() -> str:
        """Return the name of the agent in results."""
        return "agent-cli"

    def get_version_command(self) -> str:
        """Return the command that prints the version."""
        return _PATH + "agent --version"

    def parse_version(self, stdout: str) -> str:
        """Return the version in the output of that command."""
        return stdout.strip().rpartition(" ")[2]

    async def install(self, environment: BaseEnvironment) -> None:
        """Install the agent: from the archive, which needs nothing else, or with pip.

        Raises:
            ValueError: neither is given.
        """
        if self.options.archive:
            await self.ensure_system_dependencies(environment, ("git", "tar", "xz"))
            await environment.upload_file(Path(self.options.archive), "/installed-agent/agent.tar.xz")
            unpack = f"tar -xf /installed-agent/agent.tar.xz -C {_PLACE} --strip-components=1"
            await self.exec_as_root(environment, command=f"mkdir -p {_PLACE} && {unpack}")
        elif self.options.package:
            await self.ensure_system_dependencies(environment, ("git", "python3", "python_pip", "python_venv"))
            make = f"python3 -m venv {_PLACE} && {_PLACE}/bin/pip install -q {shlex.quote(self.options.package)}"
            await self.exec_as_root(environment, command=make)
        else:
            raise ValueError("give archive=PATH, which `make standalone` writes, or package=REQUIREMENT")
        await self.exec_as_agent(environment, command=self.get_version_command())

    @base.with_prompt_template
    async def run(self, instruction: str, environment: BaseEnvironment, context: AgentContext) -> None:
        """Run the agent on a task, or resume its session."""
        options = shlex.split(self.build_cli_flags())
        logs = str(self.environment_logs_dir)
        command = run_command(instruction, self.model_name or "", options, logs, resume=self._resume)
        await self.exec_as_agent(environment, command=_PATH + command, env=self._keys())

    def populate_context_post_run(self, context: AgentContext) -> None:
        """Report tokens and cost, and write the trajectory."""
        found = figures(self.logs_dir)
        context.n_input_tokens, context.n_cache_tokens = found.input, found.cached
        context.n_output_tokens, context.cost_usd = found.output, found.cost_usd
        context.metadata = {"stop_reason": found.stop_reason, "turns": found.turns}
        if made := trajectory_of_logs(self.logs_dir):
            (self.logs_dir / TRAJECTORY_FILE).write_text(json.dumps(made, indent=2), encoding="utf-8")

    def _classify_exec_error(self, command: str, result: Any) -> base.NonZeroAgentExitCodeError:
        """Return the error for a failed command. For the agent's own run only the exit code and the result line
        are read: text of the model could look like an error of the provider."""
        if " --output-format stream-json" not in command:
            return super()._classify_exec_error(command, result)
        kind = getattr(base, error_name(result.return_code, result.stdout or ""))
        said = self._truncate_output(f"{result.stdout or ''}\n{result.stderr or ''}")
        return kind(f"the agent ended with {result.return_code}: {said}")

    def _keys(self) -> dict[str, str]:
        """Return the key and the address of the model's provider from the environment of this machine."""
        provider = (self.model_name or "").partition("/")[0].upper().replace("-", "_")
        names = (f"{provider}_API_KEY", f"{provider}_BASE_URL")
        return {name: value for name in names if provider and (value := self._get_env(name))}
