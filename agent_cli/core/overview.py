"""The facts a status line and `/status` show, computed once for each change of the conversation."""

from collections.abc import Callable

import msgspec

from ..model.base import ModelInfo
from ..protocol.client import Snapshot
from ..tools.job_table import Jobs
from . import history, ledger
from .meter import Meter
from .models import Models
from .session import Session
from .spending import Spending


class Overview:
    """Takes snapshots of one session. Asked many times a second while something is painted."""

    def __init__(
        self,
        session: Session,
        models: Models,
        meter: Meter,
        spending: Spending,
        *,
        cwd: str,
        sandbox: Callable[[], str],
        session_path: str,
        jobs: Jobs,
    ) -> None:
        self._session = session
        self._models = models
        self._meter = meter
        self._spending = spending
        self._cwd = cwd
        self._sandbox = sandbox
        self._session_path = session_path
        self._jobs = jobs
        self._pictured: tuple[tuple[int, ModelInfo, int | None], Snapshot] | None = None

    def snapshot(self, *, busy: bool, queued: tuple[str, ...]) -> Snapshot:
        """The state right now. What depends on the conversation is computed again only when it changed."""
        state = (len(self._session.records), self._models.model.info, self._meter.window())
        if self._pictured is None or self._pictured[0] != state:
            self._pictured = (state, self._picture())
        picture = self._pictured[1]
        open_calls = 0 if busy else picture.open_calls
        jobs = self._jobs.states()
        return msgspec.structs.replace(
            picture, busy=busy, queued=queued, open_calls=open_calls, jobs=jobs, sandbox=self._sandbox()
        )

    def _picture(self) -> Snapshot:
        model, mode, effort = self._session.settings()
        records = self._session.records
        return Snapshot(
            session_id=self._session.header.session_id,
            title=self._session.title(),
            session_path=self._session_path,
            cwd=self._cwd,
            model=model,
            standing_in=self._standing_in(),
            mode=mode,
            effort=effort,
            sandbox=self._sandbox(),
            busy=False,
            queued=(),
            open_calls=len(history.open_calls(records)),
            context_tokens=self._meter.tokens(),
            context_window=self._meter.window(),
            context_parts=self._meter.parts(),
            context_source=self._meter.source(),
            totals=self._session.totals,
            costs=ledger.cost_lines(records),
            spent_today_usd=self._spending.today_usd(),
            cached_share=ledger.cached_share(records),
            plan=history.current_plan(records),
            jobs=(),
            turns=len({message.turn_id for message in self._session.prompts()}),
            last_answer=self._session.last_answer(),
        )

    def _standing_in(self) -> str:
        name = self._models.model.info.name
        return name if name != self._models.chosen.info.name else ""
