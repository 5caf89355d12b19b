"""Writes tiny/, a small FLUX.1 folder of random weights, and goldens.safetensors: what FluxPipeline computes with it.

    oracle/bin/python models/flux/testdata/make_goldens.py

tiny/ is what diffusers' save_pretrained writes, weights in several shards, but without the tokenizers: tests take those
of data/tiny_sd and models/tokenizer/testdata/t5 (models/latent/testing/family_check.h). The transformer embeds the guidance scale, as dev's;
the scheduler shifts by resolution. lora/ has adapters of every linear layer of the transformer, as peft
makes them and FluxPipeline.save_lora_weights writes them. Everything in float32. Environment: that of
tests/golden/README.md, with peft 0.21.2.

    noise [2, h, w, c], context [2, tokens, width], pooled [2, width]    of PROMPTS
    guided/latents, guided/pixels    4 steps, guidance 3.5, from the noise
    lora/latents                     the same with the adapters of lora/
    plain/latents, plain/pixels      without the guidance embedding and with a shift of 3, as schnell's; true_cfg_scale 2.5
    train/pixels, train/noise, train/timesteps -> train/latents, train/losses, train/gradient/<parameter>
        of a step with PROMPTS, guidance 1, the mean of the VAE's posterior, and the mean of the losses

Latents are NHWC, unpacked; those of training are scaled and shifted.
"""

import pathlib
import shutil

import torch
from diffusers import AutoencoderKL, FlowMatchEulerDiscreteScheduler, FluxPipeline, FluxTransformer2DModel
from diffusers.training_utils import _collate_lora_metadata
from peft import LoraConfig
from peft.utils import get_peft_model_state_dict
from safetensors.torch import save_file
from transformers import CLIPTextConfig, CLIPTextModel, CLIPTokenizer, T5Config, T5EncoderModel, T5TokenizerFast

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
PROMPTS = ["a large red circle", "a small blue square left of a green star"]
TOKENS, SIDE, STEPS, GUIDANCE, TRUE_GUIDANCE = 24, 32, 4, 3.5, 2.5
LATENT, CHANNELS = SIDE // 2, 4


def nhwc(x):
    return x.permute(0, 2, 3, 1).contiguous()


def nchw(x):
    return x.permute(0, 3, 1, 2).contiguous()


def make_pipeline():
    torch.manual_seed(1)
    tokenizer = CLIPTokenizer.from_pretrained(ROOT / "data" / "tiny_sd" / "tokenizer")
    tokenizer_2 = T5TokenizerFast.from_pretrained(ROOT / "models" / "tokenizer" / "testdata" / "t5")
    text_encoder = CLIPTextModel(CLIPTextConfig(
        vocab_size=len(tokenizer), hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2,
        max_position_embeddings=32, bos_token_id=tokenizer.bos_token_id, eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id))
    text_encoder_2 = T5EncoderModel(T5Config(
        vocab_size=len(tokenizer_2), d_model=24, d_kv=8, d_ff=32, num_layers=2, num_heads=2,
        feed_forward_proj="gated-gelu", relative_attention_num_buckets=8, relative_attention_max_distance=20))
    vae = AutoencoderKL(
        latent_channels=CHANNELS, down_block_types=["DownEncoderBlock2D"] * 2, up_block_types=["UpDecoderBlock2D"] * 2,
        block_out_channels=[8, 16], layers_per_block=1, norm_num_groups=4, sample_size=SIDE, scaling_factor=0.3611,
        shift_factor=0.1159, use_quant_conv=False, use_post_quant_conv=False)
    transformer = FluxTransformer2DModel(
        in_channels=4 * CHANNELS, num_layers=2, num_single_layers=2, attention_head_dim=8, num_attention_heads=2,
        joint_attention_dim=24, pooled_projection_dim=16, guidance_embeds=True, axes_dims_rope=(2, 2, 4))
    scheduler = FlowMatchEulerDiscreteScheduler(
        shift=3.0, use_dynamic_shifting=True, base_shift=0.5, max_shift=1.15, base_image_seq_len=16,
        max_image_seq_len=256)
    pipeline = FluxPipeline(scheduler, vae, text_encoder, tokenizer, text_encoder_2, tokenizer_2, transformer)
    pipeline.set_progress_bar_config(disable=True)
    for part in pipeline.components.values():
        if isinstance(part, torch.nn.Module):
            part.eval()  # no dropout
    return pipeline


def draw(pipeline, noise, **options):
    given = {"height": SIDE, "width": SIDE, "num_inference_steps": STEPS, "max_sequence_length": TOKENS,
             "latents": pipeline._pack_latents(nchw(noise), len(PROMPTS), CHANNELS, LATENT, LATENT)} | options
    packed = pipeline(PROMPTS, output_type="latent", **given).images
    latents = pipeline._unpack_latents(packed, SIDE, SIDE, pipeline.vae_scale_factor)
    config = pipeline.vae.config
    with torch.no_grad():
        pixels = pipeline.vae.decode(latents / config.scaling_factor + config.shift_factor).sample
    return nhwc(latents), nhwc(pixels)


