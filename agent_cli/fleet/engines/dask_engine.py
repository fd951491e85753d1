"""The engine for many machines: jobs run on the workers of a Dask cluster.

Dask neither places nor repeats jobs. Each job is sent to the address of a worker with a free slot, and is lost if
that worker is lost; waiting jobs wait in this process.
"""

import asyncio
import ipaddress
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import msgspec

from agent_cli import __version__
from agent_cli.protocol.json_text import decode_json

from ..job import EngineError, Finished, Job, Lost, Progress, Started, WorkersChanged
from . import worker as on_worker
from .perform import RUN_ATTEMPT
from .queueing import Engine, RunningJob

if TYPE_CHECKING:
    from tempfile import TemporaryDirectory

    from distributed import Client, Future, LocalCluster

_GREET_S = 10.0
_ANSWER_S = 90.0
"""Seconds that a worker has to end a job, beyond the grace period, before it is given up."""
_WATCH_S = 0.1
_LOOK_S = 5.0
_SLOTS = 16
_LOOPBACK = "127.0.0.1:0"
"""Address of Dask's web server: without an address it would be open to the network."""
_NO_LOGS = 100
_CALM = {
    "distributed.scheduler.work-stealing": False,
    "distributed.scheduler.worker-ttl": "15 minutes",
    "distributed.worker.memory.target": False,
    "distributed.worker.memory.spill": False,
    "distributed.worker.memory.pause": False,
    "distributed.worker.memory.terminate": False,
    "distributed.admin.large-graph-warning-threshold": "1GB",
}
"""Dask features that would do harm: agents do not use the memory of workers, and no job may be moved."""


class _Worker(msgspec.Struct, frozen=True):
    address: str
    identity: str
    slots: int


