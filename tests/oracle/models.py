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
YARN = {
    "rope_type": "yarn",
    "factor": 4.0,
    "beta_fast": 4.0,
    "beta_slow": 1.0,
    "original_max_position_embeddings": 64,
}
# A window shorter than documents in the first layer, all tokens in the second.
MODELS["gpt_oss"] = as_family(
    "gpt_oss",
    "GptOssForCausalLM",
    head_dim=24,
    attention_bias=True,
    num_local_experts=8,
    num_experts_per_tok=2,
    intermediate_size=40,
    sliding_window=7,
    layer_types=["sliding_attention", "full_attention"],
    swiglu_limit=7.0,
    rope_scaling={**YARN, "truncate": False},
    output_router_logits=False,
    router_aux_loss_coef=0.001,
)
# A dense layer before a routed one, and sizes of which no two are alike.
MODELS["deepseek_v3"] = as_family(
    "deepseek_v3",
    "DeepseekV3ForCausalLM",
    num_key_value_heads=4,
    moe_intermediate_size=24,
    n_routed_experts=8,
    n_shared_experts=2,
    num_experts_per_tok=3,
    n_group=4,
    topk_group=2,
    norm_topk_prob=True,
    routed_scaling_factor=2.5,
    first_k_dense_replace=1,
    q_lora_rank=28,
    kv_lora_rank=20,
    qk_nope_head_dim=12,
    qk_rope_head_dim=8,
    v_head_dim=14,
    rope_scaling={**YARN, "mscale": 0.7, "mscale_all_dim": 0.9},
)
MODELS["qwen3_moe_balanced"] = MODELS["qwen3_moe"]
# Coefficients of the auxiliary loss of routers.
BALANCE_LOSS = {"qwen3_moe_balanced": 0.05}
# Of routed models, one with which no batch comes closer to another choice of experts than 1e-6.
SEEDS = {"qwen3_tied": 11, "qwen3_untied": 12, "qwen3_moe": 17, "llama": 21, "qwen2": 22, "mixtral": 23, "gpt_oss": 24, "deepseek_v3": 25, "qwen3_moe_balanced": 26}
