"""Writes a folder of FLUX.1 dev in diffusers' layout with random weights.

  python3 bench/full_size/make_flux_folder.py FOLDER [--t5_layers=2] [--dtype=bf16]

The transformer (11,901,408,320 parameters), the VAE and CLIP-L have the published sizes. T5 v1.1 XXL
has its widths, and 24 layers unless --t5_layers says otherwise. Matrices of the transformer and of T5
are stored in fp8 (E4M3), as FLUX.1 is often published, or in bf16; all other weights are in bf16.
Tokenizers are those of this repository: CLIP's of the built-in models and a small sentencepiece model
for T5. Names and shapes come from torch, diffusers and transformers. Run it in the root of the
repository.
"""

import argparse
import json
import math
import pathlib
import shutil

import diffusers
import torch
import transformers

parser = argparse.ArgumentParser()
parser.add_argument("folder", type=pathlib.Path)
parser.add_argument("--t5_layers", type=int, default=24)
parser.add_argument("--dtype", choices=["fp8", "bf16"], default="fp8")
args = parser.parse_args()

CONFIGS = {
    "model_index.json": {
        "_class_name": "FluxPipeline",
        "scheduler": ["diffusers", "FlowMatchEulerDiscreteScheduler"],
        "text_encoder": ["transformers", "CLIPTextModel"],
        "text_encoder_2": ["transformers", "T5EncoderModel"],
        "tokenizer": ["transformers", "CLIPTokenizer"],
        "tokenizer_2": ["transformers", "T5Tokenizer"],
        "transformer": ["diffusers", "FluxTransformer2DModel"],
        "vae": ["diffusers", "AutoencoderKL"],
    },
    "scheduler/scheduler_config.json": {
        "_class_name": "FlowMatchEulerDiscreteScheduler",
        "base_image_seq_len": 256,
        "base_shift": 0.5,
        "max_image_seq_len": 4096,
        "max_shift": 1.15,
        "num_train_timesteps": 1000,
        "shift": 3.0,
        "use_dynamic_shifting": True,
    },
    "vae/config.json": {
        "_class_name": "AutoencoderKL",
        "act_fn": "silu",
        "block_out_channels": [128, 256, 512, 512],
        "down_block_types": ["DownEncoderBlock2D"] * 4,
        "in_channels": 3,
        "latent_channels": 16,
        "layers_per_block": 2,
        "norm_num_groups": 32,
        "out_channels": 3,
        "sample_size": 1024,
        "scaling_factor": 0.3611,
        "shift_factor": 0.1159,
        "up_block_types": ["UpDecoderBlock2D"] * 4,
        "use_post_quant_conv": False,
        "use_quant_conv": False,
    },
    "tokenizer_2/tokenizer_config.json": {
        "tokenizer_class": "T5Tokenizer",
        "extra_ids": 100,
        "model_max_length": 512,
    },
}
COPIES = {
    "models/testdata/mmdit/flux_dev.json": "transformer/config.json",
    "data/models/stable_diffusion_v1_5/text_encoder/config.json": "text_encoder/config.json",
    "models/tokenizer/testdata/t5/spiece.model": "tokenizer_2/spiece.model",
}

for name, config in CONFIGS.items():
    path = args.folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(config, indent=2) + "\n")
for source, name in COPIES.items():
    (args.folder / name).parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, args.folder / name)
shutil.copytree("data/models/stable_diffusion_v1_5/tokenizer", args.folder / "tokenizer",
                dirs_exist_ok=True)
t5 = json.loads(pathlib.Path("models/testdata/t5_xxl.json").read_text())
t5["num_layers"] = args.t5_layers
(args.folder / "text_encoder_2").mkdir(parents=True, exist_ok=True)
(args.folder / "text_encoder_2/config.json").write_text(json.dumps(t5, indent=2) + "\n")

SAFETENSORS_NAMES = {torch.float8_e4m3fn: "F8_E4M3", torch.bfloat16: "BF16"}
NUM_AT_ONCE = 1 << 24


def values(name, shape, dtype):
    """Yields the bytes of a tensor: biases are 0, norms' weights 1, all others normal."""
    count = math.prod(shape)
    for begin in range(0, count, NUM_AT_ONCE):
        n = min(NUM_AT_ONCE, count - begin)
        if len(shape) > 1:
            numbers = torch.empty(n).normal_(std=0.01)
        else:
            numbers = torch.full([n], 0.0 if name.endswith("bias") else 1.0)
        yield numbers.to(dtype).view(torch.uint8).numpy().tobytes()


def write(path, module, matrices):
    """Writes one file of a module on the meta device."""
    header, end, tensors = {}, 0, []
    for name, tensor in module.state_dict().items():
        if name == "encoder.embed_tokens.weight":
            continue  # T5's shared.weight again
        shape = list(tensor.shape)
        dtype = matrices if len(shape) == 2 else torch.bfloat16
        size = math.prod(shape) * dtype.itemsize
        header[name] = {"dtype": SAFETENSORS_NAMES[dtype], "shape": shape,
                        "data_offsets": [end, end + size]}
        end += size
        tensors.append((name, shape, dtype))
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for tensor in tensors:
            for piece in values(*tensor):
                file.write(piece)


def config(name):
    return json.loads((args.folder / name / "config.json").read_text())


torch.manual_seed(0)
with torch.device("meta"):
    transformer = diffusers.FluxTransformer2DModel.from_config(config("transformer"))
    vae = diffusers.AutoencoderKL.from_config(config("vae"))
    clip = transformers.CLIPTextModel(transformers.CLIPTextConfig(**config("text_encoder")))
    t5_encoder = transformers.T5EncoderModel(transformers.T5Config(**config("text_encoder_2")))
matrices = torch.float8_e4m3fn if args.dtype == "fp8" else torch.bfloat16
write(args.folder / "transformer/diffusion_pytorch_model.safetensors", transformer, matrices)
write(args.folder / "text_encoder_2/model.safetensors", t5_encoder, matrices)
write(args.folder / "vae/diffusion_pytorch_model.safetensors", vae, torch.bfloat16)
write(args.folder / "text_encoder/model.safetensors", clip, torch.bfloat16)
