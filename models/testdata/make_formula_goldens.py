"""Writes <case>.safetensors: what diffusers and transformers compute with weights and inputs that a formula gives.

    oracle/bin/python models/testdata/make_formula_goldens.py [--compare] [case ...]

Cases: the small models unet_mixed, unet_conv, vae_small_encoder, vae_small_decoder, vae_shifted_encoder,
vae_shifted_decoder, unet_xl, text_quick, text_exact, and the full-size ones unet_v15, unet_v21, vae_sd_encoder, vae_sd_decoder, text_v15, text_v21; all of them where none is named.
In mmdit/: the small transformers sd3_plain, sd3_dual, flux_guided and flux_plain, and blocks of full width, sd35_blocks
and flux_blocks. Their and unet_xl's latents, context and pooled text first pass a linear layer each ("probe"): its weight's gradient
shows the gradient of the input.
Configurations are the .json files beside this. Computed in float64 from float32 inputs and weights, rounded once.
A case takes 3 GB of memory at most. With --compare nothing is written: how far PyTorch's own float32 and
bfloat16 are from the stored goldens is printed.

Tensors of a file: "output", NHWC or [batch, tokens, channels] (U-Nets: the prediction; text: the states of a few tokens
only), "output_sketch" of the whole output, "losses" (U-Nets: a sample's mean squared error), and "gradient_sketches",
a row a parameter in the order of sorted names: of the mean loss (U-Nets) or of sum(output * "output_gradient");
"bf16_errors", of PyTorch's own bfloat16: of the output, and of the gradients the root mean square and the worst.

A sketch of a tensor g is [|g|, s1.g, ..., s8.g] with signs s from a formula: |s.d|^2 has the mean |d|^2 over random
signs, so that sketches tell how far two tensors are apart, wherever in them the difference is.
formula_weights.h and sketch.h are the other halves of the formulas. Environment: that of tests/golden/README.md.
"""

import argparse
import json
import math
import pathlib

import numpy
import torch
from diffusers import AutoencoderKL, FluxTransformer2DModel, SD3Transformer2DModel, UNet2DConditionModel
from diffusers.models.embeddings import PatchEmbed
from safetensors.torch import load_file, save_file
from transformers import CLIPTextConfig, CLIPTextModel, CLIPTextModelWithProjection, T5Config, T5EncoderModel

HERE = pathlib.Path(__file__).parent
SIGNS = 8
TOKENS = [0, 1, 6, -1]  # whose states are stored


def bits(name, count):
    """32 bits for each element of a tensor of that name."""
    key = 2166136261
    for byte in name.encode():
        key = ((key ^ byte) * 16777619) % 2**32
    mixed = numpy.arange(count, dtype=numpy.uint32)
    mixed += numpy.uint32(key)
    mixed *= numpy.uint32(2654435761)
    mixed ^= mixed >> 15
    mixed *= numpy.uint32(2246822519)
    return mixed


def uniform(name, count):
    """In [-1, 1), by 2^-23."""
    return (bits(name, count) >> 8).astype(numpy.float64) / 2**23 - 1


