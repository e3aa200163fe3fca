"""Settings that make a training slow are named by its profile, and are not without them.

Usage: settings.py PROGRAM      profiles the program with environments that make it slow
"""

import os
import subprocess
import sys
import time

CORES = len(os.sched_getaffinity(0))
VARIABLES = ("OMP_", "GOMP_", "KMP_", "MKL_", "ATEN_CPU", "ONEDNN_", "DNNL_")
# Advice that depends on the processor, or on how the tests were compiled.
OF_THE_MACHINE = {"debug_build", "precision"}


def has(flag):
    with open("/proc/cpuinfo") as lines:
        return any(line.startswith("flags") and flag in line.split() for line in lines)


def advice(program, arguments, **settings):
    """Returns the seconds of a step, and by its name of each piece of advice the change, the
    measured gain and the finding."""
    environment = {name: value for name, value in os.environ.items()
                   if not name.startswith(VARIABLES)}
    done = subprocess.run([program, *arguments], text=True, capture_output=True,
                          env=environment | settings)
    if done.returncode:
        sys.exit(f"settings: {program} ended with {done.returncode}: {done.stderr[-2000:]}")
    print(f"\n{settings} {arguments}\n{done.stdout}", end="", flush=True)
    seconds, *rows = done.stdout.splitlines()
    rows = [row.split("\t") for row in rows]
    return float(seconds), {name: (change, float(gain), finding)
                            for name, change, gain, finding in rows}


def is_quiet():
    """Returns whether a program gets all of the processors."""
    share = ("import time\nwall, own = time.perf_counter(), time.process_time()\n"
             "while time.perf_counter() - wall < 0.5: pass\n"
             "print((time.process_time() - own) / (time.perf_counter() - wall))")
    programs = [subprocess.Popen([sys.executable, "-c", share], text=True, stdout=subprocess.PIPE)
                for _ in range(CORES)]
    return all(float(program.communicate()[0]) > 0.95 for program in programs)


def without_settings(program):
    for _ in range(5):
        seconds, found = advice(program, ["fp32"], OMP_NUM_THREADS=str(CORES))
        wrong = set(found) - OF_THE_MACHINE
        message = f"a training with the machine's own settings gets the advice {wrong}"
        assert wrong <= {"waiting_policy"}, message
        if not wrong:
            return seconds
        time.sleep(1)
    assert not is_quiet(), message  # beside other programs the advice is right
    print("other programs use the processors: waiting_policy is right")
    return seconds


def one_thread(program, with_all):
    """`with_all` are the seconds of a step with a thread for each core."""
    seconds, found = advice(program, ["fp32", "try"], OMP_NUM_THREADS="1",
                            ATEN_CPU_CAPABILITY="default")
    if seconds < 1.3 * with_all:
        print(f"{CORES} threads are {seconds / with_all:.2f} times as fast: no advice is expected")
    else:
        change, gain, _ = found["threads"]
        assert f"OMP_NUM_THREADS={CORES}" in change, change
        assert gain > 0.1, f"{CORES} threads saved {gain} of the step"
    if has("avx2"):
        assert found["vector_code"][0] == "unset the variable on this machine", found


def products_of_16_bits(program):
    """The products of a processor without instructions for BF16 are in FP32, after copies."""
    _, found = advice(program, ["bf16"], OMP_NUM_THREADS=str(CORES), ONEDNN_MAX_CPU_ISA="AVX2")
    assert "vector_code" in found, found
    change, _, finding = found["precision"]
    assert change.startswith("leave Precision<BF16> out"), change
    assert "no instructions for BF16" in finding, finding


def others_compete(program):
    """Threads that spin keep the processors from those that they wait for."""
    if CORES < 2:
        return
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(CORES)]
    try:
        time.sleep(0.2)
        _, found = advice(program, ["fp32"], OMP_NUM_THREADS=str(CORES))
        assert "OMP_WAIT_POLICY=passive" in found["waiting_policy"][0], found
        _, found = advice(program, ["fp32"], OMP_NUM_THREADS=str(CORES), OMP_WAIT_POLICY="passive")
        assert "waiting_policy" not in found, found
    finally:
        for other in others:
            other.kill()


def main(program):
    one_thread(program, without_settings(program))
    products_of_16_bits(program)
    others_compete(program)


if __name__ == "__main__":
    main(sys.argv[1])
