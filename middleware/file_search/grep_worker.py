"""Worker process that finds the lines of texts with a match of a regular expression.

Python's expressions may backtrack forever, and nothing inside a process can stop them; a process
can be killed.

Messages are pickled. Input: the pattern, then texts as bytes. Output for the pattern: an error
message, empty without an error; for each text: the number of matching lines, and the line numbers
of the first of them. It is started as a script, and imports nothing of this package.
"""

import pickle
import re
import sys
import warnings

MAX_NUMBERS = 1_000  # line numbers for one text; a result never shows more


def main() -> None:
    """Answer messages until the input ends."""
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    warnings.simplefilter("ignore")  # about expressions whose meaning will change some day
    try:
        search = re.compile(pickle.load(source)).search
    except (re.error, RecursionError, OverflowError) as error:
        pickle.dump(str(error) or "too large", sink)
        return
    answer: object = ""
    while True:
        pickle.dump(answer, sink)
        sink.flush()
        try:
            content = pickle.load(source)
        except EOFError:
            return
        # Lines end at newlines only, as for ripgrep.
        lines = content.decode("utf-8", "surrogateescape").split("\n")
        if not lines[-1]:
            lines.pop()
        hits = [number for number, line in enumerate(lines, 1) if search(line)]
        answer = len(hits), hits[:MAX_NUMBERS]


if __name__ == "__main__":
    main()
