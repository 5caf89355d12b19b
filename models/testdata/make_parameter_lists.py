"""Writes the configurations of public checkpoints and the names and shapes of their parameters.

    oracle/bin/python models/testdata/make_parameter_lists.py

For each: <name>.json, the configuration in the checkpoint's own keys, and <name>.parameters, a line
"name dim dim ..." for each parameter of the model that diffusers or transformers builds from it, sorted. No weights
are made (meta device). The environment is that of tests/golden/README.md.
"""

import json
import pathlib

import torch
from diffusers import AutoencoderKL, FluxTransformer2DModel, SD3Transformer2DModel, UNet2DConditionModel
from transformers import CLIPTextConfig, CLIPTextModel, CLIPTextModelWithProjection, T5Config, T5EncoderModel

HERE = pathlib.Path(__file__).parent

UNET = {
    "_class_name": "UNet2DConditionModel", "act_fn": "silu", "block_out_channels": [320, 640, 1280, 1280],
    "center_input_sample": False,
    "down_block_types": ["CrossAttnDownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D", "DownBlock2D"],
    "downsample_padding": 1, "flip_sin_to_cos": True, "freq_shift": 0, "in_channels": 4, "layers_per_block": 2,
    "mid_block_scale_factor": 1, "norm_eps": 1e-05, "norm_num_groups": 32, "out_channels": 4,
    "up_block_types": ["UpBlock2D", "CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "CrossAttnUpBlock2D"],
}
UNET_V15 = UNET | {"attention_head_dim": 8, "cross_attention_dim": 768, "sample_size": 64}
UNET_V21 = UNET | {
    "attention_head_dim": [5, 10, 20, 20], "cross_attention_dim": 1024, "sample_size": 96,
    "dual_cross_attention": False, "num_class_embeds": None, "only_cross_attention": False,
    "use_linear_projection": True, "upcast_attention": True,
}
# Unequal depths, heads and block types, to tell orders of blocks apart.
UNET_MIXED = UNET | {
    "block_out_channels": [16, 32, 48],
    "down_block_types": ["DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"],
    "up_block_types": ["CrossAttnUpBlock2D", "UpBlock2D", "CrossAttnUpBlock2D"],
    "attention_head_dim": [2, 4, 8], "transformer_layers_per_block": [1, 2, 3], "cross_attention_dim": 24,
    "layers_per_block": 1, "norm_num_groups": 8, "sample_size": 8, "use_linear_projection": True,
}
# As v1.5: convolutions as projections, one number of heads.
UNET_CONV = UNET | {
    "block_out_channels": [16, 24], "down_block_types": ["CrossAttnDownBlock2D", "DownBlock2D"],
    "up_block_types": ["UpBlock2D", "CrossAttnUpBlock2D"], "attention_head_dim": 4, "cross_attention_dim": 12,
    "norm_num_groups": 8, "sample_size": 8,
}
UNET_SDXL = UNET | {
    "addition_embed_type": "text_time", "addition_embed_type_num_heads": 64, "addition_time_embed_dim": 256,
    "attention_head_dim": [5, 10, 20], "block_out_channels": [320, 640, 1280], "cross_attention_dim": 2048,
    "down_block_types": ["DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"],
    "projection_class_embeddings_input_dim": 2816, "sample_size": 128, "transformer_layers_per_block": [1, 2, 10],
    "up_block_types": ["CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"], "use_linear_projection": True,
}
# Small: 20 numbers of pooled text, and six numbers of 8 sinusoids.
UNET_XL = UNET_SDXL | {
    "addition_time_embed_dim": 8, "attention_head_dim": [2, 4, 6], "block_out_channels": [16, 32, 48],
    "cross_attention_dim": 40, "norm_num_groups": 8, "projection_class_embeddings_input_dim": 68, "sample_size": 8,
    "transformer_layers_per_block": [1, 2, 3],
}
VAE = {
    "_class_name": "AutoencoderKL", "act_fn": "silu", "block_out_channels": [128, 256, 512, 512],
    "down_block_types": ["DownEncoderBlock2D"] * 4, "in_channels": 3, "latent_channels": 4, "layers_per_block": 2,
    "norm_num_groups": 32, "out_channels": 3, "sample_size": 768, "scaling_factor": 0.18215,
    "up_block_types": ["UpDecoderBlock2D"] * 4,
}
# Small, with unequal levels.
VAE_SMALL = VAE | {
    "block_out_channels": [16, 24, 40], "down_block_types": ["DownEncoderBlock2D"] * 3, "layers_per_block": 1,
    "norm_num_groups": 8, "sample_size": 16, "scaling_factor": 0.5, "up_block_types": ["UpDecoderBlock2D"] * 3,
}
# Of FLUX.1; that of Stable Diffusion 3 has the same layers and other factors.
VAE_FLUX = VAE | {
    "latent_channels": 16, "sample_size": 1024, "scaling_factor": 0.3611, "shift_factor": 0.1159,
    "use_post_quant_conv": False, "use_quant_conv": False,
}
# Small; the shift is of the size of the latents, so that its sign and its order with the scale are seen.
VAE_SHIFTED = VAE_FLUX | {
    "block_out_channels": [12, 20], "down_block_types": ["DownEncoderBlock2D"] * 2, "norm_num_groups": 4,
    "sample_size": 16, "scaling_factor": 1.5305, "shift_factor": 0.75, "up_block_types": ["UpDecoderBlock2D"] * 2,
}
TEXT = {"architectures": ["CLIPTextModel"], "layer_norm_eps": 1e-05, "max_position_embeddings": 77,
        "model_type": "clip_text_model", "vocab_size": 49408}
TEXT_V15 = TEXT | {"hidden_act": "quick_gelu", "hidden_size": 768, "intermediate_size": 3072,
                   "num_attention_heads": 12, "num_hidden_layers": 12, "projection_dim": 768}
TEXT_V21 = TEXT | {"hidden_act": "gelu", "hidden_size": 1024, "intermediate_size": 4096,
                   "num_attention_heads": 16, "num_hidden_layers": 23, "projection_dim": 512}
TEXT_SMALL = TEXT | {"vocab_size": 300, "hidden_size": 24, "intermediate_size": 80, "num_attention_heads": 3,
                     "num_hidden_layers": 3, "max_position_embeddings": 20, "projection_dim": 24}
TEXT_QUICK = TEXT_SMALL | {"hidden_act": "quick_gelu"}
TEXT_EXACT = TEXT_SMALL | {"hidden_act": "gelu"}
PROJECTION = {"architectures": ["CLIPTextModelWithProjection"]}
TEXT_BIGG = TEXT | PROJECTION | {
    "hidden_act": "gelu", "hidden_size": 1280, "intermediate_size": 5120, "num_attention_heads": 20,
    "num_hidden_layers": 32, "projection_dim": 1280, "eos_token_id": 49407}
# One pools at the first token 231, the other, as older checkpoints, at the largest id.
TEXT_POOLED = TEXT_EXACT | PROJECTION | {"projection_dim": 16, "eos_token_id": 231}
TEXT_LEGACY = TEXT_QUICK | {"eos_token_id": 2}
T5_XXL = {"architectures": ["T5EncoderModel"], "d_ff": 10240, "d_kv": 64, "d_model": 4096, "dense_act_fn": "gelu_new",
          "feed_forward_proj": "gated-gelu", "is_encoder_decoder": True, "is_gated_act": True, "layer_norm_epsilon": 1e-06,
          "model_type": "t5", "num_heads": 64, "num_layers": 24, "relative_attention_max_distance": 128,
          "relative_attention_num_buckets": 32, "tie_word_embeddings": False, "vocab_size": 32128}
# Heads that are wider together than the model.
T5_SMALL = T5_XXL | {"d_ff": 40, "d_kv": 8, "d_model": 24, "num_heads": 4, "num_layers": 3, "vocab_size": 300}
SD3 = {
    "_class_name": "SD3Transformer2DModel", "attention_head_dim": 64, "caption_projection_dim": 1536, "in_channels": 16,
    "joint_attention_dim": 4096, "num_attention_heads": 24, "num_layers": 24, "out_channels": 16, "patch_size": 2,
    "pooled_projection_dim": 2048, "pos_embed_max_size": 192, "sample_size": 128,
}
SD35_MEDIUM = SD3 | {"dual_attention_layers": list(range(13)), "pos_embed_max_size": 384, "qk_norm": "rms_norm"}
SD35_LARGE = SD3 | {
    "caption_projection_dim": 2432, "dual_attention_layers": [], "num_attention_heads": 38, "num_layers": 38,
    "qk_norm": "rms_norm",
}
FLUX = {
    "_class_name": "FluxTransformer2DModel", "attention_head_dim": 128, "in_channels": 64, "joint_attention_dim": 4096,
    "num_attention_heads": 24, "num_layers": 19, "num_single_layers": 38, "patch_size": 1, "pooled_projection_dim": 768,
}
FLUX_DEV = FLUX | {"guidance_embeds": True}
# Small: without and with norms of queries and keys and dual attention; with and without guidance.
SD3_PLAIN = SD3 | {
    "attention_head_dim": 16, "caption_projection_dim": 48, "in_channels": 4, "joint_attention_dim": 20,
    "num_attention_heads": 3, "num_layers": 2, "out_channels": 4, "pooled_projection_dim": 12, "pos_embed_max_size": 9,
    "sample_size": 16,
}
SD3_DUAL = SD3_PLAIN | {
    "attention_head_dim": 12, "caption_projection_dim": 24, "dual_attention_layers": [0, 2], "num_attention_heads": 2,
    "num_layers": 3, "out_channels": 6, "pos_embed_max_size": 12, "qk_norm": "rms_norm",
}
FLUX_PLAIN = FLUX | {
    "attention_head_dim": 16, "axes_dims_rope": [4, 6, 6], "in_channels": 16, "joint_attention_dim": 20,
    "num_attention_heads": 3, "num_layers": 2, "num_single_layers": 2, "pooled_projection_dim": 12,
}
FLUX_GUIDED = FLUX_PLAIN | {
    "attention_head_dim": 24, "axes_dims_rope": [4, 8, 12], "guidance_embeds": True, "num_attention_heads": 2,
}
# Blocks of full width: of the large model, with and without an end of the text tokens; one double and one single.
SD35_BLOCKS = SD35_LARGE | {"num_layers": 2, "pos_embed_max_size": 16, "sample_size": 16}
FLUX_BLOCKS = FLUX_DEV | {"num_layers": 1, "num_single_layers": 1}


def write(name, config, model, prefix=""):
    (HERE / f"{name}.json").write_text(json.dumps(config, indent=2) + "\n")
    lines = sorted(" ".join([prefix + key, *map(str, p.shape)]) for key, p in model.named_parameters())
    (HERE / f"{name}.parameters").write_text("\n".join(lines) + "\n")
    print(name, len(lines), sum(p.numel() for p in model.parameters()))


def main():
    with torch.device("meta"):
        for name, config in [("unet_v15", UNET_V15), ("unet_v21", UNET_V21), ("unet_mixed", UNET_MIXED),
                             ("unet_conv", UNET_CONV), ("unet_sdxl", UNET_SDXL), ("unet_xl", UNET_XL)]:
            write(name, config, UNet2DConditionModel.from_config(config))
        for name, config in [("vae_sd", VAE), ("vae_small", VAE_SMALL), ("vae_flux", VAE_FLUX),
                             ("vae_shifted", VAE_SHIFTED)]:
            write(name, config, AutoencoderKL.from_config(config))
        for name, config in [("text_v15", TEXT_V15), ("text_v21", TEXT_V21), ("text_quick", TEXT_QUICK),
                             ("text_exact", TEXT_EXACT)]:
            # transformers 5 dropped the prefix that the public checkpoints have.
            write(name, config, CLIPTextModel(CLIPTextConfig(**config)), prefix="text_model.")
        write("text_legacy", TEXT_LEGACY, CLIPTextModel(CLIPTextConfig(**TEXT_LEGACY)), prefix="text_model.")
        for name, config in [("text_pooled", TEXT_POOLED), ("text_bigg", TEXT_BIGG)]:
            write(name, config, CLIPTextModelWithProjection(CLIPTextConfig(**config)))
        for name, config in [("t5_xxl", T5_XXL), ("t5_small", T5_SMALL)]:
            write(name, config, T5EncoderModel(T5Config(**config)))
        for name, config in [("sd3_medium", SD3), ("sd35_medium", SD35_MEDIUM), ("sd35_large", SD35_LARGE),
                             ("sd3_plain", SD3_PLAIN), ("sd3_dual", SD3_DUAL),
                             ("sd35_blocks", SD35_BLOCKS)]:
            write(f"mmdit/{name}", config, SD3Transformer2DModel.from_config(config))
        for name, config in [("flux_dev", FLUX_DEV), ("flux_guided", FLUX_GUIDED), ("flux_plain", FLUX_PLAIN),
                             ("flux_blocks", FLUX_BLOCKS)]:
            write(f"mmdit/{name}", config, FluxTransformer2DModel.from_config(config))


if __name__ == "__main__":
    main()
