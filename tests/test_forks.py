"""Processes that are forked while threads work: real forks, in an interpreter of their own, with an alarm for what hangs."""

import os

import pytest

from tests.factories import python

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")

FORKED = """
import os, signal, threading
os.environ["OPENBLAS_NUM_THREADS"] = "2"
import numpy as np
import slalom

inside, leave, parent = threading.Event(), threading.Event(), os.getpid()

def forked(work):
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        try:
            assert work()
            os._exit(0)
        finally:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

def meanwhile(function, *arguments):
    thread = threading.Thread(target=function, args=arguments, daemon=True)
    thread.start()
    assert inside.wait(60)
    return thread

def pause():
    if os.getpid() == parent:
        inside.set()
        leave.wait()
"""


def run(folder, code):
    done = python(folder, FORKED + code)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_a_forked_process_explains_while_a_thread_of_its_parent_does(tmp_path):
    code = """
def model(texts):
    if any("wait" in text for text in texts):
        pause()
    return [float(text.count("good")) for text in texts]

explainer = slalom.Explainer(model, output="log_odds", queries=30, progress=False)
expected = explainer("a good film").removal
thread = meanwhile(explainer, "please wait for a good end")
print(forked(lambda: (explainer("a good film").removal == expected).all() and explainer("wait, good").score == 1.0))
leave.set()
thread.join()
print(explainer("a good film").score)
"""
    assert run(tmp_path, code) == ["0", "1.0"]


def test_forked_processes_use_cache_files_while_threads_do(tmp_path):
    code = """
from slalom.models.store import AnswerStore

def saved(name):
    keys = [bytes([i]) for i in range(200)]
    with AnswerStore(FOLDER / name, "model") as store:
        store.save(keys, np.ones((200, 2)))
        return len(store.load(keys, 2)) == 200

def work(name):
    while not leave.is_set():
        saved(name)
        inside.set()

threads = [meanwhile(work, f"{i}.sqlite") for i in range(3)]
print(*(forked(lambda: saved("child.sqlite")) for _ in range(8)))
leave.set()
"""
    assert run(tmp_path, f"from pathlib import Path\nFOLDER = Path({str(tmp_path)!r})\n{code}") == ["0"] * 8