def without_guidance(pipeline):
    transformer = FluxTransformer2DModel.from_config(pipeline.transformer.config, guidance_embeds=False)
    transformer.load_state_dict({name: value for name, value in pipeline.transformer.state_dict().items()
                                 if "guidance_embedder" not in name})
    scheduler = FlowMatchEulerDiscreteScheduler(shift=3.0)
    plain = FluxPipeline(**pipeline.components | {"transformer": transformer, "scheduler": scheduler})
    plain.set_progress_bar_config(disable=True)
    return plain


def train(pipeline, context, pooled, goldens):
    """One step of examples/dreambooth/train_dreambooth_flux.py, without weighting."""
    config, transformer = pipeline.vae.config, pipeline.transformer
    pixels = torch.rand(2, 3, SIDE, SIDE) * 2 - 1
    timesteps = torch.tensor([731.0, 86.0])
    noise = torch.randn(2, CHANNELS, LATENT, LATENT)
    with torch.no_grad():
        mode = pipeline.vae.encode(pixels).latent_dist.mode()
    latents = (mode - config.shift_factor) * config.scaling_factor
    sigma = (timesteps / 1000).reshape(-1, 1, 1, 1)
    noisy = (1 - sigma) * latents + sigma * noise
    prediction = transformer(
        hidden_states=pipeline._pack_latents(noisy, 2, CHANNELS, LATENT, LATENT), timestep=timesteps / 1000,
        guidance=torch.ones(2), pooled_projections=pooled, encoder_hidden_states=context,
        txt_ids=torch.zeros(TOKENS, 3),
        img_ids=pipeline._prepare_latent_image_ids(2, LATENT // 2, LATENT // 2, "cpu", torch.float32)).sample
    prediction = pipeline._unpack_latents(prediction, SIDE, SIDE, pipeline.vae_scale_factor)
    losses = ((prediction - (noise - latents)) ** 2).mean([1, 2, 3])
    losses.mean().backward()
    goldens |= {"train/pixels": nhwc(pixels), "train/noise": nhwc(noise), "train/timesteps": timesteps,
                "train/latents": nhwc(latents), "train/losses": losses.detach()}
    goldens |= {f"train/gradient/{name}": parameter.grad for name, parameter in transformer.named_parameters()}


def make_adapters(pipeline, folder):
    linear = [name for name, module in pipeline.transformer.named_modules() if isinstance(module, torch.nn.Linear)]
    pipeline.transformer.add_adapter(LoraConfig(r=3, lora_alpha=6, target_modules=linear))
    for name, parameter in pipeline.transformer.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=0.1)
    FluxPipeline.save_lora_weights(
        folder, transformer_lora_layers=get_peft_model_state_dict(pipeline.transformer),
        **_collate_lora_metadata({"transformer": pipeline.transformer}))


def main():
    pipeline = make_pipeline()
    shutil.rmtree(HERE / "tiny", ignore_errors=True)
    pipeline.save_pretrained(HERE / "tiny", max_shard_size="60KB")
    for name in ("tokenizer", "tokenizer_2"):
        shutil.rmtree(HERE / "tiny" / name)
    with torch.no_grad():
        context, pooled, _ = pipeline.encode_prompt(PROMPTS, None, max_sequence_length=TOKENS)
    noise = torch.randn(2, LATENT, LATENT, CHANNELS)
    goldens = {"noise": noise, "context": context, "pooled": pooled}
    goldens["guided/latents"], goldens["guided/pixels"] = draw(pipeline, noise, guidance_scale=GUIDANCE)
    goldens["plain/latents"], goldens["plain/pixels"] = draw(
        without_guidance(pipeline), noise, negative_prompt=["", ""], true_cfg_scale=TRUE_GUIDANCE)
    train(pipeline, context, pooled, goldens)
    shutil.rmtree(HERE / "lora", ignore_errors=True)
    make_adapters(pipeline, HERE / "lora")
    goldens["lora/latents"], _ = draw(pipeline, noise, guidance_scale=GUIDANCE)
    for name in ("guided", "plain", "lora"):
        change = (goldens[f"{name}/latents"] - goldens["guided/latents"]).norm() / goldens["guided/latents"].norm()
        print(name, "differs from guided by", change.item(), "deviation", goldens[f"{name}/latents"].std().item())
    save_file({name: value.contiguous() for name, value in goldens.items()}, HERE / "goldens.safetensors")


if __name__ == "__main__":
    main()
