"""Tests of a run over TLS: scheduler, worker and client show certificates, and a client without one is refused."""

import re
import subprocess

import pytest

pytestmark = pytest.mark.slow


def test_a_run_over_tls(pendulum, tmp_path, started):
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    new = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=127.0.0.1 -addext subjectAltName=IP:127.0.0.1"
    subprocess.run([*new.split(), "-keyout", key, "-out", cert], check=True, capture_output=True)
    files = ("--tls-ca-file", cert, "--tls-cert", cert, "--tls-key", key)
    here = ("--host", "tls://127.0.0.1", "--no-dashboard", *files)
    scheduler = started("-m", "dask", "scheduler", "--port", "0", *here)
    address = next(match[1] for line in scheduler.stderr if (match := re.search(rb"Scheduler at: +(\S+)", line)))
    assert address.startswith(b"tls://")
    started("-m", "dask", "worker", address.decode(), "--nthreads", "1", "--no-dashboard", *files)
    run = ("-m", "experiments", "study", "run", pendulum, "--lengths", "1,2", "--scheduler")
    tls = ("--tls-ca", cert, "--tls-cert", cert, "--tls-key", key)
    process = started(*run, address.decode(), *tls, "--out", tmp_path / "out")
    out, err = process.communicate()
    assert process.returncode == 0, err.decode()
    assert b"from 8 of 8 cells" in out
    plain = started(*run, address.decode().replace("tls://", "tcp://"), "--out", tmp_path / "plain")
    _, err = plain.communicate()
    assert plain.returncode == 2 and b"error: no Dask scheduler answers" in err
