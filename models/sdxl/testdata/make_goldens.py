"""Writes pipeline/, the configurations of a small StableDiffusionXLPipeline, and goldens.safetensors, what diffusers
computes with it.

    oracle/bin/python models/sdxl/testdata/make_goldens.py [--folder=FOLDER]

Weights and inputs are those of models/testdata/make_formula_goldens.py. The tokenizers are data/tiny_sd's, the second
padded with "!" as in SDXL. With --folder only that folder is written, by save_pretrained: the whole pipeline with its
weights. Environment: that of tests/golden/README.md.

Tensors: "ids" and "ids_2" [3, 32] of PROMPTS and the empty text. For epsilon and v_prediction, the latter without
force_zeros_for_empty_prompt: "<type>/latents" and "<type>/pixels", NHWC, float32, drawn from the noise
formula_input("noise") in STEPS steps with guidance GUIDANCE. In float64, a training step of PROMPTS: "losses" and
"gradient_sketches" of the mean loss, with TIMESTEPS and TIME_IDS.
"""

import argparse
import json
import pathlib
import shutil
import sys
import tempfile

import torch
from diffusers import AutoencoderKL, EulerDiscreteScheduler, StableDiffusionXLPipeline, UNet2DConditionModel
from safetensors.torch import save_file
from transformers import CLIPTextConfig, CLIPTextModel, CLIPTextModelWithProjection, CLIPTokenizer

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path.insert(0, str(ROOT / "models" / "testdata"))
from make_formula_goldens import (WithPrefix, backward, formula_input, load, nchw, nhwc, set_weights,  # noqa: E402
                                  sinusoids)

PROMPTS = ["a large red circle! on white", "a small blue square left of a green star"]
STEPS, GUIDANCE = 4, 5.0
TIMESTEPS = [37, 850]
TIME_IDS = [[40, 52, 0, 6, 32, 32], [64, 33, 17, 0, 32, 32]]
TEXT = {
    "attention_dropout": 0.0, "bos_token_id": 602, "eos_token_id": 603, "layer_norm_eps": 1e-05,
    "max_position_embeddings": 32, "model_type": "clip_text_model", "num_hidden_layers": 3, "vocab_size": 604,
}
TOKENIZER = {
    "tokenizer_class": "CLIPTokenizer", "model_max_length": 32, "do_lower_case": True, "add_prefix_space": False,
    "bos_token": "<|startoftext|>", "eos_token": "<|endoftext|>", "pad_token": "<|endoftext|>",
    "unk_token": "<|endoftext|>",
}


def added(*tokens):
    flags = {"lstrip": False, "normalized": False, "rstrip": False, "single_word": False, "special": True}
    return {"added_tokens_decoder": {str(number): {"content": text} | flags for number, text in tokens}}


CONFIGS = {
    "model_index.json": {
        "_class_name": "StableDiffusionXLPipeline", "_diffusers_version": "0.42.1", "feature_extractor": [None, None],
        "force_zeros_for_empty_prompt": True, "image_encoder": [None, None],
        "scheduler": ["diffusers", "EulerDiscreteScheduler"], "text_encoder": ["transformers", "CLIPTextModel"],
        "text_encoder_2": ["transformers", "CLIPTextModelWithProjection"],
        "tokenizer": ["transformers", "CLIPTokenizer"], "tokenizer_2": ["transformers", "CLIPTokenizer"],
        "unet": ["diffusers", "UNet2DConditionModel"], "vae": ["diffusers", "AutoencoderKL"],
    },
    "scheduler/scheduler_config.json": {
        "_class_name": "EulerDiscreteScheduler", "beta_end": 0.012, "beta_schedule": "scaled_linear",
        "beta_start": 0.00085, "clip_sample": False, "interpolation_type": "linear", "num_train_timesteps": 1000,
        "prediction_type": "epsilon", "sample_max_value": 1.0, "set_alpha_to_one": False, "skip_prk_steps": True,
        "steps_offset": 1, "timestep_spacing": "leading", "trained_betas": None, "use_karras_sigmas": False,
    },
    "text_encoder/config.json": TEXT | {
        "architectures": ["CLIPTextModel"], "hidden_act": "quick_gelu", "hidden_size": 24, "intermediate_size": 80,
        "num_attention_heads": 3, "projection_dim": 24,
    },
    "text_encoder_2/config.json": TEXT | {
        "architectures": ["CLIPTextModelWithProjection"], "hidden_act": "gelu", "hidden_size": 16,
        "intermediate_size": 64, "num_attention_heads": 2, "projection_dim": 20,
    },
    "tokenizer/tokenizer_config.json": TOKENIZER | added((602, "<|startoftext|>"), (603, "<|endoftext|>")),
    "tokenizer_2/tokenizer_config.json":
        TOKENIZER | {"pad_token": "!"} | added((0, "!"), (602, "<|startoftext|>"), (603, "<|endoftext|>")),
    "unet/config.json": load("unet_xl"),
    "vae/config.json": load("vae_small") | {"force_upcast": True, "sample_size": 32, "scaling_factor": 0.13025},
}


