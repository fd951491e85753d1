"""Network access of confined commands to the hosts that rules allow: a proxy that listens in their otherwise
isolated network, and ports of this machine forwarded into it. Each connection is authorized by the policy, so that
a new rule, another mode or untrusted text takes effect immediately."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from agent_cli.policy.rules.rule import Rule, Rules
from agent_cli.protocol.actions import Action, Allow, Deny, Fetch, Verdict
from agent_cli.protocol.lazy_regex import lazy_regex
from agent_cli.sandbox.process.runner import ProcessError, ProcessRunner

if TYPE_CHECKING:
    from agent_cli.net.host_proxy import HostProxy

_OWN_PORT = lazy_regex(r"(localhost|127\.0\.0\.1):(\d{1,5})")


class EgressProxy:
    """The network egress of one session's commands. It is opened once a rule `fetch(HOST)` allows something.
    `rules` and `authorize` come from the policy; `private_hosts` may be on this machine or in a private
    network."""

    def __init__(
        self,
        processes: ProcessRunner,
        rules: Callable[[], Rules],
        authorize: Callable[[Action], Verdict],
        private_hosts: Sequence[str] = (),
    ) -> None:
        self._processes = processes
        self._rules = rules
        self._authorize = authorize
        self._private_hosts = private_hosts
        self._network: tuple[int, ...] = ()
        self._proxy: HostProxy | None = None
        self._url = ""
        self._tried: set[tuple[str, int]] = set()
        """Ports of this machine that are forwarded, or could not be."""
        self._opening = asyncio.Lock()

    @property
    def connected(self) -> int:
        """Number of connections made to hosts so far."""
        return self._proxy.connected if self._proxy else 0

    async def open(self) -> str:
        """Return the proxy's URL for a command about to start; empty if there is none, because no rule allows a
        host or commands share no network. The first call takes about 10 ms."""
        allowed, network = self._rules().of("allow", "fetch"), self._processes.network
        if not network or not allowed:
            return ""
        async with self._opening:
            if self._network is not network:  # the network was set up again
                self.close()
            if self._proxy is None:
                await self._begin()
                self._network = network
            await self._forward(allowed)
        return self._url

    def take_refused(self) -> tuple[str, ...]:
        """Return the hosts refused to commands since the last call."""
        return self._proxy.take_refused() if self._proxy else ()

    def close(self) -> None:
        """Stop listening, and start to close all connections."""
        if self._proxy is not None:
            self._proxy.close()
        self._proxy, self._url, self._network = None, "", ()
        self._tried.clear()

    async def _begin(self) -> None:
        """Start the proxy. If a command occupies the usual port, use another one."""
        from agent_cli.net.host_proxy import PORT, HostProxy

        proxy = HostProxy(self._allows, private_hosts=self._private_hosts)
        for port in (PORT, 0):
            with suppress(ProcessError):
                listening = await self._processes.listen(port)
                self._url = f"http://127.0.0.1:{listening.getsockname()[1]}"
                await proxy.serve(listening)
                self._proxy = proxy
                return

    async def _forward(self, rules: Sequence[Rule]) -> None:
        """Forward the ports of this machine that rules name, unless a command listens on them itself."""
        for host, port in sorted(set(filter(None, map(_own_port, rules))) - self._tried):
            self._tried.add((host, port))
            if self._proxy is not None:
                with suppress(ProcessError):
                    await self._proxy.forward(await self._processes.listen(port), host, port)

    def _allows(self, host: str) -> bool:
        """Return True if the policy currently allows a host, or a HOST:PORT of this machine."""
        name, colon, port = host.partition(":")
        if colon and port.isdigit() and isinstance(self._authorize(Fetch(f"tcp://{name}", name)), Deny):
            return False
        return isinstance(self._authorize(Fetch(f"//{host}", host)), Allow)


def _own_port(rule: Rule) -> tuple[str, int] | None:
    found = _OWN_PORT.fullmatch(rule.pattern)
    return (found[1], int(found[2])) if found and 0 < int(found[2]) < 65536 else None