class DaskEngine(Engine):
    """Runs jobs on a Dask cluster; created by `connect`."""

    def __init__(self, client: "Client", attempt: str, own: "_OwnCluster | None") -> None:
        super().__init__()
        self._client, self._attempt, self._own = client, attempt, own
        self._topic = f"agent-{os.urandom(8).hex()}"
        self._workers: dict[str, _Worker] = {}
        self._refused: dict[str, str] = {}
        """Workers that get no job, and the reasons."""
        self._changed = asyncio.Event()
        self._watching: asyncio.Task[None] | None = None

    @classmethod
    async def connect(
        cls,
        *,
        address: str = "",
        scheduler_file: str = "",
        insecure: bool = False,
        slots: int = _SLOTS,
        attempt: str = RUN_ATTEMPT,
    ) -> Self:
        """Connect to a cluster and compare versions with all its workers.

        `address` is `tls://host:port`, or `tcp://` for this machine; `scheduler_file` is the file that the
        scheduler has written on a shared disk. Without either, a cluster with this many `slots` runs in this
        process. `insecure` allows a connection without TLS to another machine: whoever reaches its port can run
        commands there.

        Raises:
            EngineError: Dask is not installed, nothing answers, the connection would not be encrypted, or a worker
            has another version.
        """
        try:
            import dask
            from distributed import Client
        except ImportError as error:
            hint = f"pip install 'agent-cli[cluster]=={__version__}'"
            raise EngineError(f"the engine dask needs Dask, which cannot be loaded ({error}): {hint}") from error
        address = _address(address, scheduler_file, insecure)
        dask.config.set(_CALM)
        own = None if address else await _OwnCluster.start(slots)
        client = Client(own.cluster if own else address, asynchronous=True, set_as_default=False)
        engine = cls(client, attempt, own)
        try:
            await engine._open(address)
        except BaseException:
            await engine._disconnect()
            raise
        return engine

    def capacity(self) -> int:
        """Return the slots of all present workers. Once the cluster is gone, return 1, so that callers that wait
        for a slot submit and get the error."""
        return 1 if self._closed_because else sum(worker.slots for worker in self._workers.values())

    async def close(self, grace_s: float) -> None:
        """Cancel all jobs, leave no process of theirs, and disconnect. The cluster stays."""
        await super().close(grace_s)
        await self._disconnect()

    def _start(self, job: Job) -> RunningJob:
        taken = [running.worker for running in self._running.values() if isinstance(running, _RemoteJob)]
        chosen = max(self._workers.values(), key=lambda worker: worker.slots - taken.count(worker))
        order = on_worker.Order(job, chosen.identity, self._attempt, self._topic)
        return _RemoteJob(self._client, chosen, order)

    async def _open(self, address: str) -> None:
        try:
            await self._client
        except Exception as error:  # of many kinds: timeout, TLS, an unknown host name
            raise EngineError(f"no Dask scheduler answers at {address}: {_in_short(error)}") from error
        self._client.subscribe_topic(self._topic, self._hear)
        self._client.subscribe_topic("all", self._notice)
        await self._look()
        if self._refused:
            whys = "; ".join(self._refused.values())
            raise EngineError(f"{whys}. Install the same version everywhere, or stop those workers")
        self._watching = asyncio.create_task(self._watch())

    def _notice(self, event: tuple[float, Any]) -> None:
        """Track the workers: the scheduler reports each one added or removed."""
        match event[1]:
            case {"action": "add-worker"}:
                self._changed.set()
            case {"action": "remove-worker", "worker": str(address)}:
                self._drop(address, f"the worker {address} is gone")

    async def _watch(self) -> None:
        """Accept new workers, and give up all jobs when the scheduler is gone, because their workers are unknown
        then."""
        waited = 0.0
        while self._client.status == "running":
            if self._changed.is_set() or waited >= _LOOK_S:  # changes before the subscription are not reported
                self._changed.clear()
                waited = 0.0
                with suppress(OSError):
                    await self._look()
                if self._refused and not self._workers:
                    return self._end_all("; ".join(self._refused.values()))
            await asyncio.sleep(_WATCH_S)
            waited += _WATCH_S
        self._end_all("the Dask scheduler is gone")

    async def _look(self) -> None:
        """Compare the known workers with those of the scheduler."""
        known = await self._known()
        for address in (self._workers.keys() | self._refused.keys()) - known.keys():
            self._drop(address, f"the worker {address} is gone")
        new = known.keys() - self._workers.keys() - self._refused.keys()
        await asyncio.gather(*map(self._greet, new))

    async def _known(self) -> dict[str, Any]:
        found: dict[str, Any] = (await self._client.scheduler.identity(n_workers=-1))["workers"]
        return found

    async def _greet(self, address: str) -> None:
        """Accept a worker if it has our version. One that does not answer is asked again."""
        call = self._client.run(on_worker.hello, workers=[address], on_error="return")
        try:
            answer = (await asyncio.wait_for(call, _GREET_S)).get(address)
        except Exception:  # of many kinds: it has gone, or is still starting
            return
        match answer:
            case bytes():
                greeting = decode_json(answer, type=on_worker.Greeting)
            case Exception() if ModuleNotFoundError.__name__ in repr(answer):  # Dask wraps it
                self._refused[address] = f"the worker {address} has no agent-cli {__version__}: {answer}"
                return
            case _:
                return
        if why := on_worker.skew(greeting):
            self._refused[address] = f"the worker {address} on {greeting.host} {why}"
        elif facts := (await self._known()).get(address):
            self._workers[address] = _Worker(address, greeting.worker, facts["nthreads"])
            self._events.put(WorkersChanged())
            self._fill()

    def _drop(self, address: str, why: str) -> None:
        if self._workers.pop(address, None):
            self._events.put(WorkersChanged())
        self._refused.pop(address, None)
        for running in tuple(self._running.values()):
            if isinstance(running, _RemoteJob) and running.worker.address == address:
                running.lose(why)

    def _hear(self, event: tuple[float, Any]) -> None:
        heard = decode_json(event[1], type=Started | Progress)
        if heard.key in self._running:
            self._events.put(heard)

    def _end_all(self, why: str) -> None:
        self._closed_because = self._closed_because or why
        waiting, self._waiting = self._waiting, {}
        for address in tuple(self._workers):
            self._drop(address, why)
        for key in waiting:
            self._events.put(Lost(key, why))

    async def _disconnect(self) -> None:
        if self._watching:
            self._watching.cancel()
        if self._client.status == "running":
            for topic in ("all", self._topic):
                self._client.unsubscribe_topic(topic)
        await self._client.close()
        if self._own:
            await self._own.close()


