"""Weights go from Hugging Face to xt-run and back.

    python tests/oracle/load_trained.py XT_PLAN XT_RUN

For a tiny model of every family that is executed, on two ranks: what xt-run trained and saved is loaded by transformers'
from_pretrained and has the loss there that xt-run goes on with; and a folder that was loaded and saved again without
learning anything has equal names, dtypes, shapes and bytes.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

try:
    import torch
    import transformers
    from safetensors import safe_open
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

DATA = pathlib.Path(__file__).parent / "data"
LENGTH = 48
FAMILIES = {
    "qwen3_tied": [],
    "qwen3_moe": ["--expert-parallel", "2"],
    "llama": ["--sequence-parallel", "2"],
    "qwen2": ["--recompute", "1"],
    "mixtral": ["--expert-parallel", "2", "--intra-layer-micro-batches", "2"],
    "gpt_oss": ["--expert-parallel", "2"],
    "deepseek_v3": ["--expert-parallel", "2", "--recompute", "2"],
}


def call(*arguments):
    done = subprocess.run([str(argument) for argument in arguments], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{arguments}: exit code {done.returncode}\n{done.stdout}{done.stderr}")


def losses(plan):
    return [json.loads(line)["loss"] for line in (plan / "metrics.jsonl").read_text().splitlines()]


def loss_in_transformers(folder, tokens):
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([tokens]), use_cache=False).logits[0]
    return torch.nn.functional.cross_entropy(logits[:-1], torch.tensor(tokens[1:])).item()


def stored(folder):
    with safe_open(folder / "model.safetensors", "pt") as file:
        return {name: file.get_tensor(name) for name in file.keys()}


def check(name, flags, xt_plan, xt_run, folder):
    tokens = torch.randint(0, 128, (LENGTH,), generator=torch.Generator().manual_seed(1)).tolist()
    data = folder / "tokens.jsonl"
    data.write_text(f"{json.dumps({'input_ids': tokens})}\n" * 8)
    plan, still, saved, again = (folder / part for part in ("plan", "still", "saved", "again"))
    model = DATA / name
    common = ["--model", model / "config.json", "--machine", "h100_sxm", "--devices", 2, "--pack-length", LENGTH]
    common += ["--compute-dtype", "fp32", *flags]
    call(xt_plan, "schedule", *common, "--learning-rate", "3e-3", "--out", plan)
    call(xt_run, "train", plan, "--data", data, "--steps", 3, "--weights", model, "--save-weights", saved, "-q")
    call(xt_run, "train", plan, "--data", data, "--steps", 1, "--weights", saved, "--force", "-q")
    found, expected = losses(plan)[0], loss_in_transformers(saved, tokens)
    if abs(found - expected) > 1e-5 * expected:
        raise SystemExit(f"{name}: xt-run goes on with loss {found}, transformers has {expected}")

    speed = ["--router-bias-update-speed", 0] if name == "deepseek_v3" else []
    call(xt_plan, "schedule", *common, "--learning-rate", "1e-30", *speed, "--out", still)
    call(xt_run, "train", still, "--data", data, "--steps", 1, "--weights", model, "--save-weights", again,
         "--save-dtype", "bf16", "-q")
    before, after = stored(model), stored(again)
    if before.keys() != after.keys():
        raise SystemExit(f"{name}: saved {sorted(before.keys() ^ after.keys())} too many or too few")
    for key, tensor in before.items():
        if tensor.dtype != after[key].dtype or not torch.equal(tensor, after[key]):
            raise SystemExit(f"{name}: {key} came back as {after[key].dtype} with other bytes")
    print(f"{name}: loss {found:.6f}, in transformers {expected:.6f}; {len(before)} tensors came back equal")


def check_all(models, check_one):
    """check_one(name, flags, xt_plan, xt_run, folder) for each of `models`, in a folder of its own."""
    torch.set_num_threads(1)
    for name, flags in models.items():
        with tempfile.TemporaryDirectory() as folder:
            check_one(name, flags, *sys.argv[1:3], pathlib.Path(folder))
    return 0


if __name__ == "__main__":
    sys.exit(check_all(FAMILIES, check))
