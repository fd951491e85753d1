"""A cluster whose connections are encrypted, and whose members know each other by certificates."""

from pathlib import Path

import pytest
import trustme

from agent_cli.fleet.engines.dask_engine import DaskEngine
from agent_cli.fleet.job import EngineError, Finished

from .attempts import QUICK
from .harness import Heard, job, real_cluster


async def test_jobs_run_over_tls_and_strangers_do_not_connect(tmp_path: Path) -> None:
    import dask
    import distributed  # noqa: F401  # its defaults must be there before they are changed

    authority = trustme.CA()
    ca, pair = tmp_path / "ca.pem", tmp_path / "pair.pem"
    authority.cert_pem.write_to_path(ca)
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(pair)
    options = ("--tls-ca-file", str(ca), "--tls-cert", str(pair), "--tls-key", str(pair))
    (tmp_path / "cluster").mkdir()
    settings = {
        "distributed.comm.tls.ca-file": str(ca),
        "distributed.comm.tls.client.cert": str(pair),
        "distributed.comm.tls.client.key": str(pair),
    }
    with real_cluster(tmp_path / "cluster", *options) as cluster:
        cluster.worker(slots=1)
        with dask.config.set(settings):
            engine = await cluster.connected(slots=1)
            heard = Heard(engine)
            await engine.submit(job("a"))
            assert isinstance(await heard.end_of("b/a/1"), Finished)
            await engine.close(0)
        with pytest.raises(EngineError, match="no Dask scheduler answers at tls://"):
            await DaskEngine.connect(scheduler_file=str(cluster.file), attempt=QUICK)
