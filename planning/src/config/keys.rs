//! The facts about the keys of a `config.json`: which do not matter, and which describe something that
//! a `model_type` is not known to have, or that is not planned.
//!
//! A key that is in no list here is an error: it may change parameters, FLOPs or memory. Lists of
//! names are strings with spaces between, so that they can be read at a glance.

/// When a key that describes something that is not planned describes nothing.
#[derive(Clone, Copy)]
pub(super) enum Neutral {
    /// Where its value is one of these, as JSON writes them. Null is not a value at all.
    Values(&'static [&'static str]),
    /// Where it is a number of tokens that no sequence exceeds, or switched off.
    Window,
    /// Where it is a list of layers that all attend to the whole sequence.
    Layers,
    /// Where no window is shorter than the sequence.
    WindowPattern,
    /// Where it is a list of layers that all have an indexer.
    Indexers,
    /// Where it names the format in which the weights of a new model were published.
    Published,
}

const NULL: Neutral = Neutral::Values(&[]);
const OFF: Neutral = Neutral::Values(&["false", "0"]);
const EMPTY: Neutral = Neutral::Values(&["[]", "{}", "\"\""]);
const ON: Neutral = Neutral::Values(&["true"]);
const ONE: Neutral = Neutral::Values(&["1"]);

/// Something of models that is not planned, and the keys that describe it.
pub(super) struct Feature {
    pub(super) reason: &'static str,
    pub(super) neutral: Neutral,
    /// Their names, with spaces between.
    pub(super) keys: &'static str,
}

const fn feature(reason: &'static str, neutral: Neutral, keys: &'static str) -> Feature {
    Feature { reason, neutral, keys }
}

const SPARSE: &str = "layers with and without experts in one model";
const SHARED_INDEX: &str = "layers that take the keys which another layer's indexer chooses";
const WINDOWS: &str = "attention in windows shorter than the sequence";
/// Also the reason for a `layer_types` that lists no layer with a window.
pub(super) const RECURRENT: &str = "layers of a recurrent kind, as Mamba and linear attention";
const OTHER_PARTS: &str =
    "encoders, cross-attention and other parts outside the stack of decoder layers";
const BLOCKS: &str = "blocks that this model_type is not known to have";
const BIASES: &str = "biases that this model_type is not known to have";

