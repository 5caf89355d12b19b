"""Writes ops.safetensors and ops.json: PyTorch's outputs and gradients for every op of core/ops.

Inputs are drawn in float32; everything is computed in float64 and rounded once, so a golden's own error is half
a unit in the last place. Tensors are called `<case>/<name>`; a gradient is `d` + the name of what it belongs to,
for the output gradient `<case>/dy`. Activations are NHWC (or [rows, channels], [batch, tokens, channels]),
convolution weights OIHW, linear weights [out, in]. ops.json gives each case's op and attributes.
"""

import json
import math
import pathlib

import torch
from diffusers.models.embeddings import get_timestep_embedding
from safetensors.torch import save_file
from torch.nn import functional as F

HERE = pathlib.Path(__file__).parent
tensors, index = {}, {}
generator = torch.Generator().manual_seed(20240601)


def draw(*shape, scale=1.0):
    return (torch.randn(shape, generator=generator) * scale).double()


def nhwc(x):
    return x.permute(0, 2, 3, 1)


def nchw(x):
    return x.permute(0, 3, 1, 2)


def store(case, name, value):
    if value.is_floating_point():
        value = value.float()
    tensors[f"{case}/{name}"] = value.detach().contiguous().clone()


def record(case, op, function, inputs, attributes, constants=None):
    """Runs `function` on `inputs` (a dict of float64 leaves), stores them, the output and all gradients.

    `constants` (integer inputs) are stored, and passed too, but have no gradient.
    """
    leaves = {name: value.requires_grad_(True) for name, value in inputs.items()}
    y = function(**leaves, **(constants or {}))
    dy = draw(*y.shape)
    gradients = torch.autograd.grad(y, list(leaves.values()), dy)
    for name, value in (constants or {}).items():
        store(case, name, value)
    for (name, value), gradient in zip(leaves.items(), gradients):
        store(case, name, value)
        store(case, "d" + name, gradient)
    store(case, "y", y)
    store(case, "dy", dy)
    index[case] = {"op": op, **attributes}


def conv_case(case, n, h, w, c_in, c_out, kernel, stride, pad, bias=True):
    """`pad`: left, right, top, bottom, as in torch.nn.functional.pad."""

    def function(x, w, b=None):
        return nhwc(F.conv2d(F.pad(nchw(x), pad), w, b, stride))

    inputs = {"x": draw(n, h, w, c_in), "w": draw(c_out, c_in, kernel, kernel, scale=1 / math.sqrt(c_in * kernel**2))}
    if bias:
        inputs["b"] = draw(c_out)
    record(case, "conv2d", function, inputs,
           {"kernel": kernel, "stride": stride, "pad_left": pad[0], "pad_right": pad[1], "pad_top": pad[2],
            "pad_bottom": pad[3], "bias": bias})


def conv_cases():
    conv_case("conv2d_3x3", 2, 8, 8, 16, 16, 3, 1, (1, 1, 1, 1))
    conv_case("conv2d_3x3_wide", 1, 5, 5, 40, 24, 3, 1, (1, 1, 1, 1))
    conv_case("conv2d_3x3_stride2", 2, 8, 8, 8, 16, 3, 2, (1, 1, 1, 1))
    conv_case("conv2d_3x3_stride2_right_bottom_pad", 2, 8, 8, 8, 16, 3, 2, (0, 1, 0, 1))
    conv_case("conv2d_1x1", 2, 5, 7, 16, 24, 1, 1, (0, 0, 0, 0))
    conv_case("conv2d_1x1_no_bias", 2, 4, 4, 16, 8, 1, 1, (0, 0, 0, 0), bias=False)
    conv_case("conv2d_odd_size", 3, 7, 9, 16, 8, 3, 1, (1, 1, 1, 1))
    conv_case("conv2d_odd_size_stride2", 2, 7, 9, 8, 8, 3, 2, (1, 1, 1, 1))
    conv_case("conv2d_odd_size_stride2_right_bottom_pad", 2, 9, 7, 8, 8, 3, 2, (0, 1, 0, 1))
    conv_case("conv2d_odd_channels", 2, 6, 5, 3, 13, 3, 1, (1, 1, 1, 1))
    conv_case("conv2d_four_outputs", 2, 8, 8, 20, 4, 3, 1, (1, 1, 1, 1))
    conv_case("conv2d_single_pixel", 2, 1, 1, 8, 8, 3, 1, (1, 1, 1, 1))


