"""Writes tiny/, a small Stable Diffusion 3 folder of random weights, and goldens.safetensors: what
StableDiffusion3Pipeline computes with it.

    oracle/bin/python models/sd3/testdata/make_goldens.py

tiny/ is what diffusers' save_pretrained writes, but without the tokenizers: tests take those of data/tiny_sd and
models/tokenizer/testdata/t5 (models/latent/testing/family_check.h). The transformer has RMS norms of queries and keys, and dual attention in its first block,
as 3.5 medium's. lora/ has adapters of every linear layer of the transformer, as peft makes them and
StableDiffusion3Pipeline.save_lora_weights writes them. Everything in float32. Environment: that of
tests/golden/README.md, with peft 0.21.2.

    noise [2, h, w, c], full/latents, full/pixels    of PROMPTS: 4 steps, guidance 4, from the noise
    without_t5/latents                               the same without text_encoder_3
    lora/latents                                     the same as full with the adapters of lora/
    train/latents, train/noise, train/timesteps -> train/losses, train/gradient/<parameter>
        of a step with PROMPTS and the mean of the losses

Latents are NHWC; those of training are scaled and shifted.
"""

import pathlib
import shutil

import torch
from diffusers import AutoencoderKL, FlowMatchEulerDiscreteScheduler, SD3Transformer2DModel, StableDiffusion3Pipeline
from diffusers.training_utils import _collate_lora_metadata
from peft import LoraConfig
from peft.utils import get_peft_model_state_dict
from safetensors.torch import save_file
from transformers import (CLIPTextConfig, CLIPTextModelWithProjection, CLIPTokenizer, T5Config, T5EncoderModel,
                          T5TokenizerFast)

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
PROMPTS = ["a large red circle", "a small blue square left of a green star"]
TOKENS, SIDE, STEPS, GUIDANCE = 24, 32, 4, 4.0
LATENT, CHANNELS = SIDE // 2, 4


def nhwc(x):
    return x.permute(0, 2, 3, 1).contiguous()


def make_clip(tokenizer, width, projection):
    return CLIPTextModelWithProjection(CLIPTextConfig(
        vocab_size=len(tokenizer), hidden_size=width, intermediate_size=2 * width, num_hidden_layers=2,
        num_attention_heads=2, max_position_embeddings=32, projection_dim=projection,
        bos_token_id=tokenizer.bos_token_id, eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id))


def make_pipeline():
    torch.manual_seed(1)
    tokenizer = CLIPTokenizer.from_pretrained(ROOT / "data" / "tiny_sd" / "tokenizer")
    tokenizer_3 = T5TokenizerFast.from_pretrained(ROOT / "models" / "tokenizer" / "testdata" / "t5")
    text_encoder_3 = T5EncoderModel(T5Config(
        vocab_size=len(tokenizer_3), d_model=32, d_kv=8, d_ff=32, num_layers=2, num_heads=2,
        feed_forward_proj="gated-gelu", relative_attention_num_buckets=8, relative_attention_max_distance=20))
    vae = AutoencoderKL(
        latent_channels=CHANNELS, down_block_types=["DownEncoderBlock2D"] * 2, up_block_types=["UpDecoderBlock2D"] * 2,
        block_out_channels=[8, 16], layers_per_block=1, norm_num_groups=4, sample_size=SIDE, scaling_factor=1.5305,
        shift_factor=0.0609, use_quant_conv=False, use_post_quant_conv=False)
    transformer = SD3Transformer2DModel(
        sample_size=LATENT, in_channels=CHANNELS, out_channels=CHANNELS, num_layers=2, attention_head_dim=8,
        num_attention_heads=2, joint_attention_dim=32, caption_projection_dim=16, pooled_projection_dim=14,
        pos_embed_max_size=12, dual_attention_layers=(0,), qk_norm="rms_norm")
    pipeline = StableDiffusion3Pipeline(
        transformer=transformer, scheduler=FlowMatchEulerDiscreteScheduler(shift=3.0), vae=vae,
        text_encoder=make_clip(tokenizer, 16, 8), tokenizer=tokenizer, text_encoder_2=make_clip(tokenizer, 12, 6),
        tokenizer_2=tokenizer, text_encoder_3=text_encoder_3, tokenizer_3=tokenizer_3)
    pipeline.set_progress_bar_config(disable=True)
    for part in pipeline.components.values():
        if isinstance(part, torch.nn.Module):
            part.eval()  # no dropout
    return pipeline


