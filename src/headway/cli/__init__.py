"""The command line: parsing and printing only."""

import os
import signal
import sys
import threading
from types import FrameType

STOPPED = 130
asked = threading.Event()  # has a person pressed Ctrl-C?


def main() -> None:
    """Run the command; Ctrl-C is one sentence, at any time: the imports are in here as well."""
    try:
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not under nohup
            signal.signal(signal.SIGINT, interrupt)
        from headway.cli.app import run

        code = run()
    except KeyboardInterrupt:
        code = STOPPED
    except Exception:  # a compilation that is cut short may end in any error of Numba's
        if not asked.is_set():
            raise
        code = STOPPED
    if code == STOPPED:  # typer makes it of Ctrl-C, without a word
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second one has nothing left to stop
        sys.stderr.write("headway: stopped\n")
    sys.exit(code)


def interrupt(signum: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt, but not while LLVM compiles: its callbacks swallow what is raised
    in them, and the compilation then fails in ways of its own. Try again a little later.
    """
    asked.set()
    while frame is not None:
        if "llvmlite" in frame.f_code.co_filename:
            later = threading.Timer(0.02, os.kill, (os.getpid(), signum))
            later.daemon = True
            later.start()
            return
        frame = frame.f_back
    raise KeyboardInterrupt
