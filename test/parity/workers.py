"""Calls a function for each of many names, in other processes. If a call crashes, hangs or throws,
only that call fails. The next one is made in a new process, because an error may leave CUDA
unusable.
"""

import multiprocessing
import multiprocessing.connection
import sys
import time
import traceback

LIMIT, TOTAL = 120, 200  # seconds of a call, and after which no other one begins


def work(end, function):
    while name := end.recv():
        try:
            end.send((function(name), None))
        except BaseException as error:
            traceback.print_exc()
            end.send((None, f"{type(error).__name__}: {error}"))
            sys.exit(1)


class Worker:
    def __init__(self, context, function):
        self.end, other = context.Pipe()
        self.process = context.Process(target=work, args=(other, function), daemon=True)
        self.process.start()
        other.close()

    def begin(self, name):
        self.name, self.since = name, time.monotonic()
        self.end.send(name)

    def is_done(self):
        return self.end.poll() or time.monotonic() - self.since > LIMIT

    def answer(self):
        """Returns the result and None, or None and the error."""
        if not self.end.poll():
            self.process.kill()
            return None, f"took more than {LIMIT} s"
        try:
            return self.end.recv()
        except EOFError:
            self.process.join()
            return None, f"its process ended with {self.process.exitcode}"


def each(function, names, jobs):
    """Yields each name with the function's result and None, or with None and an error. With one
    job, its process is a fork of this one, and there is no limit to all calls together."""
    context = multiprocessing.get_context("fork" if jobs == 1 else "spawn")
    waiting, idle, busy, begun = list(names), [], [], time.monotonic()
    while waiting or busy:
        if jobs > 1 and time.monotonic() - begun > TOTAL:
            yield from ((name, None, f"not begun within {TOTAL} s") for name in waiting)
            waiting = []
        while waiting and len(busy) < jobs:
            busy.append(idle.pop() if idle else Worker(context, function))
            busy[-1].begin(waiting.pop(0))
        multiprocessing.connection.wait([worker.end for worker in busy], timeout=1)
        for worker in [worker for worker in busy if worker.is_done()]:
            result, error = worker.answer()
            busy.remove(worker)
            idle += [] if error else [worker]
            yield worker.name, result, error
    for worker in idle:
        worker.end.send(None)
        worker.process.join()
