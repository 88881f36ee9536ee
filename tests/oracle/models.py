"""The tiny models of the oracles: one of every family that is executed, as config.json has them."""

DENSE = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0,
    "rope_scaling": None,
    "max_position_embeddings": 256,
    "attention_bias": False,
    "attention_dropout": 0.0,
    "vocab_size": 128,
    "tie_word_embeddings": True,
    "torch_dtype": "float32",
}
MODELS = {
    "qwen3_tied": DENSE,
    "qwen3_untied": {**DENSE, "tie_word_embeddings": False},
    "qwen3_moe": {
        **DENSE,
        "architectures": ["Qwen3MoeForCausalLM"],
        "model_type": "qwen3_moe",
        "tie_word_embeddings": False,
        "num_experts": 8,
        "num_experts_per_tok": 2,
        "norm_topk_prob": True,
        "moe_intermediate_size": 32,
        "decoder_sparse_step": 1,
        "mlp_only_layers": [],
        "output_router_logits": False,
        "router_aux_loss_coef": 0.001,
    },
}
def as_family(model_type, architecture, **more):
    """DENSE under another family's name, without what is Qwen3's alone."""
    shared = {key: value for key, value in DENSE.items() if key != "head_dim"}
    return {**shared, "architectures": [architecture], "model_type": model_type, "tie_word_embeddings": False, **more}


MODELS["llama"] = as_family(
    "llama",
    "LlamaForCausalLM",
    # Long waves of 48 tokens are divided, short ones are not, and some lie between.
    rope_scaling={
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64,
    },
)
MODELS["qwen2"] = as_family("qwen2", "Qwen2ForCausalLM", tie_word_embeddings=True, use_sliding_window=False)
del MODELS["qwen2"]["attention_bias"]
MODELS["mixtral"] = as_family(
    "mixtral",
    "MixtralForCausalLM",
    num_local_experts=8,
    num_experts_per_tok=2,
    sliding_window=None,
    output_router_logits=False,
    router_aux_loss_coef=0.001,
)
del MODELS["mixtral"]["attention_bias"]
# Of routed models, one with which no batch comes closer to another choice of experts than 1e-6.
SEEDS = {"qwen3_tied": 11, "qwen3_untied": 12, "qwen3_moe": 17, "llama": 21, "qwen2": 22, "mixtral": 23}
