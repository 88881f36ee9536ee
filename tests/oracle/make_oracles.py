"""Makes, or checks, the oracle values that xt-run is compared with.

    python tests/oracle/make_oracles.py           writes tests/oracle/data/<model>/
    python tests/oracle/make_oracles.py --check   recomputes and compares with what is committed

Each folder holds one tiny random model of Hugging Face transformers, in fp32 on one CPU thread:

    config.json             the model, Hugging Face keys
    model.safetensors       initial weights under their published names; bf16, so exact in fp32
    packs.json              per optimizer step, packs of tokens with the lengths of their documents
    expected.json           per number of packs: losses, gradient norms, valid tokens of every step
    gradients.safetensors   gradient of every parameter in the first step of `batch_of_files` packs
    trained.safetensors     parameters after all steps of `batch_of_files` packs
    routing.safetensors     (experts only) expert_ids [layers, packs, tokens, top_k], sorted, and
                            gaps [layers, packs, tokens] between the last chosen and first unchosen
                            probability, for all packs of the first step under the initial weights

A batch of n packs is the first n packs of every step. How they are split over ranks and
micro-steps changes nothing: the loss is the sum over valid labels divided by their number in the
whole batch. Labels are the next token of the same document; a document's last token has none.
"""

import argparse
import itertools
import json
import pathlib
import sys

try:
    import torch
    import transformers
    from safetensors.torch import load_file, save_file
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

from models import BALANCE_LOSS, MODELS, SEEDS

DATA = pathlib.Path(__file__).parent / "data"
STEPS = 5
PACKS_PER_STEP = 16
PACK_LENGTH = 48
BATCHES = [1, 2, 4, 8, 16]
BATCH_OF_FILES = 4
OPTIMIZER = {
    "kind": "adamw",
    "learning_rate": 1e-3,
    "beta1": 0.9,
    "beta2": 0.95,
    "epsilon": 1e-8,
    "weight_decay": 0.1,
    "clip_norm": 1.0,
}
ROUTER_BIAS_UPDATE_SPEED = 1e-3
# The clip divides by (norm + 1e-6), as torch.nn.utils.clip_grad_norm_ does.

def draw_packs(vocabulary, generator):
    """[steps][packs] of {tokens, documents}; documents of 1 to a whole pack's length."""
    steps = []
    for _ in range(STEPS):
        packs = []
        for _ in range(PACKS_PER_STEP):
            documents, room = [], PACK_LENGTH
            longest = int(torch.randint(8, PACK_LENGTH + 1, (), generator=generator))
            while room > 0:
                length = int(torch.randint(1, longest + 1, (), generator=generator))
                documents.append(min(length, room))
                room -= documents[-1]
            tokens = torch.randint(0, vocabulary, (PACK_LENGTH,), generator=generator)
            packs.append({"tokens": tokens.tolist(), "documents": documents})
        steps.append(packs)
    return steps


def published_names(model):
    """Name → tensor as checkpoints on the hub spell them: one tensor per expert but in gpt-oss, ties once."""
    named = dict(router_biases(model))
    for name, tensor in model.named_parameters():
        prefix, _, last = name.rpartition(".")
        if not prefix.endswith("mlp.experts") or model.config.model_type == "gpt_oss":
            named[name] = tensor
            continue
        for expert in range(tensor.shape[0]):
            base = f"{prefix}.{expert}"
            if last == "gate_up_proj":
                gate, up = tensor[expert].chunk(2)
                named[f"{base}.gate_proj.weight"] = gate
                named[f"{base}.up_proj.weight"] = up
            else:
                named[f"{base}.{last}.weight"] = tensor[expert]
    return {name: named[name] for name in sorted(named)}


def router_biases(model):
    """Name and tensor of the biases that choose experts and learn by counts."""
    return [(name, of) for name, of in model.named_buffers() if name.endswith("e_score_correction_bias")]


def gradients(model):
    """Like published_names, of the gradients; what no token or no gradient reached has zeros."""
    saved = {}
    for name, parameter in model.named_parameters():
        saved[name] = parameter.data
        grad = parameter.grad
        parameter.data = torch.zeros_like(parameter) if grad is None else grad.clone()
    named = {name: tensor.detach().clone() for name, tensor in published_names(model).items()}
    for name, parameter in model.named_parameters():
        parameter.data = saved[name]
    for name, bias in router_biases(model):
        named[name] = torch.zeros_like(bias)
    return named