def linear_cases():
    for case, rows, c_in, c_out, bias in (("linear", 12, 64, 48, True), ("linear_no_bias", 10, 32, 64, False),
                                          ("linear_odd", 7, 13, 29, True), ("linear_one_row", 1, 48, 16, True)):
        inputs = {"x": draw(rows, c_in), "w": draw(c_out, c_in, scale=1 / math.sqrt(c_in))}
        if bias:
            inputs["b"] = draw(c_out)
        record(case, "linear", lambda x, w, b=None: F.linear(x, w, b), inputs, {"bias": bias})


def norm_cases():
    for case, n, h, w, c, groups, eps, shift in (
        ("group_norm", 2, 5, 6, 32, 16, 1e-5, 0.0),
        ("group_norm_eps_1e-6", 2, 6, 5, 48, 16, 1e-6, 0.0),
        ("group_norm_one_group", 3, 4, 4, 12, 1, 1e-5, 0.0),
        ("group_norm_group_per_channel", 2, 5, 3, 8, 8, 1e-5, 0.0),
        ("group_norm_large_mean", 2, 6, 6, 32, 8, 1e-5, 30.0),
    ):
        record(case, "group_norm",
               lambda x, w, b, groups=groups, eps=eps: nhwc(F.group_norm(nchw(x), groups, w, b, eps)),
               {"x": (draw(n, h, w, c) + shift).float().double(), "w": draw(c), "b": draw(c)}, {"groups": groups, "eps": eps})
    for case, rows, c, eps in (("layer_norm", 12, 64, 1e-5), ("layer_norm_odd", 5, 37, 1e-5)):
        record(case, "layer_norm", lambda x, w, b, c=c, eps=eps: F.layer_norm(x, (c,), w, b, eps),
               {"x": draw(rows, c), "w": draw(c), "b": draw(c)}, {"eps": eps})


def activation_cases():
    def geglu(x):
        hidden, gate = x.chunk(2, -1)
        return hidden * F.gelu(gate)

    pointwise = {"silu": lambda x: F.silu(x), "gelu": lambda x: F.gelu(x),
                 "quick_gelu": lambda x: x * torch.sigmoid(1.702 * x)}
    for op, function in {**pointwise, "geglu": geglu}.items():
        record(op, op, function, {"x": draw(9, 46, scale=2.0)}, {})
    extremes = torch.tensor([[-100.0, -20.0, -5.0, -1e-3, 0.0, 1e-3, 5.0, 20.0, 100.0, -0.75]]).double()
    for op, function in pointwise.items():
        record(op + "_extremes", op, function, {"x": extremes.clone()}, {})


