"""A run on S3: a real server of it on this machine, real HTTP, and pyarrow's client.

The server is `moto_server` of "moto[server]", too large (over 100 MB) for the requirements of the tests; they run where it is
on the path, in an environment of its own:

    python -m venv s3 && s3/bin/pip install "moto[server]" && PATH=$PWD/s3/bin:$PATH pytest tests/corpus/test_s3.py
"""

import shutil
import socket
import subprocess
import time

import pytest

from slalom import corpus
from slalom.corpus.folder import Folder
from slalom.errors import InputError
from tests.corpus.models import explainer, rows, score
from tests.corpus.test_run import texts, write

fs = pytest.importorskip("pyarrow.fs")
pq = pytest.importorskip("pyarrow.parquet")


@pytest.fixture(scope="module")
def bucket():
    """The options of an address of a server that is there for this module, behind the name of a bucket."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    if (
        shutil.which("moto_server") is None
        or subprocess.run(["moto_server", "-h"], check=False, capture_output=True).returncode
    ):
        pytest.skip("needs the command moto_server, of moto[server], on the path")
    command = ["moto_server", "-H", "127.0.0.1", "-p", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _answers(port, server)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("AWS_ACCESS_KEY_ID", "key")
            patch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
            yield f"?scheme=http&endpoint_override=127.0.0.1:{port}&region=us-east-1&allow_bucket_creation=true"
    finally:
        server.kill()
        server.wait()


def _answers(port, server):
    began = time.monotonic()
    while time.monotonic() - began < 60.0 and server.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1.0).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise AssertionError("the server does not answer")


def test_a_table_on_s3_is_the_local_one_and_goes_on(tmp_path, bucket):
    source, out = write(tmp_path / "reviews.jsonl", texts(12)), f"s3://corpora/run{bucket}"
    corpus.run(source, tmp_path / "out", explainer(score), part_size=4)
    corpus.run(source, out, explainer(score), part_size=4)
    assert rows(out) == rows(tmp_path / "out")
    found = corpus.open(out)
    assert found.parts == [f"s3://corpora/run/parts/00000{k}.parquet{bucket}" for k in range(3)]
    files, path = fs.FileSystem.from_uri(found.parts[0])
    assert pq.read_table(path, filesystem=files).num_rows == 4
    assert corpus.status(out).complete
    Folder(out).remove("parts/000001.parquet")
    assert not corpus.status(out).complete
    corpus.run(source, out, explainer(score), part_size=4)
    assert rows(out) == rows(tmp_path / "out")
    Folder(out).write("parts/000002.parquet", Folder(out).read("parts/000001.parquet"))
    assert corpus.status(out).damaged == ("parts/000002.parquet",)
    with pytest.warns(UserWarning, match=r"damaged, and explained again: parts/000002\.parquet"):
        corpus.run(source, out, explainer(score), part_size=4)
    assert rows(out) == rows(tmp_path / "out")
    with pytest.raises(InputError, match="part_size was 4, is 3"):
        corpus.run(source, out, explainer(score), part_size=3)
