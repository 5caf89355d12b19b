"""Writes files of low-rank adapters for data/tiny_sd as diffusers, peft and kohya-ss name them, and what diffusers draws on with each.

    oracle/bin/python models/lora/testdata/make_goldens.py [--compare]

(The virtual environment of tests/golden/README.md, with peft.) Each FORMAT.safetensors is loaded into the pipeline by
load_lora_weights; goldens.safetensors has the inputs and, by format, the U-Net's prediction and the text encoder's
states. A convolution's adapters are in kohya's file, as LyCORIS trains them. --compare prints how far this environment's
diffusers is from the goldens and writes nothing.
"""

import pathlib
import sys

import torch
from diffusers import StableDiffusionPipeline
from diffusers.utils import convert_state_dict_to_diffusers
from peft import LoraConfig
from peft.utils import get_peft_model_state_dict
from safetensors.torch import load_file, save_file

HERE = pathlib.Path(__file__).parent
MODEL = HERE.parents[2] / "data/tiny_sd"
RANK, ALPHA = 2, 3.0
MID, DOWN = "mid_block.attentions.0", "down_blocks.1.attentions.0"
ATTENTIONS = [f"{MID}.transformer_blocks.0.attn1.{layer}" for layer in ("to_q", "to_k", "to_v", "to_out.0")] + [
    f"{DOWN}.transformer_blocks.0.attn2.to_k"]
# Of matrices and of convolutions of 3 x 3 and 1 x 1.
OTHERS = [f"{MID}.proj_in", f"{DOWN}.transformer_blocks.0.ff.net.0.proj", "down_blocks.1.resnets.0.conv1",
          "down_blocks.1.resnets.0.conv_shortcut", "down_blocks.1.resnets.0.time_emb_proj",
          "down_blocks.0.downsamplers.0.conv"]
TEXT = ["self_attn.q_proj", "self_attn.out_proj", "mlp.fc1"]


def pipeline():
    pipe = StableDiffusionPipeline.from_pretrained(MODEL, safety_checker=None, torch_dtype=torch.float32)
    pipe.unet.eval(), pipe.text_encoder.eval()
    return pipe


def adapted(layers, text):
    pipe = pipeline()
    torch.manual_seed(3)
    pipe.unet.add_adapter(LoraConfig(r=RANK, lora_alpha=RANK, target_modules=layers))
    if text:
        targets = [name for name, _ in pipe.text_encoder.named_modules()
                   if any(name.endswith(f"layers.{i}.{layer}") for i in (0, 3) for layer in text)]
        pipe.text_encoder.add_adapter(LoraConfig(r=RANK, lora_alpha=RANK, target_modules=targets))
    for model in (pipe.unet, pipe.text_encoder):
        for name, parameter in model.named_parameters():
            if "lora_" in name:
                parameter.data.normal_(0, 0.3)
    text_state = get_peft_model_state_dict(pipe.text_encoder) if text else {}
    inner = {k if k.startswith("text_model.") else f"text_model.{k}": v for k, v in text_state.items()}
    return get_peft_model_state_dict(pipe.unet), inner


def renamed(state, rules):
    out = {}
    for name, tensor in state.items():
        for old, new in rules:
            name = name.replace(old, new)
        out[name] = tensor
    return out


def prefixed(prefix, state):
    return {f"{prefix}.{name}": tensor for name, tensor in state.items()}


def peft():
    unet, text = adapted(ATTENTIONS + OTHERS, TEXT)
    return prefixed("unet", unet) | prefixed("text_encoder", text)


def diffusers():
    unet, text = adapted(ATTENTIONS, TEXT)
    return (prefixed("unet", convert_state_dict_to_diffusers(unet)) |
            prefixed("text_encoder", convert_state_dict_to_diffusers(text)))


def attention_processors():
    unet, _ = adapted(ATTENTIONS, [])
    rules = [(".to_out.0.", ".to_out."), (".to_", ".processor.to_"), (".lora_A", "_lora.down"), (".lora_B", "_lora.up")]
    return prefixed("unet", renamed(unet, rules))


def kohya():
    unet, text = adapted(ATTENTIONS + OTHERS, TEXT)
    out = {}
    for prefix, state in (("lora_unet_", unet), ("lora_te_", text)):
        for name, tensor in state.items():
            layer, part = name.split(".lora_")
            flat = prefix + layer.replace(".", "_")
            out[f"{flat}.lora_{'down' if part[0] == 'A' else 'up'}.weight"] = tensor
            out[f"{flat}.alpha"] = torch.tensor(ALPHA)
    return out


def compute(path, inputs):
    pipe = pipeline()
    pipe.load_lora_weights(path.parent, weight_name=path.name)
    with torch.no_grad():
        prediction = pipe.unet(inputs["latents"].permute(0, 3, 1, 2), inputs["timesteps"].long(), inputs["context"]).sample
        states = pipe.text_encoder(inputs["ids"].long())[0]
    return {"prediction": prediction.permute(0, 2, 3, 1), "states": states}


def main():
    compare = sys.argv[1:] == ["--compare"]
    generator = torch.Generator().manual_seed(5)
    ids = pipeline().tokenizer(["a large red circle", ""], padding="max_length", truncation=True, return_tensors="pt")
    inputs = {"latents": torch.randn(2, 16, 16, 4, generator=generator), "timesteps": torch.tensor([40, 731]).int(),
              "context": torch.randn(2, 32, 64, generator=generator), "ids": ids.input_ids.int()}
    out = dict(load_file(HERE / "goldens.safetensors")) if compare else dict(inputs)
    for make in (peft, diffusers, attention_processors, kohya):
        path = HERE / f"{make.__name__}.safetensors"
        if not compare:
            save_file({name: tensor.detach().contiguous().clone() for name, tensor in make().items()}, path)
            path.chmod(0o644)
        for name, tensor in compute(path, inputs).items():
            key = f"{make.__name__}/{name}"
            if compare:
                print(key, ((tensor - out[key]).norm() / out[key].norm()).item())
            out.setdefault(key, tensor)
    if not compare:
        save_file({name: tensor.contiguous().clone() for name, tensor in out.items()}, HERE / "goldens.safetensors")
        (HERE / "goldens.safetensors").chmod(0o644)


if __name__ == "__main__":
    main()
