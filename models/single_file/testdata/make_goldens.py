"""Writes goldens.json: digests of what diffusers reads from single files, and checks files that //tools:convert wrote.

    bazel build //tools:convert
    oracle/bin/python models/single_file/testdata/make_goldens.py [--check]

For each case a folder of random weights is made from small configurations of this repository, and converted to a single
file by the tool. Then

1. diffusers' from_single_file must read the folder's weights from the file, bit for bit;
2. it must draw the same picture with the file as from_pretrained with the folder, and as with the folder that the tool
   makes of the file;
3. the file's names and shapes, with values of a formula (uniform() of models/testdata/make_formula_goldens.py), are read
   by from_single_file. goldens.json has a digest of every component so read. (The names are those of the tool's file;
   diffusers finds every tensor of its models by them, or fails.)

With --check nothing is written. Environment: that of tests/golden/README.md. diffusers' converter of FLUX.1 knows only
the width 3072; it is run with the small model's.
"""

import argparse
import inspect
import json
import math
import pathlib
import shutil
import subprocess
import sys
import tempfile

import numpy
import torch
import diffusers
import transformers
from diffusers.loaders import single_file_model, single_file_utils
from safetensors import safe_open
from safetensors.torch import save_file

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path.insert(0, str(ROOT / "models" / "testdata"))
from make_formula_goldens import uniform  # noqa: E402

TOKENS = 24  # of T5

# Configurations, and changes to them. small_case() of single_file_test.cc is the other half.
CASES = {
    "sd1": ("data/tiny_sd", {"unet": {"use_linear_projection": False}}),
    "sd2": ("data/tiny_sd", {"text_encoder": {"hidden_act": "gelu"}}),
    "sdxl": ("models/sdxl/testdata/pipeline", {}),
    "sd3": ("models/sd3/testdata/tiny", {"text_encoder": {"projection_dim": 16},
                                         "transformer": {"pooled_projection_dim": 22}}),
    "flux": ("models/flux/testdata/tiny", {}),
}


def make_folder(source, changes, folder):
    """Configurations and tokenizers, and random weights."""
    source = ROOT / source
    index = json.loads((source / "model_index.json").read_text())
    shutil.copytree(source, folder, ignore=shutil.ignore_patterns("*.safetensors*", "make", "*.png", "README.md", "BUILD"))
    for name, values in changes.items():
        path = folder / name / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | values))
    for name, value in index.items():
        if not isinstance(value, list) or value[1] is None:
            continue
        if value[1] == "CLIPTokenizer":
            shutil.copytree(ROOT / "data" / "tiny_sd" / "tokenizer", folder / name, dirs_exist_ok=True)
        elif value[1] == "T5Tokenizer":
            (folder / name).mkdir(exist_ok=True)
            shutil.copy(ROOT / "models" / "tokenizer" / "testdata" / "t5" / "spiece.model", folder / name)
            (folder / name / "tokenizer_config.json").write_text(json.dumps(
                {"tokenizer_class": "T5Tokenizer", "extra_ids": 100, "model_max_length": TOKENS}))
        elif (folder / name / "config.json").exists():
            library = diffusers if value[0] == "diffusers" else transformers
            cls = getattr(library, value[1])
            torch.manual_seed(1)
            config = cls.load_config(folder / name) if library is diffusers else cls.config_class.from_pretrained(folder / name)
            model = cls.from_config(config) if library is diffusers else cls(config)
            if "joint_attention_dim" in json.loads((folder / name / "config.json").read_text()):
                for parameter in model.parameters():  # some begin at zero
                    torch.nn.init.normal_(parameter, std=0.05)
            if index["_class_name"] == "StableDiffusion3Pipeline" and name == "text_encoder":
                torch.nn.init.eye_(model.text_projection.weight)  # as diffusers reads every such file
            model.save_pretrained(folder / name)


def convert(model, out, *flags):
    subprocess.run([ROOT / "bazel-bin" / "tools" / "convert", f"--model={model}", f"--out={out}", *flags], check=True,
                   stdout=subprocess.DEVNULL, cwd=ROOT)


def canonical(name):
    """transformers 5.6 has dropped "text_model." in CLIPTextModel."""
    flat = name.startswith(("embeddings.", "encoder.layers.", "final_layer_norm."))
    return "text_model." + name if flat else name


