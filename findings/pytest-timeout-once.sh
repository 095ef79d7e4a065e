#!/usr/bin/env bash
# pytest-timeout 2.4.0 with pytest 9.2.0 and hypothesis 6.170.17 (timeouts by signal, as on Linux).
#
# A test has a limit of one second. It has three subtests of three seconds each; or it is a property, and
# hypothesis gives it examples that take three seconds. Expected: the test ends after about a second and
# fails, as a test without subtests and properties. Seen: the limit is used up by its first failure. That
# ends the first subtest alone, and the others run for as long as they like and pass: seven seconds. Or
# hypothesis takes it for the failure of an example, runs the example again and looks for smaller ones, now
# without a limit, and reports a flaky test: 19 seconds here. So a second subtest that hangs, or an example
# that does, holds up the whole run, which is what the limit is for.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/python -m pip install -q pytest==9.2.0 pytest-timeout==2.4.0 hypothesis==6.170.17 2>/dev/null

cat > conftest.py <<'PY'
import time

import pytest


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    started = time.monotonic()
    try:
        return (yield)
    finally:
        with open("seconds.txt", "a") as file:
            print(item.name, int(time.monotonic() - started), file=file)
PY
cat > test_slow.py <<'PY'
import time

from hypothesis import given, settings
from hypothesis import strategies as st


def test_plain():
    for _ in range(3):
        time.sleep(3)


def test_subtests(subtests):
    for number in range(3):
        with subtests.test(number=number):
            time.sleep(3)


@settings(deadline=None, database=None)
@given(st.integers(0, 1000))
def test_property(number):
    if number > 100:
        time.sleep(3)
PY
venv/bin/python -m pytest -q -p no:cacheprovider --timeout=1 test_slow.py > output.txt || true
cat seconds.txt
tail -1 output.txt
plain=$(awk '$1 == "test_plain" {print $2}' seconds.txt)
subtests=$(awk '$1 == "test_subtests" {print $2}' seconds.txt)
property=$(awk '$1 == "test_property" {print $2}' seconds.txt)
changed() { echo "This has changed: $1; it was: a second, 7, and over 9 with a flaky failure"; exit 1; }
[ "$plain" -le 2 ] || changed "the test without subtests took $plain seconds"
[ "$subtests" -ge 7 ] || changed "the subtests took $subtests seconds"
[ "$property" -ge 9 ] || changed "the property took $property seconds"
grep -q "2 subtests passed" output.txt || changed "two subtests passed no more"
grep -q FlakyFailure output.txt || changed "the property was not flaky"
