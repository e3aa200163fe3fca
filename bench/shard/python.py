"""Runs the contestants in Python of shard.py: a rank of DistributedDataParallel or of
fully_shard, over Gloo. Commands and answers are as in rank.hpp."""

import ctypes
import os
import socket
import struct
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.functional as F

sys.path.append(str(Path(__file__).resolve().parents[1] / "step"))
import contestants  # noqa: E402

LIBC = ctypes.CDLL(None)
BYTES_SENT = struct.Struct("200xQ")  # a part of the kernel's struct tcp_info


def bytes_sent():
    """By TCP, without headers, of all sockets of this process."""
    total, info = 0, ctypes.create_string_buffer(BYTES_SENT.size)
    for name in os.listdir("/proc/self/fd"):
        length = ctypes.c_uint(BYTES_SENT.size)
        if LIBC.getsockopt(int(name), socket.IPPROTO_TCP, socket.TCP_INFO, info,
                           ctypes.byref(length)) == 0:
            total += BYTES_SENT.unpack(info)[0]
    return total


def sharded(model, name):
    if name == "python_ddp":
        return torch.nn.parallel.DistributedDataParallel(model)
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for block in model.blocks:
        fully_shard(getattr(model, block), mesh=mesh)
    return fully_shard(model, mesh=mesh)


def make_step(args):
    model = sharded(contestants.trained_model(args), args.contestant)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)

    def step(inputs, targets):
        loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()
    return step


def serve(args, rank, size):
    step, done = make_step(args), 0
    batches = [(x.chunk(size)[rank].clone(), y.chunk(size)[rank].clone())
               for x, y in contestants.read_batches(args)]

    def one():
        nonlocal done
        done += 1
        return step(*batches[(done - 1) % len(batches)])

    for line in sys.stdin:
        count = int(line.split()[1])
        one()
        sent, cpu, wall = bytes_sent(), time.process_time(), time.perf_counter()
        for _ in range(count):
            loss = one().item()
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        print(wall, cpu, bytes_sent() - sent, loss, flush=True)


def main():
    torch.set_num_threads(1)
    place, words = {}, sys.argv[1:]
    for name in ("--rank", "--size", "--store"):
        at = words.index(name)
        place[name] = words[at + 1]
        del words[at:at + 2]
    args = contestants.parse(words)
    args.device = "cpu"
    rank, size = int(place["--rank"]), int(place["--size"])
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    dist.init_process_group("gloo", init_method=f"file://{place['--store']}", rank=rank,
                            world_size=size)
    serve(args, rank, size)
    os._exit(0)  # the other rank may have ended


if __name__ == "__main__":
    main()