def build(name):
    """The model with its drawn weights, every value a bf16 number, norms scattered about one, biases about zero."""
    config = dict(MODELS[name])
    model_type = config.pop("model_type")
    kinds = {
        "qwen3": (transformers.Qwen3Config, transformers.Qwen3ForCausalLM),
        "qwen3_moe": (transformers.Qwen3MoeConfig, transformers.Qwen3MoeForCausalLM),
        "llama": (transformers.LlamaConfig, transformers.LlamaForCausalLM),
        "qwen2": (transformers.Qwen2Config, transformers.Qwen2ForCausalLM),
        "mixtral": (transformers.MixtralConfig, transformers.MixtralForCausalLM),
        "gpt_oss": (transformers.GptOssConfig, transformers.GptOssForCausalLM),
        "deepseek_v3": (transformers.DeepseekV3Config, transformers.DeepseekV3ForCausalLM),
    }
    make_config, make_model = kinds[model_type]
    made = make_config(**config, attn_implementation="eager")
    if hasattr(made, "_experts_implementation"):
        made._experts_implementation = "eager"
    model = make_model(made).float().train()
    generator = torch.Generator().manual_seed(SEEDS[name])
    with torch.no_grad():
        for name_of, tensor in published_names(model).items():
            noise = torch.randn(tensor.shape, generator=generator)
            values = 1 + 0.2 * noise if name_of.endswith("norm.weight") else 0.08 * noise
            tensor.copy_(values.bfloat16().float())
    return model, draw_packs(MODELS[name]["vocab_size"], generator)


def inputs(packs):
    """Token ids, restarting positions, additive block-diagonal causal mask, and labels."""
    tokens = torch.tensor([pack["tokens"] for pack in packs])
    owner = torch.stack(
        [torch.repeat_interleave(torch.tensor(pack["documents"])) for pack in packs]
    )
    positions = torch.tensor(
        [list(itertools.chain(*map(range, pack["documents"]))) for pack in packs]
    )
    same = owner[:, :, None] == owner[:, None, :]
    visible = same & torch.ones(PACK_LENGTH, PACK_LENGTH).tril().bool()
    mask = torch.zeros(visible.shape).masked_fill(~visible, torch.finfo(torch.float32).min)
    labels = torch.full_like(tokens, -100)
    inside = owner[:, 1:] == owner[:, :-1]
    labels[:, :-1] = torch.where(inside, tokens[:, 1:], -100)
    return tokens, positions, mask[:, None], labels


def masks(config, mask):
    """The mask, or one by type of layer where some have a window."""
    if not getattr(config, "layer_types", None) or getattr(config, "sliding_window", None) is None:
        return mask
    far = torch.ones(PACK_LENGTH, PACK_LENGTH).tril(-config.sliding_window).bool()
    windowed = mask.masked_fill(far, torch.finfo(torch.float32).min)
    return {"full_attention": mask, "sliding_attention": windowed}


def loss_of(model, packs):
    """Mean cross-entropy over the batch's valid labels, and their number."""
    tokens, positions, mask, labels = inputs(packs)
    logits = model(
        input_ids=tokens, position_ids=positions, attention_mask=masks(model.config, mask), use_cache=False
    ).logits
    valid = int((labels != -100).sum())
    total = torch.nn.functional.cross_entropy(
        logits.flatten(0, 1), labels.flatten(), ignore_index=-100, reduction="sum"
    )
    return total / valid, valid


