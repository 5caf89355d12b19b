"""Writes low-rank adapters for data/tiny_sd as PEFT's save_pretrained does, and what is computed with them.

    oracle/bin/python models/lora/testdata/make_peft_goldens.py [--compare]

(The virtual environment of tests/golden/README.md, with peft.) peft_unet/ has ranks and alphas by patterns and
rank-stabilised scales, peft_text_encoder/ one scale. peft_goldens.safetensors has the U-Net's prediction and the
text encoder's states, both with PeftModel's own forward pass, for the inputs of goldens.safetensors. --compare prints how
far this environment is from the goldens and writes nothing.
"""

import pathlib
import shutil
import sys

import torch
from diffusers import UNet2DConditionModel
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file, save_file
from transformers import CLIPTextModel

HERE = pathlib.Path(__file__).parent
MODEL = HERE.parents[2] / "data/tiny_sd"

UNET = LoraConfig(
    r=2, lora_alpha=3, use_rslora=True, init_lora_weights=True,
    target_modules=["mid_block.attentions.0.transformer_blocks.0.attn1.to_q",
                    "mid_block.attentions.0.transformer_blocks.0.attn1.to_k",
                    "mid_block.attentions.0.transformer_blocks.0.attn1.to_out.0",
                    "down_blocks.1.attentions.0.transformer_blocks.0.attn2.to_k",
                    "down_blocks.1.resnets.0.conv1"],
    rank_pattern={"^mid_block.attentions.0.transformer_blocks.0.attn1.to_k": 4, "attn2.to_[kv]": 1},
    alpha_pattern={"conv1": 5, r"mid_block\..*\.to_(q|v)": 7, "to_q": 100})
TEXT = LoraConfig(r=2, lora_alpha=3, target_modules=["layers.0.self_attn.q_proj", "layers.3.mlp.fc1"])


def adapted(model, config, seed):
    torch.manual_seed(seed)
    peft = get_peft_model(model.eval(), config)
    for name, parameter in peft.named_parameters():
        if "lora_" in name:
            parameter.data.normal_(0, 0.3)
    return peft


def save(peft, folder):
    shutil.rmtree(folder, ignore_errors=True)
    peft.save_pretrained(folder)
    for path in folder.iterdir():
        path.chmod(0o644)
        if path.name == "README.md":
            path.unlink()


def main():
    compare = sys.argv[1:] == ["--compare"]
    if not compare:
        save(adapted(UNet2DConditionModel.from_pretrained(MODEL / "unet"), UNET, 7), HERE / "peft_unet")
        save(adapted(CLIPTextModel.from_pretrained(MODEL / "text_encoder"), TEXT, 8), HERE / "peft_text_encoder")
    unet = PeftModel.from_pretrained(UNet2DConditionModel.from_pretrained(MODEL / "unet"), HERE / "peft_unet").eval()
    text = PeftModel.from_pretrained(CLIPTextModel.from_pretrained(MODEL / "text_encoder"),
                                     HERE / "peft_text_encoder").eval()
    inputs = load_file(HERE / "goldens.safetensors")
    with torch.no_grad():
        prediction = unet(inputs["latents"].permute(0, 3, 1, 2), inputs["timesteps"].long(), inputs["context"]).sample
        states = text(inputs["ids"].long())[0]
    out = {"prediction": prediction.permute(0, 2, 3, 1).contiguous(), "states": states.contiguous()}
    if compare:
        for name, golden in load_file(HERE / "peft_goldens.safetensors").items():
            print(name, ((out[name] - golden).norm() / golden.norm()).item())
        return
    save_file(out, HERE / "peft_goldens.safetensors")
    (HERE / "peft_goldens.safetensors").chmod(0o644)


if __name__ == "__main__":
    main()
