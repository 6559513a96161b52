"""Options that name a Dask cluster, for the commands that can use a cluster."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from experiments.console.blocks import BAD_INPUT

if TYPE_CHECKING:
    from distributed import Client

    from experiments.studies.running.dask_cluster import Cluster

Scheduler = Annotated[
    str | None, typer.Option(help="run on a Dask cluster: its address, tcp://HOST:PORT or tls://HOST:PORT")
]
TlsCa = Annotated[str | None, typer.Option(help="the cluster's certificate authority, a .pem file")]
TlsCert = Annotated[str | None, typer.Option(help="this client's certificate, a .pem file")]
TlsKey = Annotated[str | None, typer.Option(help="this client's key, a .pem file")]


def chosen_cluster(
    scheduler: str | None, tls_ca: str | None, tls_cert: str | None, tls_key: str | None
) -> "Cluster | None":
    """The cluster that these options name, or None without an address.

    Raises:
        ValueError: TLS files are given without an address; or as `Cluster`.
    """
    if scheduler is None:
        if tls_ca or tls_cert or tls_key:
            raise ValueError("--tls-ca, --tls-cert and --tls-key go with --scheduler tls://HOST:PORT")
        return None
    from experiments.studies.running.dask_cluster import Cluster

    return Cluster(scheduler, tls_ca, tls_cert, tls_key)


@contextmanager
def client_of(cluster: "Cluster | None", kept: Callable[[], str]) -> Iterator["Client | None"]:
    """A client of the cluster, or None without a cluster.

    If the cluster is lost during the block, the program ends with the sentence `kept`.
    """
    if cluster is None:
        yield None
        return
    from experiments.studies.running.measuring import RunStopped
    from ntkfl.gram.remote_tiles import ClusterStopped

    try:
        with cluster.client() as client:
            yield client
    except (RunStopped, ClusterStopped) as error:
        typer.echo(f"error: {error}\n{kept()}", err=True)
        raise typer.Exit(BAD_INPUT) from None