def write_configs(folder):
    for name, config in CONFIGS.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(config, indent=2) + "\n")


def tokenizer(name):
    with tempfile.TemporaryDirectory() as scratch:
        for file in ["merges.txt", "vocab.json"]:
            shutil.copy(ROOT / "data" / "tiny_sd" / "tokenizer" / file, scratch)
        (pathlib.Path(scratch) / "tokenizer_config.json").write_text(
            json.dumps(CONFIGS[f"{name}/tokenizer_config.json"]))
        return CLIPTokenizer.from_pretrained(scratch)


def make_pipeline(prediction_type="epsilon", force_zeros=True):
    text = CLIPTextModel(CLIPTextConfig(**CONFIGS["text_encoder/config.json"])).eval()
    text_2 = CLIPTextModelWithProjection(CLIPTextConfig(**CONFIGS["text_encoder_2/config.json"])).eval()
    unet = UNet2DConditionModel.from_config(CONFIGS["unet/config.json"])
    vae = AutoencoderKL.from_config(CONFIGS["vae/config.json"])
    for model in [WithPrefix(text), text_2, unet, vae]:
        set_weights(model)
    scheduler = EulerDiscreteScheduler.from_config(
        CONFIGS["scheduler/scheduler_config.json"] | {"prediction_type": prediction_type})
    pipeline = StableDiffusionXLPipeline(vae, text, text_2, tokenizer("tokenizer"), tokenizer("tokenizer_2"), unet,
                                         scheduler, force_zeros_for_empty_prompt=force_zeros, add_watermarker=False)
    pipeline.set_progress_bar_config(disable=True)
    return pipeline


def draw(pipeline):
    size, channels = pipeline.unet.config.sample_size, pipeline.unet.config.in_channels
    noise = nchw(formula_input("noise", len(PROMPTS), size, size, channels))
    latents = pipeline(PROMPTS, latents=noise, num_inference_steps=STEPS, guidance_scale=GUIDANCE,
                       output_type="latent").images
    with torch.no_grad():
        pixels = pipeline.vae.decode(latents / pipeline.vae.config.scaling_factor).sample
    return {"latents": nhwc(latents), "pixels": nhwc(pixels)}


def train(pipeline):
    for model in [pipeline.text_encoder, pipeline.text_encoder_2, pipeline.unet]:
        model.double()
    context, _, pooled, _ = pipeline.encode_prompt(PROMPTS, do_classifier_free_guidance=False)
    unet, size, channels = pipeline.unet, pipeline.unet.config.sample_size, pipeline.unet.config.in_channels
    # diffusers has float32 sinusoids.
    unet.time_proj.forward = lambda t: sinusoids(t.double(), unet.config.block_out_channels[0])
    unet.add_time_proj.forward = lambda t: sinusoids(t.double(), unet.config.addition_time_embed_dim)
    latents, noise = (nchw(formula_input(name, 2, size, size, channels)).double() for name in ["latents", "noise"])
    betas = torch.linspace(0.00085**0.5, 0.012**0.5, 1000, dtype=torch.float64) ** 2
    abar = torch.cumprod(1 - betas, 0)[TIMESTEPS][:, None, None, None]
    noisy = abar.sqrt() * latents + (1 - abar).sqrt() * noise
    added_conditions = {"text_embeds": pooled.detach(), "time_ids": torch.tensor(TIME_IDS).double()}
    prediction = unet(noisy, torch.tensor(TIMESTEPS), context.detach(), added_cond_kwargs=added_conditions).sample
    losses = (prediction - noise).square().mean((1, 2, 3))
    return {"losses": losses, "gradient_sketches": backward(unet, losses.mean())}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=pathlib.Path)
    args = parser.parse_args()
    pipeline = make_pipeline()
    if args.folder is not None:
        pipeline.save_pretrained(args.folder)
        return
    write_configs(HERE / "pipeline")
    goldens = {}
    for name, coder in [("ids", pipeline.tokenizer), ("ids_2", pipeline.tokenizer_2)]:
        goldens[name] = coder(PROMPTS + [""], padding="max_length", max_length=coder.model_max_length, truncation=True,
                              return_tensors="pt").input_ids.int()
    for prediction_type, force_zeros in [("epsilon", True), ("v_prediction", False)]:
        for name, tensor in draw(make_pipeline(prediction_type, force_zeros)).items():
            goldens[f"{prediction_type}/{name}"] = tensor.float()
    goldens |= {name: tensor.detach().float() for name, tensor in train(pipeline).items()}
    save_file({name: tensor.contiguous().clone() for name, tensor in goldens.items()}, HERE / "goldens.safetensors")
    (HERE / "goldens.safetensors").chmod(0o644)


if __name__ == "__main__":
    main()