def draw(pipeline, noise):
    latents = pipeline(PROMPTS, height=SIDE, width=SIDE, num_inference_steps=STEPS, guidance_scale=GUIDANCE,
                       max_sequence_length=TOKENS, latents=noise.permute(0, 3, 1, 2), output_type="latent").images
    config = pipeline.vae.config
    with torch.no_grad():
        pixels = pipeline.vae.decode(latents / config.scaling_factor + config.shift_factor).sample
    return nhwc(latents), nhwc(pixels)


def train(pipeline, goldens):
    timesteps = torch.tensor([731.0, 86.0])
    noise, latents = torch.randn(2, CHANNELS, LATENT, LATENT), torch.randn(2, CHANNELS, LATENT, LATENT)
    with torch.no_grad():
        context, _, pooled, _ = pipeline.encode_prompt(
            PROMPTS, None, None, do_classifier_free_guidance=False, max_sequence_length=TOKENS)
    sigma = (timesteps / 1000).reshape(-1, 1, 1, 1)
    prediction = pipeline.transformer(hidden_states=(1 - sigma) * latents + sigma * noise, timestep=timesteps,
                                      encoder_hidden_states=context, pooled_projections=pooled).sample
    losses = ((prediction - (noise - latents)) ** 2).mean([1, 2, 3])
    losses.mean().backward()
    goldens |= {"train/noise": nhwc(noise), "train/timesteps": timesteps, "train/latents": nhwc(latents),
                "train/losses": losses.detach()}
    goldens |= {f"train/gradient/{name}": parameter.grad for name, parameter in pipeline.transformer.named_parameters()}


def make_adapters(pipeline, folder):
    linear = [name for name, module in pipeline.transformer.named_modules() if isinstance(module, torch.nn.Linear)]
    pipeline.transformer.add_adapter(LoraConfig(r=3, lora_alpha=6, target_modules=linear))
    for name, parameter in pipeline.transformer.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=0.1)
    StableDiffusion3Pipeline.save_lora_weights(
        folder, transformer_lora_layers=get_peft_model_state_dict(pipeline.transformer),
        **_collate_lora_metadata({"transformer": pipeline.transformer}))


def main():
    pipeline = make_pipeline()
    shutil.rmtree(HERE / "tiny", ignore_errors=True)
    pipeline.save_pretrained(HERE / "tiny")
    for name in ("tokenizer", "tokenizer_2", "tokenizer_3"):
        shutil.rmtree(HERE / "tiny" / name)
    noise = torch.randn(2, LATENT, LATENT, CHANNELS)
    goldens = {"noise": noise}
    goldens["full/latents"], goldens["full/pixels"] = draw(pipeline, noise)
    train(pipeline, goldens)
    without = StableDiffusion3Pipeline(**pipeline.components | {"text_encoder_3": None, "tokenizer_3": None})
    without.set_progress_bar_config(disable=True)
    goldens["without_t5/latents"], _ = draw(without, noise)
    shutil.rmtree(HERE / "lora", ignore_errors=True)
    make_adapters(pipeline, HERE / "lora")
    goldens["lora/latents"], _ = draw(pipeline, noise)
    full = goldens["full/latents"]
    for name in ("full", "without_t5", "lora"):
        change = (goldens[f"{name}/latents"] - full).norm() / full.norm()
        print(name, "differs from full by", change.item(), "deviation", goldens[f"{name}/latents"].std().item())
    save_file({name: value.contiguous() for name, value in goldens.items()}, HERE / "goldens.safetensors")
    for file in HERE.rglob("*.safetensors"):
        file.chmod(0o644)


if __name__ == "__main__":
    main()