/// The features that are not planned.
const FEATURES: &[Feature] = &[
    feature(
        "multi-head latent attention, MLA",
        OFF,
        "kv_lora_rank q_lora_rank qk_head_dim qk_nope_head_dim qk_rope_head_dim v_head_dim",
    ),
    feature("sparse attention by an index", OFF, INDEX),
    feature(SHARED_INDEX, ONE, "index_topk_freq"),
    feature(SHARED_INDEX, OFF, "index_share_for_mtp_iteration"),
    feature(SHARED_INDEX, NULL, "index_topk_pattern"),
    feature(SHARED_INDEX, Neutral::Indexers, "indexer_types"),
    feature(
        "shared experts",
        OFF,
        "n_shared_experts num_shared_experts num_shared_expert moe_num_shared_experts \
         shared_expert_intermediate_size shared_intermediate_size \
         moe_shared_expert_intermediate_size",
    ),
    feature(SPARSE, OFF, "first_k_dense_replace num_dense_layers n_dense_layers"),
    feature(SPARSE, ONE, "decoder_sparse_step interleave_moe_layer_step moe_layer_freq"),
    feature(SPARSE, EMPTY, "mlp_only_layers moe_layers"),
    feature(
        "experts, as this model_type is not known to have them",
        OFF,
        "experts_per_token ffn_config moe_intermediate_size moe_k moe_num_experts \
         n_routed_experts num_experts num_experts_per_tok num_experts_per_token num_local_experts",
    ),
    feature(
        "layers of multi-token prediction, MTP",
        OFF,
        "mtp_num_hidden_layers mtp_num_layers num_mtp_layers num_nextn_predict_layers",
    ),
    feature(WINDOWS, Neutral::Window, "sliding_window"),
    feature(WINDOWS, NULL, "attention_chunk_size"),
    feature(WINDOWS, Neutral::Layers, "layer_types"),
    feature(WINDOWS, Neutral::WindowPattern, "sliding_window_pattern"),
    feature(
        RECURRENT,
        NULL,
        "attn_layer_offset attn_layer_period expand expert_layer_offset expert_layer_period \
         full_attention_interval hybrid_override_pattern layers_block_type linear_attn_config \
         linear_conv_kernel_dim linear_key_head_dim linear_num_key_heads linear_num_value_heads \
         linear_value_head_dim mamba_chunk_size mamba_d_conv mamba_d_head mamba_d_ssm \
         mamba_d_state mamba_dt_rank mamba_expand mamba_head_dim mamba_n_groups mamba_n_heads \
         mamba_num_heads n_groups ssm_cfg ssm_state_size state_size",
    ),
    feature(
        "weights in a format that is not that of a model's publication",
        Neutral::Published,
        "quantization_config",
    ),
    feature(
        "weights in a format that is not that of a model's publication",
        NULL,
        "compression_config quantization",
    ),
    feature("experts of a latent of the hidden state", OFF, "moe_latent_size"),
    feature(
        OTHER_PARTS,
        OFF,
        "add_cross_attention is_encoder_decoder tie_encoder_decoder type_vocab_size",
    ),
    feature(
        OTHER_PARTS,
        EMPTY,
        "audio_config cross_attention_hidden_size cross_attention_layers decoder encoder \
         speech_config vision_config",
    ),
    feature(
        BIASES,
        OFF,
        "add_bias_linear add_qkv_bias attention_bias attention_out_bias bias lm_head_bias \
         mamba_proj_bias mlp_bias qkv_bias use_bias use_qkv_bias",
    ),
    feature("convolutions without a bias", ON, "mamba_conv_bias use_conv_bias"),
    feature(
        BLOCKS,
        OFF,
        "alibi chunk_size_feed_forward parallel_attn qk_layernorm qk_norm use_parallel_residual \
         use_qk_norm",
    ),
    feature(BLOCKS, EMPTY, "pruned_heads"),
    feature(BLOCKS, ON, "use_rmsnorm"),
    feature(BLOCKS, Neutral::Values(&["\"rmsnorm\""]), "normalization_function"),
    feature(BLOCKS, NULL, "attn_logit_softcapping clip_qkv final_logit_softcapping"),
];

/// The feature that `key` describes, if it is known not to be planned.
pub(super) fn feature_of(key: &str) -> Option<&'static Feature> {
    FEATURES.iter().find(|feature| has(feature.keys, key))
}

/// The keys of sizes as Llama has them, which all that are built like it share.
pub(super) const SIZES: &str = "head_dim hidden_size intermediate_size max_position_embeddings num_attention_heads \
     num_hidden_layers num_key_value_heads tie_word_embeddings vocab_size";

/// The keys of sizes as GPT-2 has them.
pub(super) const GPT2_SIZES: &str =
    "n_ctx n_embd n_head n_inner n_layer n_positions tie_word_embeddings vocab_size";

/// The keys of latent attention, as DeepSeek has them; the size of a whole head follows from its parts.
pub(super) const LATENT: &str =
    "kv_lora_rank q_lora_rank qk_head_dim qk_nope_head_dim qk_rope_head_dim v_head_dim";

/// The keys of the indexer of sparse attention, as DeepSeek-V3.2 and GLM-5 have them.
pub(super) const INDEX: &str = "index_head_dim index_n_heads index_topk";

/// The keys of linear attention beside full attention, as Qwen3-Next has them.
pub(super) const LINEAR: &str = "full_attention_interval layer_types linear_conv_kernel_dim \
     linear_key_head_dim linear_num_key_heads linear_num_value_heads linear_value_head_dim";

/// The keys of hybrids of Mamba-2, attention, MLPs and experts, as Nemotron-H has them.
pub(super) const HYBRID: &str = "attention_head_dim chunk_size conv_kernel expand hybrid_override_pattern \
     layers_block_type mamba_chunk_size mamba_d_conv mamba_expand mamba_head_dim mamba_hidden_act \
     mamba_n_groups mamba_num_heads mamba_ssm_cache_dtype moe_intermediate_size \
     moe_shared_expert_intermediate_size moe_shared_expert_overlap mtp_hybrid_override_pattern \
     mtp_layers_block_type n_groups n_routed_experts n_shared_experts num_experts_per_tok \
     num_logits_to_keep rescale_prenorm_residual residual_in_fp32 ssm_state_size time_step_floor \
     time_step_limit time_step_max time_step_min time_step_rank use_mamba_kernels";