class Routing:
    """Recomputes what every router chose from the hidden states that reached it."""

    def __init__(self, model):
        self.layers = []
        self.hooks = []
        self.config = model.config
        for layer in model.model.layers:
            half = getattr(layer, "block_sparse_moe", None) or layer.mlp
            router = getattr(half, "gate", None) or getattr(half, "router", None)
            if router is not None and hasattr(half, "experts"):
                self.hooks.append(router.register_forward_pre_hook(self.record))

    def scores(self, gate, hidden):
        """What experts are chosen by, out of the best groups alone."""
        logits = torch.nn.functional.linear(hidden, gate.weight, getattr(gate, "bias", None))
        if not hasattr(gate, "e_score_correction_bias"):
            return torch.softmax(logits, -1, dtype=torch.float32)
        scores = (logits.sigmoid() + gate.e_score_correction_bias).unflatten(-1, (self.config.n_group, -1))
        groups = scores.topk(2, dim=-1).values.sum(-1)
        chosen = torch.zeros_like(groups).scatter_(1, groups.topk(self.config.topk_group, dim=-1).indices, 1)
        return scores.masked_fill(chosen[:, :, None] == 0, 0.0).flatten(-2)

    def record(self, gate, arguments):
        with torch.no_grad():
            hidden = arguments[0].reshape(-1, gate.weight.shape[1])
            top_k = self.config.num_experts_per_tok
            best = torch.topk(self.scores(gate, hidden), top_k + 1, dim=-1)
            ids = best.indices[:, :top_k].sort(dim=-1).values
            gaps = best.values[:, top_k - 1] - best.values[:, top_k]
            self.layers.append((ids.reshape(-1, PACK_LENGTH, top_k), gaps.reshape(-1, PACK_LENGTH)))

    def take(self):
        """expert_ids and gaps since the last call, or nothing for a dense model."""
        layers, self.layers = self.layers, []
        if not layers:
            return {}
        ids, gaps = zip(*layers)
        return {"expert_ids": torch.stack(ids), "gaps": torch.stack(gaps).contiguous()}


class RouterLogits:
    """What routers gave, to be balanced; a pack's loss is transformers' own of it, over all layers."""

    def __init__(self, name, model):
        self.coefficient, self.config, self.layers = BALANCE_LOSS.get(name), model.config, []
        for layer in model.model.layers if self.coefficient else []:
            layer.mlp.gate.register_forward_hook(lambda _module, _inputs, logits: self.layers.append(logits))

    def take(self, n_packs):
        layers, self.layers = self.layers, []
        packs = zip(*(logits.unflatten(0, (n_packs, -1)) for logits in layers))
        balance = transformers.models.qwen3_moe.modeling_qwen3_moe.load_balancing_loss_func
        losses = [balance(pack, self.config.num_experts, self.config.num_experts_per_tok) for pack in packs]
        return self.coefficient * sum(losses) / n_packs


def move_router_biases(model, taken):
    """Up for experts that got fewer rows than the mean, down for those that got more."""
    for layer, (_, bias) in enumerate(router_biases(model)):
        counts = torch.bincount(taken["expert_ids"][layer].flatten(), minlength=bias.numel()).double()
        bias += ROUTER_BIAS_UPDATE_SPEED * torch.sign(counts.mean() - counts).float()


def train(name, n_packs):
    """All steps on batches of n_packs: what expected.json says of them, gradients, parameters."""
    model, steps = build(name)
    routing, router_logits = Routing(model), RouterLogits(name, model)
    optimizer = torch.optim.AdamW(
        model.parameters(),
        lr=OPTIMIZER["learning_rate"],
        betas=(OPTIMIZER["beta1"], OPTIMIZER["beta2"]),
        eps=OPTIMIZER["epsilon"],
        weight_decay=OPTIMIZER["weight_decay"],
        foreach=False,
    )
    told = {"losses": [], "gradient_norms": [], "valid_tokens": [], "smallest_gaps": []}
    first = None
    for packs in steps:
        optimizer.zero_grad()
        loss, valid = loss_of(model, packs[:n_packs])
        balance = router_logits.take(n_packs) if name in BALANCE_LOSS else None
        (loss if balance is None else loss + balance).backward()
        first = first or gradients(model)
        norm = torch.nn.utils.clip_grad_norm_(
            model.parameters(), OPTIMIZER["clip_norm"], foreach=False
        )
        optimizer.step()
        told["losses"].append(loss.item())
        if balance is not None:
            told.setdefault("balance_losses", []).append(balance.item())
        told["gradient_norms"].append(norm.item())
        told["valid_tokens"].append(valid)
        taken = routing.take()
        if taken:
            told["smallest_gaps"].append(taken["gaps"].min().item())
        move_router_biases(model, taken)
    trained = {k: v.detach().clone() for k, v in published_names(model).items()}
    return told, first, trained


