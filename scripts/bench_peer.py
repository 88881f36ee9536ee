"""One rank of the peer that scripts/bench_executor.py measures xt-run against: transformers' Qwen3-MoE
under PyTorch's FSDP2, as its users write it. Started with torchrun's variables; rank 0 prints a JSON line."""

import argparse
import json
import os
import time

import torch
import torch.distributed as dist
import transformers
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.profiler import ProfilerActivity, profile
from transformers import AutoModelForCausalLM

# Kernels by what they are for, as torch names them; what no name fits is `other`.
GROUPS = {
    "products of experts": ("grouped_mm",),
    "products": ("aten::mm", "aten::addmm", "aten::bmm", "aten::linear", "mkldnn"),
    "attention": ("scaled_dot_product", "flash_attention"),
    "rows of experts": ("index", "gather", "scatter", "nonzero", "one_hot", "where", "topk", "sort"),
    "loss": ("log_softmax", "nll_loss", "cross_entropy"),
    "optimizer": ("_fused_adam",),
    "communication": ("c10d", "gloo", "allgather", "reduce_scatter", "all_reduce"),
    "copies and fp32 casts": ("copy_", "to_copy", "cat", "clone", "split_with_sizes"),
}


def build(arguments):
    model = AutoModelForCausalLM.from_pretrained(
        arguments.weights, dtype=torch.float32, attn_implementation="sdpa",
        experts_implementation=arguments.experts)
    model.config.use_cache = False
    if arguments.recompute:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    policy = MixedPrecisionPolicy()
    if arguments.dtype == "bf16":
        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    mesh = dist.device_mesh.init_device_mesh("cpu", (dist.get_world_size(),))
    for layer in model.model.layers:
        fully_shard(layer, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy)
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=arguments.learning_rate, betas=(0.9, 0.95),
                                  eps=1e-8, weight_decay=0.1, fused=True)
    return model, optimizer


def step(model, optimizer, packs):
    """The mean loss over all ranks; packs are of one sample each, so no mask is needed."""
    loss = sum(model(input_ids=pack[None], labels=pack[None]).loss for pack in packs) / len(packs)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    mean = loss.detach().clone()
    dist.all_reduce(mean)
    return mean.item() / dist.get_world_size()


def group_of(name):
    for group, parts in GROUPS.items():
        if any(part in name for part in parts):
            return group
    return "other"


def shares(model, optimizer, packs):
    """Where the time of one step goes on this rank, as shares of the time within operators."""
    with profile(activities=[ProfilerActivity.CPU]) as recorded:
        step(model, optimizer, packs)
    times = {}
    for event in recorded.key_averages():
        times[group_of(event.key)] = times.get(group_of(event.key), 0) + event.self_cpu_time_total
    whole = sum(times.values())
    return {group: round(spent / whole, 4) for group, spent in sorted(times.items(), key=lambda item: -item[1])}


def high_water_mark():
    for line in open("/proc/self/status", encoding="ascii"):
        if line.startswith("VmHWM"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("no VmHWM in /proc/self/status")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--weights", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--dtype", choices=("fp32", "bf16"), required=True)
    parser.add_argument("--experts", required=True, help="implementation, as transformers names it")
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--learning-rate", type=float, required=True)
    parser.add_argument("--recompute", action="store_true")
    parser.add_argument("--profile", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    before = high_water_mark()
    model, optimizer = build(arguments)
    documents = [json.loads(line)["input_ids"] for line in open(arguments.data, encoding="ascii")]
    packs = [torch.tensor(tokens) for tokens in documents[rank::world]]
    losses, seconds = [], []
    for _ in range(arguments.steps):
        dist.barrier()
        begin = time.monotonic()
        losses.append(step(model, optimizer, packs))
        seconds.append(time.monotonic() - begin)
    peak = high_water_mark()
    spent = shares(model, optimizer, packs) if arguments.profile else None
    if rank == 0:
        print(json.dumps({"transformers": transformers.__version__, "losses": losses, "seconds": seconds, "peak_process_bytes": peak,
                          "imports_bytes": before, "shares": spent}))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
