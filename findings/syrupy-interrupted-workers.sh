#!/usr/bin/env bash
# syrupy 7.0.2 with pytest-xdist 3.8.0 and pytest 9.2.0, `filterwarnings = error`.
#
# Ctrl-C (SIGINT) ends a run of several workers whose tests have failed. Expected: pytest prints the
# failures and its summary, as it does without syrupy. Seen: syrupy warns at the end of the session
# that no worker has reported its snapshots; the filter makes the warning an error inside
# `pytest_sessionfinish`, and a traceback takes the place of all failures. No test uses a snapshot:
# to have the plugin installed is enough. With the warning ignored, the failures are printed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/python -m pip install -q pytest==9.2.0 pytest-xdist==3.8.0 syrupy==7.0.2 2>/dev/null

cat > test_it.py <<'PY'
import pathlib
import time

import pytest


@pytest.mark.parametrize("number", range(4))
def test_fails(number):
    assert number < 0, "the failure that a person wants to read"


@pytest.mark.parametrize("number", range(200))
def test_takes_long(number):
    pathlib.Path("begun").touch()
    time.sleep(0.5)
PY

interrupted() {  # run the tests, and interrupt them once the long ones have begun
    rm -f begun
    venv/bin/python -c '
import pathlib, signal, subprocess, sys, time
process = subprocess.Popen([sys.executable, "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider", *sys.argv[1:]],
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
while not pathlib.Path("begun").exists():
    time.sleep(0.05)
time.sleep(2)
process.send_signal(signal.SIGINT)
print(process.communicate()[0])' "$@"
}

interrupted -o filterwarnings=error > error.txt
interrupted -o $'filterwarnings=error\nignore:syrupy. received:UserWarning' > ignored.txt

grep -q "received 0 of 2 xdist worker snapshot reports" error.txt || { echo "CHANGED: no warning of syrupy"; exit 1; }
if grep -q "short test summary info" error.txt; then echo "CHANGED: the failures are printed"; exit 1; fi
grep -q "short test summary info" ignored.txt || { echo "CHANGED: no summary without the error"; exit 1; }
echo "Seen as described: pytest 9.2.0, pytest-xdist 3.8.0, syrupy 7.0.2."