def attention_case(case, batch, queries, keys, heads, head_size, causal=False, scale=1.0):
    """q, k, v and y are [batch, tokens, heads * head_size], head h at channels [h * head_size, ...)."""

    def function(q, k, v):
        q, k, v = (t.view(batch, -1, heads, head_size).transpose(1, 2) for t in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
        return y.transpose(1, 2).reshape(batch, queries, heads * head_size)

    width = heads * head_size
    record(case, "attention", function,
           {"q": draw(batch, queries, width, scale=scale), "k": draw(batch, keys, width, scale=scale),
            "v": draw(batch, keys, width)},
           {"heads": heads, "head_size": head_size, "causal": causal})


def attention_cases():
    attention_case("attention_self", 1, 16, 16, 2, 24)
    attention_case("attention_cross", 2, 12, 7, 4, 8)
    attention_case("attention_causal", 2, 10, 10, 4, 8, causal=True)
    attention_case("attention_one_head", 1, 25, 25, 1, 32)
    attention_case("attention_odd", 3, 5, 11, 3, 7)
    attention_case("attention_one_key", 2, 6, 1, 2, 8)
    attention_case("attention_sharp", 1, 9, 9, 2, 16, scale=5.0)


def shape_cases():
    for case, shape in (("upsample_nearest", (2, 4, 4, 16)), ("upsample_nearest_odd", (1, 3, 5, 7))):
        record(case, "upsample_nearest",
               lambda x: nhwc(F.interpolate(nchw(x), scale_factor=2.0, mode="nearest")), {"x": draw(*shape)},
               {"factor": 2})
    ids = torch.randint(20, (3, 9), generator=generator, dtype=torch.int32)
    record("embedding", "embedding", lambda w, ids: F.embedding(ids, w), {"w": draw(20, 16)}, {}, {"ids": ids})
    record("concat_channels", "concat", lambda a, b: torch.cat([a, b], -1),
           {"a": draw(2, 3, 4, 16), "b": draw(2, 3, 4, 5)}, {})


def time_embedding_cases():
    for case, width in (("time_embedding", 48), ("time_embedding_wide", 320)):
        t = torch.tensor([0, 1, 17, 250, 500, 999], dtype=torch.int32)
        angle = t.double()[:, None] * torch.exp(-math.log(10000) * torch.arange(width // 2).double() / (width // 2))
        y = torch.cat([angle.cos(), angle.sin()], -1)
        single = get_timestep_embedding(t, width, flip_sin_to_cos=True, downscale_freq_shift=0)
        assert (y - single).abs().max() < 2e-4, "not diffusers' embedding"
        store(case, "t", t)
        store(case, "y", y)
        index[case] = {"op": "time_embedding", "width": width, "flip_sin_to_cos": True, "downscale_freq_shift": 0,
                       "max_period": 10000}


def loss_cases():
    record("mse_loss", "mse_loss", F.mse_loss, {"input": draw(3, 4, 4, 4), "target": draw(3, 4, 4, 4)},
           {"reduction": "mean over all elements"})

    def weighted(input, target, weight):
        return ((input - target).square().mean((1, 2, 3)) * weight).mean()

    record("mse_loss_weighted", "mse_loss_weighted", weighted,
           {"input": draw(3, 4, 4, 4), "target": draw(3, 4, 4, 4), "weight": draw(3).abs()},
           {"reduction": "mean over samples of weight x mean over the sample's elements"})


def pixel_unet_cases():
    """What pixel-space U-Nets and cascades add."""
    record("average_pool", "average_pool", lambda x: nhwc(F.avg_pool2d(nchw(x), 2)), {"x": draw(2, 6, 4, 9)}, {})
    for case, shape, size in (("resize_bilinear_2x", (2, 3, 5, 3), (6, 10)), ("resize_bilinear_4x", (1, 4, 4, 3), (16, 16)),
                              ("resize_bilinear_odd", (1, 5, 3, 2), (7, 11))):
        record(case, "resize_bilinear",
               lambda x, size=size: nhwc(F.interpolate(nchw(x), size=size, mode="bilinear", align_corners=False)),
               {"x": draw(*shape)}, {})

    def modulate(x, v, silu):
        scale, shift = v[:, None, None].chunk(2, -1)
        h = x * (1 + scale) + shift
        return F.silu(h) if silu else h

    for case, silu in (("modulate", False), ("modulate_silu", True)):
        record(case, "modulate", lambda x, v, silu=silu: modulate(x, v, silu),
               {"x": draw(2, 5, 4, 21), "v": draw(2, 42)}, {"silu": silu})


def main():
    for cases in (conv_cases, linear_cases, norm_cases, activation_cases, attention_cases, shape_cases,
                  time_embedding_cases, loss_cases, pixel_unet_cases):
        cases()
    save_file(tensors, HERE / "ops.safetensors")
    (HERE / "ops.json").write_text(json.dumps({"torch": torch.__version__, "cases": index}, indent=1) + "\n")
    size = (HERE / "ops.safetensors").stat().st_size
    print(f"{len(index)} cases, {len(tensors)} tensors, {size / 1024:.0f} KiB")


if __name__ == "__main__":
    main()