def weight(name, shape):
    """uniform in +-sqrt(1.5 / fan_in); norms' scales around 1."""
    count = math.prod(shape)
    if len(shape) == 1:
        values = 0.2 * uniform(name, count) + (1 if "norm" in name and name.endswith("weight") else 0)
    else:
        values = uniform(name, count) * math.sqrt(1.5 / (count // shape[0]))
    return torch.from_numpy(values.astype(numpy.float32).reshape(shape))


def formula_input(name, *shape):
    """Mean 0, variance 1."""
    values = uniform("input/" + name, math.prod(shape)) * math.sqrt(3)
    return torch.from_numpy(values.astype(numpy.float32).reshape(shape))


def formula_ids(name, bound, *shape):
    ids = (bits("input/" + name, math.prod(shape)) >> 8) % bound
    return torch.from_numpy(ids.astype(numpy.int64).reshape(shape))


def sketch(name, tensor):
    """By parts: full-size weights have tens of millions of elements."""
    flat = tensor.detach().double().flatten()
    random = bits("sign/" + name, flat.numel())
    result = torch.zeros(1 + SIGNS, dtype=torch.float64)
    for i in range(0, flat.numel(), 2**22):
        part = flat[i : i + 2**22]
        result[0] += part.square().sum()
        is_minus = numpy.unpackbits((random[i : i + 2**22, None] >> 24).astype(numpy.uint8), axis=1, bitorder="little")
        result[1:] += part.sum() - 2 * (part @ torch.from_numpy(is_minus.astype(numpy.float64)))
    result[0] = result[0].sqrt()
    return result


def nhwc(x):
    return x.permute(0, 2, 3, 1).contiguous()


def nchw(x):
    return x.permute(0, 3, 1, 2)


def set_weights(model):
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(weight(name, tuple(parameter.shape)))


def backward(model, scalar):
    """Every gradient's sketch, by name; each gradient is dropped as soon as it is known."""
    sketches = {}

    def take(name):
        def hook(parameter):
            sketches[name] = sketch(name, parameter.grad)
            parameter.grad = None
        return hook

    for name, parameter in model.named_parameters():
        parameter.register_post_accumulate_grad_hook(take(name))
    scalar.backward()
    return torch.stack([sketches[name] for name in sorted(sketches)])


class FormulaWeight(torch.autograd.Function):
    """A weight made where it is used; its gradient's sketch goes to `sketches` and the gradient nowhere."""

    @staticmethod
    def forward(context, anchor, name, shape, dtype, sketches):
        context.name, context.sketches = name, sketches
        return weight(name, shape).to(dtype)

    @staticmethod
    def backward(context, gradient):
        context.sketches[context.name] = sketch(context.name, gradient)  # used once each, so nothing is added up
        return torch.zeros(()), None, None, None, None


class WithoutWeights:
    """Runs a model on the meta device: a module's weights exist only while it runs, forward or backward.

    Full-size U-Nets have 7 GB of weights in float64, and as much of gradients. Autograd keeps a weight for the backward
    pass by its name, and it is made again there.
    """

    def __init__(self, model, dtype, prefix=""):
        self.sketches, self.live, self.dtype = {}, {}, dtype
        self.anchor = torch.zeros((), requires_grad=True)  # so that a gradient is asked for
        for path, module in model.named_modules():
            parameters = {key: value for key, value in module._parameters.items() if value is not None}
            for key, parameter in parameters.items():
                module._parameters["meta_" + key] = module._parameters.pop(key)  # the model reads its dtype from them
                module.__dict__[key] = parameter  # for code that asks for a shape
            if parameters:
                shapes = {key: tuple(parameter.shape) for key, parameter in parameters.items()}
                module.register_forward_pre_hook(self.make(prefix + path, shapes))
                module.register_forward_hook(self.drop(parameters))

    def make(self, path, shapes):
        def hook(module, _):
            for key, shape in shapes.items():
                name = f"{path}.{key}"
                made = FormulaWeight.apply(self.anchor, name, shape, self.dtype, self.sketches)
                self.live[made.data_ptr()] = (name, shape)
                module.__dict__[key] = made
        return hook

    def drop(self, parameters):
        def hook(module, *_):
            for key, parameter in parameters.items():
                del self.live[module.__dict__[key].data_ptr()]
                module.__dict__[key] = parameter
        return hook

    def pack(self, tensor):
        found = self.live.get(tensor.data_ptr())
        return tensor if found is None else (*found, tensor.size(), tensor.stride())

    def unpack(self, packed):
        if isinstance(packed, torch.Tensor):
            return packed
        name, shape, size, stride = packed
        return weight(name, shape).to(self.dtype).as_strided(size, stride)

    def gradients(self):
        return torch.stack([self.sketches[name] for name in sorted(self.sketches)])

    def saving(self):
        return torch.autograd.graph.saved_tensors_hooks(self.pack, self.unpack)


def load(name):
    return json.loads((HERE / f"{name}.json").read_text())


def unet(name, height, width, length, prediction_type, dtype):
    config = load(name)
    with torch.device("meta"):
        model = UNet2DConditionModel.from_config(config).to(dtype)
    weights = WithoutWeights(model, dtype)
    latents = formula_input("latents", 2, height, width, config["in_channels"]).double()
    noise = formula_input("noise", 2, height, width, config["out_channels"]).double()
    context = formula_input("context", 2, length, config["cross_attention_dim"])
    timesteps = torch.tensor([3, 912])
    betas = torch.linspace(0.00085**0.5, 0.012**0.5, 1000, dtype=torch.float64) ** 2
    abar = torch.cumprod(1 - betas, 0)[timesteps][:, None, None, None]
    noisy = abar.sqrt() * latents + (1 - abar).sqrt() * noise
    target = noise if prediction_type == "epsilon" else abar.sqrt() * noise - (1 - abar).sqrt() * latents
    with weights.saving():
        prediction = nhwc(model(nchw(noisy).to(dtype), timesteps, context.to(dtype)).sample).double()
        losses = (prediction - target).square().mean((1, 2, 3))
    losses.mean().backward()
    return {"output": prediction, "output_sketch": sketch("output", prediction), "losses": losses,
            "gradient_sketches": weights.gradients()}


def add_probes(model, widths):
    with torch.device("meta"):
        model.probe = torch.nn.ModuleDict({key: torch.nn.Linear(n, n, bias=False) for key, n in widths.items()})


def probed_unet(name, height, width, length, dtype):
    config = load(name)
    with torch.device("meta"):
        model = UNet2DConditionModel.from_config(config)
    ids_width = config["addition_time_embed_dim"]
    widths = {"latents": config["in_channels"], "context": config["cross_attention_dim"],
              "pooled": config["projection_class_embeddings_input_dim"] - 6 * ids_width}
    add_probes(model, widths)
    model = model.to(dtype)
    weights = WithoutWeights(model, dtype)
    shapes = {"latents": (2, height, width), "context": (2, length), "pooled": (2,)}
    # diffusers has float32 sinusoids.
    model.time_proj.forward = lambda t: sinusoids(t.double(), config["block_out_channels"][0]).to(dtype)
    model.add_time_proj.forward = lambda t: sinusoids(t.double(), ids_width).to(dtype)
    time_ids = torch.tensor([[1024, 768, 0, 128, 512, 640], [333, 500, 17, 0, 256, 256]])
    with weights.saving():
        latents, context, pooled = (
            model.probe[key](formula_input(key, *shapes[key], n).to(dtype)) for key, n in widths.items())
        added = {"text_embeds": pooled, "time_ids": time_ids}
        output = nhwc(model(nchw(latents), torch.tensor([3, 912]), context, added_cond_kwargs=added).sample)
        scalar = (output.double() * formula_input("output_gradient", *output.shape)).sum()
    scalar.backward()
    return {"output": output, "output_sketch": sketch("output", output), "gradient_sketches": weights.gradients()}


def vae(name, half, height, width, dtype):
    config = load(name)
    model = AutoencoderKL.from_config(config).to(dtype)
    set_weights(model)
    factor = 2 ** (len(config["block_out_channels"]) - 1)
    small = (2, height // factor, width // factor, config["latent_channels"])
    scale, shift = config["scaling_factor"], config.get("shift_factor") or 0
    if half == "encoder":
        pixels = formula_input("pixels", 2, height, width, config["in_channels"])
        posterior = model.encode(nchw(pixels).to(dtype)).latent_dist
        noise = formula_input("vae_noise", *small)
        output = scale * nhwc(posterior.mean + posterior.std * nchw(noise).to(dtype) - shift)
    else:
        latents = formula_input("latents", *small)
        output = nhwc(model.decode(nchw(latents).to(dtype) / scale + shift).sample)
    gradients = backward(model, (output.double() * formula_input("output_gradient", *output.shape)).sum())
    return {"output": output, "output_sketch": sketch("output", output), "gradient_sketches": gradients}


def text(name, length, dtype):
    config = load(name)
    ids = {"bos_token_id": 0, "eos_token_id": 2, "pad_token_id": 1}  # play no part in the last hidden state
    with torch.device("meta"):
        model = CLIPTextModel(CLIPTextConfig(**config, **ids, attn_implementation="sdpa")).to(dtype)
    for module in model.modules():
        if hasattr(module, "position_ids"):
            module.position_ids = torch.arange(config["max_position_embeddings"])[None]
    weights = WithoutWeights(model, dtype, "text_model.")
    with weights.saving():
        output = model(formula_ids("ids", config["vocab_size"], 2, length)).last_hidden_state
        scalar = (output.double() * formula_input("output_gradient", *output.shape)).sum()
    scalar.backward()
    return {"output": output[:, TOKENS], "output_sketch": sketch("output", output),
            "gradient_sketches": weights.gradients()}


class WithPrefix(torch.nn.Module):
    """Gives a CLIPTextModel's parameters the names of the public checkpoints."""

    def __init__(self, model):
        super().__init__()
        self.text_model = model


def pooled_text(name, length, dtype):
    config = load(name)
    ids = {"bos_token_id": 0, "pad_token_id": 1}
    projects = config["architectures"] == ["CLIPTextModelWithProjection"]
    clip = (CLIPTextModelWithProjection if projects else CLIPTextModel)(CLIPTextConfig(**config, **ids)).to(dtype).eval()
    model = clip if projects else WithPrefix(clip)
    set_weights(model)
    result = clip(formula_ids("ids", config["vocab_size"], 2, length), output_hidden_states=True)
    pooled = result.text_embeds if projects else result.pooler_output
    penultimate = result.hidden_states[-2]
    scalar = (pooled.double() * formula_input("output_gradient", *pooled.shape)).sum()
    if projects:
        scalar = scalar + (penultimate.double() * formula_input("penultimate_gradient", *penultimate.shape)).sum()
    return {"output": pooled, "penultimate": penultimate,
            "penultimate_with_norm": model.text_model.final_layer_norm(penultimate),
            "gradient_sketches": backward(model, scalar)}


def t5(name, length, dtype):
    config = load(name)
    model = T5EncoderModel(T5Config(**config)).to(dtype).eval()  # without dropout
    set_weights(model)
    output = model(formula_ids("ids", config["vocab_size"], 2, length)).last_hidden_state
    gradients = backward(model, (output.double() * formula_input("output_gradient", *output.shape)).sum())
    return {"output": output, "gradient_sketches": gradients}


def transformer(name, make, height, width, length, dtype):
    config = load(name)
    with torch.device("meta"):
        model = make.from_config(config)
    is_flux = make is FluxTransformer2DModel
    channels = config["in_channels"] // 4 if is_flux else config["in_channels"]
    widths = {"latents": channels, "context": config["joint_attention_dim"], "pooled": config["pooled_projection_dim"]}
    add_probes(model, widths)
    if not is_flux:
        size = config["sample_size"]
        model.pos_embed.pos_embed = PatchEmbed(size, size, config["patch_size"], channels, model.inner_dim,
                                               pos_embed_max_size=config["pos_embed_max_size"]).pos_embed
    model = model.to(dtype)
    weights = WithoutWeights(model, dtype)
    shapes = {"latents": (2, height, width), "context": (2, length), "pooled": (2,)}
    # Their products by 1000 are bfloat16 numbers: diffusers rounds them.
    levels = torch.tensor([0.5, 0.0625])
    # diffusers has float32 sinusoids, with an error of 1e-4 at an angle of 1000.
    model.time_text_embed.time_proj.forward = lambda t: sinusoids(t.double(), 256).to(dtype)
    with weights.saving():
        latents, context, pooled = (
            model.probe[key](formula_input(key, *shapes[key], n).to(dtype)) for key, n in widths.items())
        if is_flux:
            rows, columns = height // 2, width // 2
            ids = torch.zeros(rows, columns, 3)
            ids[..., 1] = torch.arange(rows)[:, None]
            ids[..., 2] = torch.arange(columns)
            packed = latents.reshape(2, rows, 2, columns, 2, channels).permute(0, 1, 3, 5, 2, 4)
            guidance = torch.tensor([4.0, 2.0]).to(dtype) if config.get("guidance_embeds") else None
            tokens = model(packed.reshape(2, rows * columns, 4 * channels), context, pooled, levels.to(dtype),
                           ids.reshape(-1, 3), torch.zeros(length, 3), guidance).sample
            unpacked = tokens.reshape(2, rows, columns, channels, 2, 2).permute(0, 1, 4, 2, 5, 3)
            output = unpacked.reshape(2, height, width, channels)
        else:
            output = nhwc(model(nchw(latents), context, pooled, 1000 * levels).sample)
        scalar = (output.double() * formula_input("output_gradient", *output.shape)).sum()
    scalar.backward()
    return {"output": output, "output_sketch": sketch("output", output), "gradient_sketches": weights.gradients()}


def sinusoids(timesteps, width):
    """Cosines first, as diffusers' Timesteps(flip_sin_to_cos=True)."""
    angles = timesteps[:, None] * 10000 ** (-torch.arange(width // 2, dtype=torch.float64) / (width // 2))
    return torch.cat([angles.cos(), angles.sin()], dim=1)


CASES = {
    "unet_mixed": lambda dtype: unet("unet_mixed", 8, 12, 5, "epsilon", dtype),
    "unet_conv": lambda dtype: unet("unet_conv", 8, 12, 5, "v_prediction", dtype),
    "unet_xl": lambda dtype: probed_unet("unet_xl", 8, 12, 5, dtype),
    "vae_small_encoder": lambda dtype: vae("vae_small", "encoder", 16, 24, dtype),
    "vae_small_decoder": lambda dtype: vae("vae_small", "decoder", 16, 24, dtype),
    "vae_shifted_encoder": lambda dtype: vae("vae_shifted", "encoder", 16, 8, dtype),
    "vae_shifted_decoder": lambda dtype: vae("vae_shifted", "decoder", 16, 8, dtype),
    "text_quick": lambda dtype: text("text_quick", 20, dtype),
    "text_exact": lambda dtype: text("text_exact", 20, dtype),
    "text_pooled": lambda dtype: pooled_text("text_pooled", 20, dtype),
    "text_legacy": lambda dtype: pooled_text("text_legacy", 20, dtype),
    "t5_small": lambda dtype: t5("t5_small", 150, dtype),
    "unet_v15": lambda dtype: unet("unet_v15", 16, 24, 77, "epsilon", dtype),
    "unet_v21": lambda dtype: unet("unet_v21", 16, 24, 77, "v_prediction", dtype),
    "vae_sd_encoder": lambda dtype: vae("vae_sd", "encoder", 48, 64, dtype),
    "vae_sd_decoder": lambda dtype: vae("vae_sd", "decoder", 48, 64, dtype),
    "text_v15": lambda dtype: text("text_v15", 77, dtype),
    "text_v21": lambda dtype: text("text_v21", 77, dtype),
    "mmdit/sd3_plain": lambda dtype: transformer("mmdit/sd3_plain", SD3Transformer2DModel, 8, 12, 5, dtype),
    "mmdit/sd3_dual": lambda dtype: transformer("mmdit/sd3_dual", SD3Transformer2DModel, 6, 10, 4, dtype),
    "mmdit/flux_guided": lambda dtype: transformer("mmdit/flux_guided", FluxTransformer2DModel, 8, 12, 5, dtype),
    "mmdit/flux_plain": lambda dtype: transformer("mmdit/flux_plain", FluxTransformer2DModel, 6, 10, 4, dtype),
    "mmdit/sd35_blocks": lambda dtype: transformer("mmdit/sd35_blocks", SD3Transformer2DModel, 8, 12, 16, dtype),
    "mmdit/flux_blocks": lambda dtype: transformer("mmdit/flux_blocks", FluxTransformer2DModel, 8, 12, 16, dtype),
}


def errors(case, golden, dtype):
    """Relative L2 errors of PyTorch in `dtype`: of the output; of the gradients, root mean square and worst."""
    golden = {key: value.detach().double() for key, value in golden.items()}
    actual = {key: value.detach().double() for key, value in CASES[case](dtype).items()}
    norms = golden["gradient_sketches"][:, 0]
    there = norms > 1e-10 * norms.max()  # the others are zero but for rounding: biases of keys
    output = (actual["output"] - golden["output"]).norm() / golden["output"].norm()
    difference = (actual["gradient_sketches"] - golden["gradient_sketches"])[there, 1:]
    gradients = difference.square().mean(1).sqrt() / norms[there]
    result = torch.stack([output, gradients.square().mean().sqrt(), gradients.max()])
    print(f"{case:18s} {str(dtype):15s} output {result[0]:.1e}, gradients: root mean square {result[1]:.1e}, "
          f"worst {result[2]:.1e}", flush=True)
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compare", action="store_true")
    parser.add_argument("--bf16_errors", action="store_true", help="measure these anew, keep the rest")
    parser.add_argument("case", nargs="*")
    args = parser.parse_args()
    for case in args.case or CASES:
        if args.compare:
            golden = load_file(HERE / f"{case}.safetensors")
            errors(case, golden, torch.float32)
            errors(case, golden, torch.bfloat16)
            continue
        if args.bf16_errors:
            golden = load_file(HERE / f"{case}.safetensors")
            golden.pop("bf16_errors", None)
        else:
            golden = {key: value.detach() for key, value in CASES[case](torch.float64).items()}
            save_file({key: value.float().contiguous().clone() for key, value in golden.items()},
                      HERE / f"{case}.safetensors")
        golden["bf16_errors"] = errors(case, golden, torch.bfloat16)
        tensors = {key: value.float().contiguous().clone() for key, value in golden.items()}
        save_file(tensors, HERE / f"{case}.safetensors")
        (HERE / f"{case}.safetensors").chmod(0o644)


if __name__ == "__main__":
    main()
