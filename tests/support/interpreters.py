"""Interpreters of their own for scripts that may crash, hang or grow.

`run_python` starts a fresh one. Most of its second goes into importing scikit-learn: `run_warm` asks one that has done so,
and nothing else, to fork. A script finds what is there after `import polymargin, sklearn.svm`; one that is about imports
needs a fresh interpreter.
"""

import atexit
import functools
import json
import os
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

_SERVER = r"""
import json, os, sys, time, types

import numpy, scipy.sparse, sklearn.svm
import polymargin.estimators
polymargin.estimators.machines()


def as_script(code, arguments):
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    sys.argv = ["-c", *arguments]
    exec(compile(code, "<script>", "exec"), vars(main))


def forked(code, arguments, output, timeout):
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.setsid()  # so that what the script itself starts ends with it
            files = [os.open(os.devnull, os.O_RDONLY)]
            files += [os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600) for name in output]
            for place, file in enumerate(files):
                os.dup2(file, place)
            as_script(code, arguments)
            status = 0
        except SystemExit as left:
            status = left.code if isinstance(left.code, int) else 0 if left.code is None else 1
        except BaseException:
            import traceback
            traceback.print_exc()
        finally:
            try:
                sys.stdout.flush()
                sys.stderr.flush()
            finally:
                os._exit(status)
    deadline = time.monotonic() + timeout
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > deadline:
            os.killpg(child, 9)
            os.waitpid(child, 0)
            return "timeout"
        time.sleep(0.005)


for line in sys.stdin:
    print(json.dumps(forked(**json.loads(line))), flush=True)
"""


def run_python(code: str, *arguments: str, timeout: float = 120.0) -> str:
    """Run a script in a fresh interpreter; returns what it printed."""
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *arguments],
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    assert result.returncode == 0, f"exit code {result.returncode}\n{result.stdout}\n{result.stderr}"
    return result.stdout


@functools.cache
def _server() -> subprocess.Popen[str]:
    server = subprocess.Popen([sys.executable, "-c", _SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    atexit.register(server.communicate)  # no more tasks: it ends
    return server


def run_warm(code: str, *arguments: str, timeout: float = 120.0) -> str:
    """The same in a fork of an interpreter that has imported the package; a fresh one where systems cannot fork."""
    if not hasattr(os, "fork"):
        return run_python(code, *arguments, timeout=timeout)
    with tempfile.TemporaryDirectory() as folder:
        output = [os.path.join(folder, name) for name in ("stdout", "stderr")]
        task = {"code": textwrap.dedent(code), "arguments": arguments, "output": output, "timeout": timeout}
        server = _server()
        server.stdin.write(json.dumps(task) + "\n")
        server.stdin.flush()
        status = json.loads(server.stdout.readline())
        printed, complaints = (Path(name).read_text("utf-8") for name in output)
    assert status == 0, f"exit code {status}\n{printed}\n{complaints}"
    return printed
