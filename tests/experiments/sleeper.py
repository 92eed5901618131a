"""A part that takes longer than any test: it notes the number of its process and sleeps."""

import os
import time
from pathlib import Path


def sleep(lab, folder):
    note = Path(folder) / "new"
    note.write_text(str(os.getpid()))
    note.rename(Path(folder) / "pid")
    time.sleep(600)
