"""Parent process of a shell, which adopts every orphan of the shell.

Linux gives an orphan to the nearest ancestor that is a "child subreaper". So all processes from a
shell stay below this process, and can be found. A library must not make the user's process a
subreaper, which would adopt other orphans too, so each shell has a separate process.

It is started as a script, imports nothing of this package, and takes a descriptor, the path of the
shell, and the shell's arguments from `argv[0]` on.
The process writes a line with the shell's process id to the descriptor, and a line with the exit
code when the shell has ended. Then it waits to be killed.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def main() -> None:
    """Run the shell in a new session, and reap its orphans."""
    report, program, argv = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
    os.set_inheritable(report, False)
    prctl = ctypes.CDLL(None).prctl
    prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    # For bubblewrap, `--die-with-parent` means this process, which has to end with its parent.
    prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    shell = os.fork()
    if not shell:
        os.setsid()
        for number in (signal.SIGPIPE, signal.SIGXFSZ):  # ignored by Python, and across exec
            signal.signal(number, signal.SIG_DFL)
        try:
            os.execv(program, argv)
        except OSError as error:
            os.write(2, f"{program}: {error.strerror}".encode())
            os._exit(127)
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3):  # only the shell's copies of the pipes stay open
        os.dup2(null, descriptor)
    os.write(report, b"%d\n" % shell)  # fails if the parent has ended before it was watched

    # The shell itself is not reaped: so no other process gets its id, the id of its group.
    while True:
        child = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
        assert child is not None  # it would be with WNOHANG
        if child.si_pid == shell:
            break
        os.waitpid(child.si_pid, 0)
    code = child.si_status if child.si_code == os.CLD_EXITED else -child.si_status
    os.write(report, b"%d\n" % code)
    while True:
        signal.pause()


if __name__ == "__main__":
    main()
