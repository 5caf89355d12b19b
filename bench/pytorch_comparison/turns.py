"""Programs that train on demand, driven in turns.

Such a program answers lines of its standard input, each a number of steps, with a line of JSON on
its standard output: "steps", "seconds" and what else it measured; its first line, before any
input, says that it is ready. One that fails is put down as failed, with what it said, and the
others go on.
"""

import json
import os
import re
import select
import subprocess
import tempfile
import time

# What programs say whose memory, or that of a library they call, is not enough.
_OUT_OF_MEMORY = re.compile(r"out of memory|OUT_OF_MEMORY|ALLOC_FAILED")
# At most so many steps more until a program is warm: by their number some compute inputs ahead.
MOST_WARMUP_STEPS = 10


class Failure(Exception):
    """A program's end before it answered, with what it said last."""

    def __init__(self, text):
        super().__init__(text)
        self.out_of_memory = bool(_OUT_OF_MEMORY.search(text))


class NoTimeLeft(Exception):
    pass


class Clock:
    """Seconds that are left of `total`; 0 is no limit."""

    def __init__(self, total=0, now=time.monotonic):
        self.now, self.end = now, now() + total if total else None

    def left(self):
        return None if self.end is None else self.end - self.now()

    def is_over(self):
        return self.end is not None and self.left() <= 0


class Program:
    """A running one, pinned to cores where such are given."""

    def __init__(self, name, command, cores, folder, clock):
        self.name, self.clock = name, clock
        environment, pinned = dict(os.environ), []
        if cores:
            environment["OMP_NUM_THREADS"] = str(len(cores))
            pinned = ["taskset", "-c", ",".join(map(str, cores))]
        self.rest = b""  # that it has said after its last whole line
        self.messages = tempfile.TemporaryFile("w+b")
        self.process = subprocess.Popen(pinned + command, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=self.messages, bufsize=0,
                                        env=environment, cwd=folder)

    def answer(self):
        """Its next line that is JSON: libraries print lines of their own."""
        while True:
            line = self._line()
            if not line.lstrip().startswith(b"{"):
                os.write(self.messages.fileno(), line)
                continue
            try:
                return json.loads(line)
            except ValueError:
                raise Failure(f"{self.name} answered {line[:200]!r}") from None

    def train(self, steps):
        try:
            self.process.stdin.write(f"{steps}\n".encode())
        except BrokenPipeError:
            pass  # it has ended: answer() says of what
        return self.answer()

    def end(self):
        """Lets it end by itself; what it said of work that was not done as it should be."""
        self.process.stdin.close()
        try:
            self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        notes = [line.strip() for line in self._said().splitlines() if line.startswith("Note:")]
        self._close()
        return notes

    def kill(self):
        self.process.kill()
        self.process.wait()
        self._close()

    def _close(self):
        for file in (self.process.stdin, self.process.stdout, self.messages):
            file.close()

    def _line(self):
        output = self.process.stdout.fileno()
        while b"\n" not in self.rest:
            if self.clock.is_over():
                raise NoTimeLeft
            if not select.select([output], [], [], self.clock.left())[0]:
                raise NoTimeLeft
            more = os.read(output, 1 << 16)
            if not more:
                code = self.process.wait()
                raise Failure(f"{self._said()[-3000:].strip()}\n{self.name} ended with code {code}")
            self.rest += more
        line, _, self.rest = self.rest.partition(b"\n")
        return line + b"\n"

    def _said(self):
        self.messages.seek(0)
        return self.messages.read().decode(errors="replace")


class Measured:
    """What is known of a program. `command` gives its words by the number of pieces that it shall
    divide a step's batch into."""

    def __init__(self, name, command, cores=()):
        self.name, self.command, self.cores = name, command, cores
        self.pieces = 1
        self.about = {}    # what it said when it was ready
        self.first = None  # the answer of its first steps
        self.turns = []    # those that count
        self.failed = ""   # of what it ended
        self.skipped = ""  # why it was not measured, or not to the end

    def median(self, key):
        """Of the turns' `key` a step; None without turns."""
        values = sorted(turn[key] / turn["steps"] for turn in self.turns)
        half = len(values) // 2
        return (values[half] + values[~half]) / 2 if values else None


