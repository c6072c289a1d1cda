#!/bin/sh
# `firn run` prints the output of its job and has its status; with -it the job has
# a terminal: keys, window size, Ctrl-C, detaching, attaching again.
. tests/lib/firnd.sh
only local "a terminal is on the host of the job"
command -v python3 >/dev/null || skip "there is no python3 for a terminal"
up --gpus 1x2:v100@16 --policy fifo
export FIRN_SOCKET="$socket"

"$FIRN" run --gpus 2 -- sh -c 'echo hello; exit 3' >"$tmp/out" 2>"$tmp/run"
[ $? = 3 ] || fail "firn run does not exit with the status of its job"
grep -qx hello "$tmp/out" || fail "firn run does not print the output"
"$FIRN" attach 1 >"$tmp/out" 2>&1 && fail "a job without a terminal is attached"
out_has "has no terminal"

# A terminal of 33 rows and 77 columns; answers are read up to a pattern.
cat >"$tmp/terminal.py" <<'END'
import fcntl, os, pty, re, select, signal, struct, sys, termios, time

firn = sys.argv[1]


class Terminal:
    def __init__(self, *command):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execv(firn, [firn, *command])
        size = struct.pack("HHHH", 33, 77, 0, 0)
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, size)
        self.text = b""

    def expect(self, pattern):
        end = time.monotonic() + 120
        while not (found := re.search(pattern, self.text)):
            if not select.select([self.fd], [], [], end - time.monotonic())[0]:
                sys.exit(f"no {pattern!r} in {self.text!r}")
            try:
                self.text += os.read(self.fd, 4096)
            except OSError:
                sys.exit(f"ended without {pattern!r}: {self.text!r}")
        self.text = self.text[found.end():]
        return found

    def type(self, keys):
        os.write(self.fd, keys)

    def status(self):
        while True:
            try:
                if not os.read(self.fd, 4096):
                    break
            except OSError:
                break
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


shell = Terminal("run", "-it", "--name", "shell", "--", "sh")
shell.expect(rb"[$#] ")
shell.type(b"stty size; tty; echo gpus=$CUDA_VISIBLE_DEVICES rank=$RANK\n")
shell.expect(rb"33 77\r\n")
shell.expect(rb"/dev/pts/\d+\r\n")
shell.expect(rb"gpus=[01] rank=0\r\n")
shell.type(b"sh -c 'echo be\"\"gun; exec sleep 1000'\n")
shell.expect(rb"begun\r\n")
shell.type(b"\x03")  # ends sleep, not firn
shell.expect(rb"[$#] ")
fcntl.ioctl(shell.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 20, 50, 0, 0))
os.kill(shell.pid, signal.SIGWINCH)
for _ in range(100):  # the new size comes some time later
    shell.type(b"stty size\n")
    if shell.expect(rb"(\d+ \d+)\r\n").group(1) == b"20 50":
        break
else:
    sys.exit("the job never learns the new size")
shell.type(b'mark=kept; echo la""st words\n')
shell.expect(rb"last words\r\n")
shell.type(b"\x10\x11")
shell.expect(rb"detached; job \d+ goes on")
assert shell.status() == 0
again = Terminal("attach", "shell")
again.expect(rb"last words")  # what was there before
again.type(b"echo mark=$mark; exit 7\n")
again.expect(rb"mark=kept\r\n")
code = again.status()
assert code == 7, code
END
# A command that ends at once: its output and status come all the same.
cat >>"$tmp/terminal.py" <<'END'
brief = Terminal("run", "-it", "--", "sh", "-c", "echo brief words; exit 5")
brief.expect(rb"brief words\r\n")
code = brief.status()
assert code == 5, code
END
timeout 240 python3 "$tmp/terminal.py" "$FIRN" 2>"$tmp/why" ||
    fail "a terminal: $(cat "$tmp/why")"
"$FIRN" wait shell 2>/dev/null
[ $? = 7 ] || fail "the job has not the status of its shell"
"$FIRN" logs shell >"$tmp/out" || fail "no log"
out_has "last words"
path=$(api GET /jobs/shell | sed -n 's/.*"\(\/tmp\/firn-tty-[0-9a-f]*\)".*/\1/p' | head -n 1)
[ -n "$path" ] && [ ! -e "$path" ] || fail "the socket '$path' is left behind"

# A stranger's socket is not talked to: the name of a socket must be firn's own.
"$FIRN" attach --serve /tmp/x -- true >"$tmp/out" 2>&1 && fail "any path is taken"
out_has "not a path"
down
