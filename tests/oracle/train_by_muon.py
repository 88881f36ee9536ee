"""Muon of xt-run against Muon written down in PyTorch, on models of transformers.

    python tests/oracle/train_by_muon.py XT_PLAN XT_RUN

Matrices of layers follow Muon in fp32 (Jordan et al. 2024; momentum, scale and decay as XTuner V1 has them), everything
else AdamW; gradients of both are in the norm, and only AdamW's are clipped by it.
"""

import json
import sys

try:
    import torch
    import transformers
    from safetensors.torch import load_file
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

from load_trained import DATA, LENGTH, call, check_all, losses

STEPS = 4
RATE, DECAY, MOMENTUM = 3e-3, 0.1, 0.95
MODELS = {"qwen3_moe": ["--expert-parallel", "2"], "llama": ["--recompute", "1"]}


def orthogonal(matrix):
    x = matrix.T if matrix.shape[0] > matrix.shape[1] else matrix
    x = x / (x.norm() + 1e-7)
    for _ in range(5):
        gram = x @ x.T
        x = 3.4445 * x + (-4.7750 * gram + 2.0315 * gram @ gram) @ x
    x = x.T if matrix.shape[0] > matrix.shape[1] else x
    return 0.2 * max(matrix.shape) ** 0.5 * x


def train(model, tokens):
    matrices = {n: p for n, p in model.named_parameters() if ".layers." in n and p.dim() == 2}
    rest = [p for n, p in model.named_parameters() if n not in matrices]
    adamw = torch.optim.AdamW(rest, lr=RATE, betas=(0.9, 0.95), eps=1e-8, weight_decay=DECAY, foreach=False)
    momenta = {n: torch.zeros_like(p) for n, p in matrices.items()}
    told = []
    for _ in range(STEPS):
        model.zero_grad()
        logits = model(input_ids=torch.tensor([tokens]), use_cache=False).logits[0]
        loss = torch.nn.functional.cross_entropy(logits[:-1], torch.tensor(tokens[1:]))
        loss.backward()
        told.append(loss.item())
        for parameter in model.parameters():  # an expert that no token reached
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        norm = torch.nn.utils.get_total_norm([p.grad for p in model.parameters()])
        for parameter in rest:
            parameter.grad.mul_(min(1.0, 1.0 / (norm.item() + 1e-6)))
        adamw.step()
        with torch.no_grad():
            for name, parameter in matrices.items():
                momentum = momenta[name].mul_(MOMENTUM).add_(parameter.grad)
                update = orthogonal(parameter.grad + MOMENTUM * momentum)
                parameter.mul_(1 - RATE * DECAY).sub_(RATE * update)
    return told


def check(name, flags, xt_plan, xt_run, folder):
    tokens = torch.randint(0, 128, (LENGTH,), generator=torch.Generator().manual_seed(2)).tolist()
    data = folder / "tokens.jsonl"
    data.write_text(f"{json.dumps({'input_ids': tokens})}\n" * 8)
    model = transformers.AutoModelForCausalLM.from_pretrained(DATA / name, dtype=torch.float32)
    call(xt_plan, "schedule", "--model", DATA / name / "config.json", "--machine", "h100_sxm", "--devices", 2,
         "--pack-length", LENGTH, "--optimizer", "muon", "--learning-rate", RATE, *flags, "--out", folder / "plan")
    call(xt_run, "train", folder / "plan", "--data", data, "--steps", STEPS, "--weights", DATA / name,
         "--save-weights", folder / "saved", "-q")
    for found, expected in zip(losses(folder / "plan"), train(model, tokens), strict=True):
        if abs(found - expected) > 2e-5 * expected:
            raise SystemExit(f"{name}: loss {found}, expected {expected}")
    saved, worst = load_file(folder / "saved/model.safetensors"), 0.0
    for key, tensor in model.named_parameters():
        difference = ((saved[key] - tensor).norm() / tensor.norm()).item()
        worst = max(worst, difference)
        if difference > 1e-3:
            raise SystemExit(f"{name}: {key} differs by {difference}")
    print(f"{name}: losses {losses(folder / 'plan')}; weights differ by {worst:.1e} at most")


if __name__ == "__main__":
    sys.exit(check_all(MODELS, check))