class Schedule:
    """How often to measure: `repeats` times, in each start of a program so many turns of so many
    steps, after `warmup_steps`, whose answer is kept, and further ones for some seconds."""

    def __init__(self, repeats, turns_a_start, steps, warmup_steps, warmup_seconds=0, most_pieces=1,
                 clock=None):
        self.repeats, self.turns_a_start, self.steps = repeats, turns_a_start, steps
        self.warmup_steps, self.warmup_seconds = warmup_steps, warmup_seconds
        self.most_pieces, self.clock = most_pieces, clock or Clock()


class Driver:
    """Measures programs. `on_turn` is called with the one that was measured, after every turn and
    whenever one fails; `state` gives what to keep beside a turn, asked for right after it."""

    def __init__(self, schedule, folder, on_turn=lambda measured: None, state=lambda: None):
        self.schedule, self.folder, self.on_turn, self.state = schedule, folder, on_turn, state

    def one_at_a_time(self, programs, more=lambda: []):
        """Each started anew for its turns. `more` gives further ones when all have been measured
        once."""
        for repeat in range(self.schedule.repeats):
            for measured in programs:
                self._start_and_measure(measured)
            if repeat == 0:
                added = more()
                for measured in added:
                    self._start_and_measure(measured)
                programs = programs + added

    def side_by_side(self, programs):
        """All started, then a turn of each, again and again."""
        running = {}
        try:
            for measured in programs:
                self._guard(measured, lambda: self._start(measured, running))
            for _ in range(self.schedule.repeats):
                for measured in programs:
                    if measured in running:
                        self._guard(measured, lambda: self._turn(measured, running), running)
            for measured in list(running):
                self._end(measured, running)
        finally:
            for program in running.values():
                program.kill()

    def _start_and_measure(self, measured):
        """Again with the batch in twice as many pieces where memory is not enough."""
        while not measured.failed:
            running = {}
            try:
                ended = self._guard(measured, lambda: self._whole_start(measured, running))
            finally:
                for program in running.values():
                    program.kill()
            if ended is None or not ended.out_of_memory:
                return
            if 2 * measured.pieces > self.schedule.most_pieces:
                return
            measured.pieces *= 2
            # Turns of one start in other pieces than another's are not of one kind.
            measured.failed, measured.first, measured.turns = "", None, []
            print(f"{measured.name}: out of memory; again with a step's batch in "
                  f"{measured.pieces} pieces", flush=True)

    def _guard(self, measured, work, running=None):
        """Does it; what fails is put down, and returned."""
        try:
            if self.schedule.clock.is_over():
                raise NoTimeLeft
            work()
            measured.skipped = ""
            return None
        except NoTimeLeft:
            measured.skipped = "no time left"
        except Failure as failure:
            measured.failed = str(failure)
            self._drop(measured, running)
            self.on_turn(measured)
            return failure
        self._drop(measured, running)
        self.on_turn(measured)
        return None

    @staticmethod
    def _drop(measured, running):
        if running and measured in running:
            running.pop(measured).kill()

    def _start(self, measured, running):
        try:
            program = Program(measured.name, measured.command(measured.pieces), measured.cores,
                              self.folder, self.schedule.clock)
        except OSError as error:
            raise Failure(f"{measured.name} does not start: {error}") from None
        running[measured] = program
        about = program.answer()
        first = program.train(self.schedule.warmup_steps)
        measured.about = dict(measured.about, **about)
        measured.first = measured.first or first

    def _turn(self, measured, running):
        answer = running[measured].train(self.schedule.steps)
        answer["state"] = self.state()
        measured.turns.append(answer)
        self.on_turn(measured)

    def _whole_start(self, measured, running):
        self._start(measured, running)
        seconds = 0
        for _ in range(MOST_WARMUP_STEPS if self.schedule.warmup_seconds else 0):
            if seconds < self.schedule.warmup_seconds:
                seconds += running[measured].train(1)["seconds"]
        for _ in range(self.schedule.turns_a_start):
            self._turn(measured, running)
        self._end(measured, running)

    @staticmethod
    def _end(measured, running):
        measured.about["notes"] = running.pop(measured).end()
        for note in measured.about["notes"]:
            print(f"{measured.name}: {note}", flush=True)


def write_json(path, value):
    """Whole or not at all, whenever this program ends."""
    with open(path + ".part", "w") as out:
        json.dump(value, out, indent=1)
        out.write("\n")
    os.replace(path + ".part", path)