def weights(pipeline):
    """By component; without T5's second name of its table, and without position ids."""
    found = {}
    for component, model in pipeline.components.items():
        if isinstance(model, torch.nn.Module):
            found[component] = {canonical(name): value for name, value in model.state_dict().items()
                                if name != "encoder.embed_tokens.weight" and "position_ids" not in name}
            assert not any(value.is_meta for value in found[component].values()), component
    return found


def digest(tensors):
    """Digest() of single_file_test.cc."""
    total = 0
    for name, tensor in tensors.items():
        bits = tensor.contiguous().numpy().view(numpy.uint32).reshape(-1).astype(numpy.uint64)
        places = numpy.arange(bits.size, dtype=numpy.uint64) * numpy.uint64(2) + numpy.uint64(1)
        content = int((bits * (places * numpy.uint64(0x9E3779B97F4A7C15))).sum(dtype=numpy.uint64))
        key = 14695981039346656037
        for byte in f"{name} {' '.join(map(str, tensor.shape))}".encode():
            key = (key ^ byte) * 1099511628211 % 2**64
        total = (total + key * (2 * content + 1)) % 2**64
    return f"{total:016x}"


def draw(pipeline):
    pipeline.set_progress_bar_config(disable=True)
    length = {"max_sequence_length": TOKENS} if hasattr(pipeline, "transformer") else {}
    return pipeline("a large red circle", num_inference_steps=3, height=32, width=32, output_type="np",
                    generator=torch.Generator().manual_seed(1), **length).images


def know_width(folder):
    config = json.loads((folder / "transformer" / "config.json").read_text())
    width = config["attention_head_dim"] * config["num_attention_heads"]
    source = inspect.getsource(single_file_utils.convert_flux_transformer_checkpoint_to_diffusers)
    assert "inner_dim = 3072" in source
    scope = dict(vars(single_file_utils))
    exec(source.replace("inner_dim = 3072", f"inner_dim = {width}"), scope)
    loadable = single_file_model.SINGLE_FILE_LOADABLE_CLASSES["FluxTransformer2DModel"]
    loadable["checkpoint_mapping_fn"] = scope["convert_flux_transformer_checkpoint_to_diffusers"]


def run_case(name, workplace):
    folder, file = workplace / name, workplace / f"{name}.safetensors"
    make_folder(*CASES[name], folder)
    if name == "flux":
        know_width(folder)
    convert(folder, file)
    cls = getattr(diffusers, json.loads((folder / "model_index.json").read_text())["_class_name"])

    def read(path):
        pipeline = cls.from_single_file(path, config=str(folder), local_files_only=True)
        for part in pipeline.components.values():
            if isinstance(part, torch.nn.Module):
                part.eval()  # T5 keeps its dropout otherwise
        return pipeline

    ours, theirs = cls.from_pretrained(folder), read(file)
    expected, found = weights(ours), weights(theirs)
    assert expected.keys() == found.keys(), (expected.keys(), found.keys())
    for component, tensors in expected.items():
        assert tensors.keys() == found[component].keys(), component
        for tensor, value in tensors.items():
            assert torch.equal(value, found[component][tensor]), (component, tensor)
    back = workplace / f"{name}_back"
    convert(file, back, f"--config={folder}")
    pictures = [draw(pipeline) for pipeline in (ours, theirs, cls.from_pretrained(back))]
    assert numpy.isfinite(pictures[0]).all() and pictures[0].std() > 0.01
    for picture in pictures[1:]:
        assert (picture == pictures[0]).all(), abs(picture - pictures[0]).max()
    formula = {}
    with safe_open(file, "pt") as opened:
        for key in opened.keys():
            shape = opened.get_slice(key).get_shape()
            first = key.replace("encoder.embed_tokens", "shared")  # T5's table is there twice
            values = uniform(first, math.prod(shape)).astype(numpy.float32)
            formula[key] = torch.from_numpy(values.reshape(shape))
    save_file(formula, workplace / f"{name}_formula.safetensors")
    print(name, "agrees:", len(formula), "tensors")
    return {component: digest(tensors)
            for component, tensors in weights(read(workplace / f"{name}_formula.safetensors")).items()}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        goldens = {name: run_case(name, pathlib.Path(place)) for name in CASES}
    text = json.dumps(goldens, indent=1) + "\n"
    if arguments.check:
        assert (HERE / "goldens.json").read_text() == text
    else:
        (HERE / "goldens.json").write_text(text)


if __name__ == "__main__":
    main()