class _RemoteJob:
    """A job that was sent to a worker."""

    def __init__(self, client: "Client", worker: _Worker, order: on_worker.Order) -> None:
        self.end: asyncio.Future[Finished | Lost] = asyncio.get_running_loop().create_future()
        self.worker = worker
        self._client, self._key = client, order.job.key
        self._future: Future = client.submit(
            on_worker.run,
            msgspec.json.encode(order),
            key=f"{order.job.key}/{os.urandom(4).hex()}",
            pure=False,
            retries=0,
            workers=[worker.address],
            allow_other_workers=False,
        )
        self._task = asyncio.create_task(self._wait())

    async def stop(self, grace_s: float) -> None:
        """Ask the worker to cancel the job, and give the job up if the worker does not answer."""
        try:
            async with asyncio.timeout(grace_s + _ANSWER_S):
                await self._ask_to_stop(grace_s)
                await asyncio.wait({self.end})
        except TimeoutError:
            self.lose(f"the worker {self.worker.address} did not stop it")

    def lose(self, why: str) -> None:
        """Give the job up: its worker is gone, or will notice that nobody waits for it."""
        self._end(Lost(self._key, why))
        self._task.cancel()
        self._future.release()

    async def _ask_to_stop(self, grace_s: float) -> None:
        """Ask until the worker confirms: the job may not have started yet."""
        while not self.end.done():
            asked = self._client.run(
                on_worker.stop, self._future.key, grace_s, workers=[self.worker.address], on_error="return"
            )
            if (await asked).get(self.worker.address) is True:
                return
            await asyncio.wait({self.end}, timeout=0.05)

    async def _wait(self) -> None:
        event: Finished | Lost
        try:
            event = decode_json(await self._future, type=Finished | Lost)
        except asyncio.CancelledError:
            event = Lost(self._key, f"the cluster has dropped it; it was on the worker {self.worker.address}")
        except Exception as error:  # of any kind: the job is over
            event = Lost(self._key, f"the worker {self.worker.address} failed: {_in_short(error)}")
        self._future.release()
        self._end(event)

    def _end(self, event: Finished | Lost) -> None:
        if not self.end.done():
            self.end.set_result(event)


class _OwnCluster(msgspec.Struct, frozen=True):
    """A scheduler and a worker in this process, with a temporary folder."""

    cluster: "LocalCluster"
    folder: "TemporaryDirectory[str]"

    @classmethod
    async def start(cls, slots: int) -> Self:
        """Start scheduler and worker."""
        from tempfile import TemporaryDirectory

        import dask
        from distributed import LocalCluster

        folder = TemporaryDirectory(prefix="agent-dask-")
        with dask.config.set({"temporary-directory": folder.name}):
            cluster = await LocalCluster(
                n_workers=1,
                threads_per_worker=slots,
                processes=False,
                asynchronous=True,
                dashboard_address=_LOOPBACK,
                worker_dashboard_address=_LOOPBACK,
                memory_limit=0,
                silence_logs=_NO_LOGS,
            )
        return cls(cluster, folder)

    async def close(self) -> None:
        """Stop scheduler and worker."""
        await self.cluster.close()
        self.folder.cleanup()


def _address(address: str, scheduler_file: str, insecure: bool) -> str:
    """Return the scheduler's address; empty for one in this process."""
    address = _address_in(Path(scheduler_file)) if scheduler_file else address
    if not address or address.startswith("tls://") or insecure or _is_here(address):
        return address
    raise EngineError(
        f"{address} is on another machine and not encrypted: whoever reaches its port can run commands there. "
        "Use tls:// with certificates, or --insecure-cluster in a network that you trust"
    )


def _address_in(file: Path) -> str:
    try:
        return str(decode_json(file.read_bytes())["address"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise EngineError(f"{file} cannot be read as the file of a Dask scheduler: {error}") from error


def _is_here(address: str) -> bool:
    host = re.sub(r"^(\w+://)?\[?(.*?)\]?(:\d+)?$", r"\2", address)
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _in_short(error: object) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__