/// The keys of models with Mamba-2 or attention before an MLP or experts in each layer, as Granite 4 and Bamba
/// have them.
pub(super) const MAMBA: &str = "attention_bias attn_layer_indices attn_rotary_emb layer_types layers_block_type \
     mamba_chunk_size mamba_d_conv mamba_d_head mamba_d_state mamba_expand mamba_n_groups mamba_n_heads \
     num_experts_per_tok num_local_experts num_logits_to_keep position_embedding_type shared_intermediate_size \
     time_step_limit time_step_max time_step_min use_mamba_kernels z_loss_coefficient";

/// Keys that change neither parameters nor FLOPs nor memory: files and classes, tokens,
/// how text is generated, rotations of positions, how weights begin, dropout, constants of
/// normalisations and of the router's loss, factors on activations.
const HARMLESS: &[&str] = &[
    // Where the model comes from, and which class reads it.
    "_attn_implementation _attn_implementation_autoset _commit_hash _name_or_path architectures \
     attn_implementation auto_map finetuning_task id2label label2id model_type num_labels prefix \
     problem_type task_specific_params tokenizer_class torchscript transformers_version \
     unsloth_fixed unsloth_version",
    // Types of numbers on disk: training is in 16 bits, with what [training] says.
    "dtype torch_dtype use_bfloat16",
    // Generation.
    "bad_words_ids begin_suppress_tokens cache_implementation diversity_penalty do_sample \
     early_stopping encoder_no_repeat_ngram_size exponential_decay_length_penalty is_decoder \
     length_penalty max_length max_new_tokens min_length no_repeat_ngram_size num_beam_groups \
     num_beams num_return_sequences remove_invalid_values repetition_penalty suppress_tokens \
     temperature tf_legacy_loss top_k top_p typical_p use_cache",
    // Keys of the answer.
    "output_attentions output_hidden_states output_router_logits output_scores return_dict \
     return_dict_in_generate",
    // Positions, where they are rotated in.
    "initial_context_length model_max_length no_rope_layer_interval no_rope_layers original_max_position_embeddings \
     partial_rotary_factor rotary_emb_base rotary_pct use_mrope",
    // Which layers have windows: `sliding_window` is what is refused.
    "max_window_layers use_sliding_window",
    // How weights begin.
    "initializer_factor initializer_range",
    // Activation functions: whether there is a gate follows from the model_type.
    "activation_function hidden_act hidden_activation mlp_hidden_act",
    // Factors on activations.
    "attention_multiplier embedding_multiplier logits_scaling query_pre_attn_scalar \
     reorder_and_upcast_attn residual_multiplier scale_attn_by_inverse_layer_idx \
     scale_attn_weights",
    // How training goes.
    "ep_size gradient_checkpointing predict_special_tokens n_special pretraining_tp",
    // The router: how it chooses, and its loss.
    "aux_loss_alpha n_group norm_topk_prob routed_scaling_factor router_aux_loss_coef \
     router_jitter_noise router_z_loss_coef scoring_func seq_aux topk_group topk_method",
];

/// Ends of names that are harmless.
const HARMLESS_ENDS: &str = "_dropout _dropout_prob _eps _epsilon _pdrop _token_id _token_index";
/// Beginnings of names that are harmless.
const HARMLESS_BEGINNINGS: &str = "rope_ summary_";

/// Whether `key` changes neither parameters nor FLOPs nor memory.
pub(super) fn is_harmless(key: &str) -> bool {
    HARMLESS.iter().any(|names| has(names, key))
        || HARMLESS_ENDS.split(' ').any(|end| key.ends_with(end))
        || HARMLESS_BEGINNINGS.split(' ').any(|beginning| key.starts_with(beginning))
}

/// Whether `key` is one of `names`, which have spaces between them.
pub(super) fn has(names: &str, key: &str) -> bool {
    !key.is_empty() && names.split(' ').any(|name| name == key)
}
