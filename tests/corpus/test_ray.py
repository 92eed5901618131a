"""A run on a real Ray cluster of two nodes: an actor, a node and the driver are killed, and the table stays the same."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from uuid import uuid4

import pytest

from slalom import corpus
from slalom.errors import InputError
from tests.corpus.models import explainer, rows, score, written
from tests.corpus.test_run import ROOT, texts, write
from tests.waiting import until

pytest.importorskip("ray")
TEXTS, SIZE = 48, 4


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def processes(*words):
    """The processes whose command line has all words."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            line = (entry / "cmdline").read_bytes().decode(errors="replace") if entry.name.isdecimal() else ""
        except OSError:
            continue
        if line and all(word in line for word in words):
            found.append(int(entry.name))
    return found


def kill(pids):
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


class Cluster:
    """Two nodes with one core each, in a folder of their own."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="ray-")  # a short path: sockets have names of 107 characters at most
        self.address = f"127.0.0.1:{free_port()}"
        self.environment = {**os.environ, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": uuid4().hex}
        try:
            self._start_nodes()
        except BaseException:
            self.stop()
            raise

    def _start_nodes(self):
        self.start("--head", f"--port={self.address.rpartition(':')[2]}", "--include-dashboard=false")
        self.first = self.raylets()
        self.start(f"--address={self.address}")
        self.second = [pid for pid in self.raylets() if pid not in self.first]

    def start(self, *options):
        quick = {"RAY_health_check_period_ms": "1000", "RAY_health_check_failure_threshold": "5"}
        command = [str(Path(sys.executable).with_name("ray")), "start", *options, "--num-cpus=1", "--num-gpus=0"]
        command += [
            f"--temp-dir={self.folder}",
            "--object-store-memory=80000000",
            "--disable-usage-stats",
            "--node-ip-address=127.0.0.1",
        ]
        subprocess.run(command, env={**self.environment, **quick}, check=True, capture_output=True, timeout=300)

    def raylets(self):
        return processes("raylet/raylet", self.folder)

    def run(self, *arguments, stderr=None):
        """Start a run in another process."""
        command = [sys.executable, "-m", "tests.corpus.models", *map(str, arguments), f"ray={self.address}"]
        return subprocess.Popen(command, cwd=ROOT, env=self.environment, stderr=stderr)

    def stop(self):
        kill(processes(self.folder))
        shutil.rmtree(self.folder, ignore_errors=True)


@pytest.fixture(scope="module")
def cluster():
    started = Cluster()
    yield started
    started.stop()


def test_an_actor_a_node_and_the_driver_are_killed_and_the_table_is_the_same(tmp_path, cluster):
    source, out, trace = write(tmp_path / "reviews.jsonl", texts(TEXTS)), tmp_path / "out", tmp_path / "trace"
    trace.mkdir()

    def allow(parts):
        """Let actors go on until the table has so many parts."""
        (tmp_path / "new").write_text(str(parts))
        (tmp_path / "new").rename(tmp_path / "most")

    allow(0)
    corpus.run(source, tmp_path / "undisturbed", explainer(score), part_size=SIZE)

    def seen():
        """Process and node of every actor that has computed something."""
        return {tuple(path.name.split("-")) for path in trace.iterdir()}

    arguments = source, out, "traced", f"part_size={SIZE}"
    driver = cluster.run(*arguments)
    until(lambda: len({node for _, node in seen()}) == 2, process=driver)  # both nodes work
    before = seen()
    kill([int(min(before)[0])])
    until(lambda: len(seen() - before) >= 1, process=driver)  # another actor has taken its place
    kill(cluster.second)
    allow(3)
    until(lambda: written(tmp_path) >= 3, process=driver)  # the other node goes on
    driver.kill()
    driver.wait()
    assert 3 <= written(tmp_path) < TEXTS // SIZE
    allow(TEXTS)
    assert cluster.run(*arguments).wait(180) == 0
    assert rows(out) == rows(tmp_path / "undisturbed")
    assert corpus.status(out).complete


def test_a_model_that_goes_away_ends_a_run_on_a_cluster(tmp_path, cluster):
    source = write(tmp_path / "reviews.jsonl", [f"{text} leaf" if i == 5 else text for i, text in enumerate(texts(12))])
    ended = cluster.run(source, tmp_path / "out", "down", "part_size=12", "max_failures=4", stderr=subprocess.PIPE)
    said = ended.communicate(timeout=180)[1].decode().splitlines()[-1]
    assert ended.returncode == 1
    assert re.fullmatch(r".*ModelError: the last 4 texts failed alike: .*refused.*run the same command again.*", said)
    assert len((tmp_path / "refused").read_text()) < 20  # of two actors at most


def test_a_cluster_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(
        InputError, match=r"there must be a Ray cluster at '127\.0\.0\.1:\d+' .*; start one with ray start --head"
    ):
        corpus.run(["good"], tmp_path / "out", explainer(score), ray=f"127.0.0.1:{free_port()}")