def routing_of(name):
    model, steps = build(name)
    routing = Routing(model)
    with torch.no_grad():
        loss_of(model, steps[0])
    taken = routing.take()
    if taken:
        taken["expert_ids"] = taken["expert_ids"].int()
    return taken


def compute(name):
    """Everything the folder of a model holds: documents and tensor files by file name."""
    model, steps = build(name)
    initial = {k: v.detach().bfloat16() for k, v in published_names(model).items()}
    expected = {
        "schema": "xt.oracle/1",
        "made_with": {"torch": torch.__version__, "transformers": transformers.__version__},
        "optimizer": OPTIMIZER,
        "batch_of_files": BATCH_OF_FILES,
        "batches": {},
    }
    if name in BALANCE_LOSS:
        expected["balance_loss"] = BALANCE_LOSS[name]
    tensors = {"model.safetensors": initial}
    for n_packs in BATCHES:
        told, first, trained = train(name, n_packs)
        expected["batches"][str(n_packs)] = told
        if n_packs == BATCH_OF_FILES:
            tensors["gradients.safetensors"] = first
            tensors["trained.safetensors"] = trained
    if chosen := routing_of(name):
        tensors["routing.safetensors"] = chosen
    documents = {
        "config.json": MODELS[name],
        "packs.json": {"schema": "xt.oracle_packs/1", "length": PACK_LENGTH, "steps": steps},
        "expected.json": expected,
    }
    return documents, tensors


def rendered(document):
    text = json.dumps(document, indent=1)
    # Lists of numbers stay on one line: a pack is read as a row.
    out, depth = [], 0
    for line in text.split("\n"):
        stripped = line.strip()
        number = stripped.rstrip(",").lstrip("-").replace(".", "").replace("e-", "").isdigit()
        if number or (depth and stripped.startswith("]")):
            out[-1] += ("" if out[-1].endswith("[") or stripped.startswith("]") else " ") + stripped
        else:
            out.append(line)
        depth = number or line.rstrip().endswith("[")
    return "\n".join(out) + "\n"


def write(name, documents, tensors):
    folder = DATA / name
    folder.mkdir(parents=True, exist_ok=True)
    for file, document in documents.items():
        (folder / file).write_text(rendered(document))
    for file, named in tensors.items():
        save_file({k: v.contiguous() for k, v in named.items()}, folder / file)


def relative(a, b):
    return (a - b).norm().item() / max(b.norm().item(), 1e-30)


def differences(name, documents, tensors):
    """Sentences, one per value that left its tolerance: losses 1e-6, tensors 1e-5 of their norm."""
    folder, found = DATA / name, []
    for file in ("config.json", "packs.json"):
        if json.loads((folder / file).read_text()) != json.loads(json.dumps(documents[file])):
            found.append(f"{name}/{file} differs")
    committed = json.loads((folder / "expected.json").read_text())["batches"]
    for n_packs, told in documents["expected.json"]["batches"].items():
        for ours, theirs in zip(told["losses"], committed[n_packs]["losses"]):
            if abs(ours - theirs) > 1e-6 * abs(theirs):
                found.append(f"{name}: loss of {n_packs} packs is {ours}, committed {theirs}")
    for file, named in tensors.items():
        stored = load_file(folder / file)
        if stored.keys() != named.keys():
            found.append(f"{name}/{file} names other tensors")
            continue
        for key, tensor in named.items():
            if key == "expert_ids":
                wrong = (tensor != stored[key]).any(-1) & (stored["gaps"] > 1e-6)
                if wrong.any():
                    found.append(f"{name}: {int(wrong.sum())} tokens choose other experts")
            elif relative(tensor.float(), stored[key].float()) > 1e-5:
                found.append(f"{name}/{file}: {key} differs")
    return found


def main():
    parser = argparse.ArgumentParser(description="oracle values of tiny models of every family that is executed")
    parser.add_argument("--check", action="store_true", help="compare with the committed files")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    problems = []
    for name in MODELS:
        documents, tensors = compute(name)
        if arguments.check:
            problems += differences(name, documents, tensors)
        else:
            write(name, documents, tensors)
        one = documents["expected.json"]["batches"][str(BATCH_OF_FILES)]
        print(name, "losses", [round(loss, 5) for loss in one["losses"]])
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
