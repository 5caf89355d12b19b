#!/usr/bin/env python3
"""Training steps on demand in PyTorch with diffusers, as train_step has them here: see turns.py.

Needs torch, diffusers, transformers and safetensors, for the comparison alone.
"""

import argparse
import json
import os
import re
import sys
import time


class Marks:
    """Seconds between points of steps; on a GPU by its own clock, so that nothing waits for it."""

    def __init__(self, torch, device):
        self.torch, self.on_gpu = torch, device.type == "cuda"
        self.points = []

    def begin(self):
        self.add(None)

    def add(self, name):
        """What has been done since the point before is of that name."""
        if self.on_gpu:
            event = self.torch.cuda.Event(enable_timing=True)
            event.record()
            self.points.append((name, event))
        else:
            self.points.append((name, time.perf_counter()))

    def sums(self, names):
        """By name, of all since the last call. The GPU has done it."""
        sums = dict.fromkeys(names, 0.0)
        for (_, start), (name, end) in zip(self.points, self.points[1:]):
            if name is not None:
                sums[name] += start.elapsed_time(end) * 1e-3 if self.on_gpu else end - start
        self.points = []
        return sums


class TorchTrainer:
    """The training step in PyTorch, as diffusers' own training example has it."""

    def __init__(self, arguments):
        import torch
        from diffusers import AutoencoderKL, DDPMScheduler, UNet2DConditionModel
        from safetensors.torch import load_file
        from transformers import CLIPTextModel

        self.torch = torch
        self.device = torch.device(arguments.device)
        self.pieces = arguments.micro_batches
        # Of the convolutions that cuDNN has for a shape the quickest, by trying them.
        torch.backends.cudnn.benchmark = True
        self.autocast = arguments.dtype == "bf16" and not arguments.pure_bf16
        torch.set_num_threads(arguments.threads)
        folder = arguments.folder
        low = torch.bfloat16 if arguments.dtype == "bf16" else torch.float32
        kept = low if arguments.pure_bf16 else torch.float32
        self.low = low
        to = self.device
        self.vae = AutoencoderKL.from_pretrained(folder, subfolder="vae").to(to, low)
        del self.vae.decoder
        self.text = CLIPTextModel.from_pretrained(folder, subfolder="text_encoder").to(to, low)
        self.unet = UNet2DConditionModel.from_pretrained(folder, subfolder="unet").to(to, kept)
        self.scheduler = DDPMScheduler.from_pretrained(folder, subfolder="scheduler")
        if arguments.channels_last:
            self.vae.to(memory_format=torch.channels_last)
            self.unet.to(memory_format=torch.channels_last)
        self.vae.requires_grad_(False)
        self.text.requires_grad_(False)
        self.unet.train()
        self.optimizer = torch.optim.AdamW(
            self.unet.parameters(), lr=arguments.lr, betas=(0.9, 0.999), eps=1e-8,
            weight_decay=0.01, fused=arguments.fused or None)
        tensors = load_file(os.path.join(folder, "inputs.safetensors"))
        self.steps = []
        for step in range(1 + max(int(name.rsplit(".", 1)[1]) for name in tensors)):
            image = lambda name: tensors[f"{name}.{step}"].permute(0, 3, 1, 2).contiguous().to(to)
            inputs = {
                "pixels": image("vae_encoder.pixels"),
                "vae_noise": image("vae_encoder.vae_noise"),
                "ids": tensors[f"text_encoder.ids.{step}"].long().to(to),
                "noise": image("unet.noise"),
                "timesteps": tensors[f"unet.timesteps.{step}"].long().to(to),
            }
            self.steps.append(self.divided(inputs, self.pieces))
        self.next = 0
        self.marks = Marks(torch, self.device)
        if arguments.cached:
            for pieces in self.steps:
                for inputs in pieces:
                    inputs["cached"] = self.in_quarters(inputs)
            del self.vae, self.text
        self.network = (torch.compile(self.unet, mode=arguments.compile_mode)
                        if arguments.compile else self.unet)

    @staticmethod
    def divided(inputs, pieces):
        """A batch in pieces of as many samples each."""
        size = inputs["ids"].shape[0] // pieces
        return [dict(zip(inputs, piece))
                for piece in zip(*(tensor.split(size) for tensor in inputs.values()))]

    def in_quarters(self, inputs):
        """Frozen outputs, some samples at a time, for which there is memory."""
        quarters = self.divided(inputs, min(4, inputs["ids"].shape[0]))
        return [self.torch.cat(output) for output in zip(*map(self.frozen, quarters))]

    def frozen(self, inputs):
        torch = self.torch
        with torch.no_grad():
            moments = self.vae.encode(inputs["pixels"].to(self.low)).latent_dist
            latents = moments.mean.float() + moments.std.float() * inputs["vae_noise"]
            context = self.text(inputs["ids"])[0]
        return latents * self.vae.config.scaling_factor, context

    def backbone(self, latents, context, inputs):
        """The piece's share of the step's loss; adds its gradients."""
        torch = self.torch
        noisy = self.scheduler.add_noise(latents, inputs["noise"], inputs["timesteps"])
        kept = next(self.unet.parameters()).dtype
        with torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=self.autocast):
            prediction = self.network(noisy.to(kept), inputs["timesteps"], context.to(kept)).sample
        kind = self.scheduler.config.prediction_type
        target = {"epsilon": lambda: inputs["noise"],
                  "v_prediction": lambda: self.scheduler.get_velocity(
                      latents, inputs["noise"], inputs["timesteps"]),
                  "sample": lambda: latents}[kind]()
        loss = torch.nn.functional.mse_loss(prediction.float(), target.float()) / self.pieces
        loss.backward()
        return loss.detach()

    def update(self):
        """The gradients' norm before clipping."""
        norm = self.torch.nn.utils.clip_grad_norm_(self.unet.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return norm

    def step(self):
        pieces = self.steps[self.next % len(self.steps)]
        self.next += 1
        losses = []
        self.marks.begin()
        for inputs in pieces:
            latents, context = inputs["cached"] if "cached" in inputs else self.frozen(inputs)
            self.marks.add("frozen")
            losses.append(self.backbone(latents, context, inputs))
            self.marks.add("backbone")
        norm = self.update()
        self.marks.add("optimizer")
        return losses, norm

    def train(self, steps):
        """Of each step the loss and the gradients' norm."""
        done = [self.step() for _ in range(steps)]
        return [(sum(map(float, losses)), float(norm)) for losses, norm in done]  # waits for a GPU


def product_tflops(torch, device):
    """What PyTorch's bf16 matrix product reaches on this GPU."""
    size, times = 8192, 10
    a, b = (torch.randn(size, size, device=device, dtype=torch.bfloat16) for _ in range(2))
    for _ in range(3):
        a @ b
    marks = Marks(torch, device)
    marks.begin()
    for _ in range(times):
        a @ b
    marks.add("products")
    torch.cuda.synchronize()
    return 2e-12 * size ** 3 * times / marks.sums(["products"])["products"]


def libraries():
    """Files of CUDA's libraries that are open: which, of several versions that may be there."""
    with open("/proc/self/maps") as maps:
        paths = {line.split(None, 5)[5].strip() for line in maps if line.count("/")}
    return sorted(path for path in paths
                  if re.match(r"lib(cuda|cublas|cudnn|nccl|nvrtc|nvidia)", os.path.basename(path)))


def versions():
    import diffusers
    import torch
    import transformers
    return {module.__name__: module.__version__ for module in (torch, diffusers, transformers)}


def work(arguments):
    import resource
    import torch
    trainer = TorchTrainer(arguments)
    ready = {"ready": f"PyTorch {torch.__version__}", "versions": versions(),
             "cudnn_benchmark": torch.backends.cudnn.benchmark}
    on_gpu = trainer.device.type == "cuda"
    if on_gpu:
        ready["gpu"] = torch.cuda.get_device_name()
        ready["product_tflops"] = product_tflops(torch, trainer.device)
        ready["cudnn"] = torch.backends.cudnn.version()
        ready["libraries"] = libraries()
    print(json.dumps(ready), flush=True)
    for line in sys.stdin:
        steps = int(line)
        cpu, start = time.process_time(), time.perf_counter()
        done = trainer.train(steps)
        if on_gpu:
            torch.cuda.synchronize()
        seconds = time.perf_counter() - start
        parts = trainer.marks.sums(["frozen", "backbone", "optimizer"])
        print(json.dumps({
            "steps": steps,
            "seconds": seconds,
            "cpu_seconds": time.process_time() - cpu,
            "parts": {name: total / steps for name, total in parts.items()},
            "losses": [loss for loss, _ in done],
            "grad_norms": [norm for _, norm in done],
            "peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
            "peak_device_bytes": torch.cuda.max_memory_allocated() if on_gpu else 0,
        }), flush=True)


def count_operations(arguments):
    """Of one image's forward and backward pass through the U-Net, as PyTorch counts them, and those
    alone: of no tensor that has memory."""
    import torch
    from diffusers import UNet2DConditionModel
    from torch.utils.flop_counter import FlopCounterMode
    config = UNet2DConditionModel.load_config(arguments.folder, subfolder="unet")
    with torch.device("meta"):
        unet = UNet2DConditionModel.from_config(config)
        side = arguments.image_size // 8 if arguments.image_size else config["sample_size"]
        latents = torch.empty(1, config["in_channels"], side, side)
        context = torch.empty(1, 77, config["cross_attention_dim"])
        timesteps = torch.empty(1, dtype=torch.long)
    with FlopCounterMode(display=False) as counter:
        unet(latents, timesteps, context).sample.sum().backward()
    print(json.dumps({"operations": counter.get_total_flops()}))


def lacking():
    """What is wrong with this Python's packages: they are imported as a step does, since diffusers
    finds out only then. Empty: nothing."""
    try:
        import torch
        import torch.utils.flop_counter
        from diffusers import AutoencoderKL, DDPMScheduler, UNet2DConditionModel
        from safetensors.torch import load_file
        from transformers import CLIPTextModel
    except Exception as error:  # whatever a package raises
        said = " ".join(str(error).split())
        return f"{sys.executable} cannot import what it takes: {type(error).__name__}: {said}"
    return ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="only say what is lacking")
    parser.add_argument("--count_operations", action="store_true",
                        help="only those of an image's U-Net, forward and backward")
    parser.add_argument("--folder", help="the model and inputs.safetensors, as train_step exports")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--dtype", default="fp32", choices=["fp32", "bf16"])
    parser.add_argument("--lr", type=float, default=1e-5)
    parser.add_argument("--image_size", type=int, default=0, help="with --count_operations")
    parser.add_argument("--micro_batches", type=int, default=1,
                        help="pieces of a step's batch, whose gradients are added")
    parser.add_argument("--cached", action="store_true",
                        help="latents and text embeddings are there before")
    parser.add_argument("--pure_bf16", action="store_true",
                        help="weights, gradients and moments in bf16, too; else autocast")
    parser.add_argument("--fused", action="store_true", help="AdamW in one kernel")
    parser.add_argument("--channels_last", action="store_true")
    parser.add_argument("--compile", action="store_true", help="by torch.compile")
    parser.add_argument("--compile_mode", default="default")
    arguments = parser.parse_args()
    os.environ.setdefault("HF_HUB_OFFLINE", "1")  # all is in the folder
    if arguments.check:
        reason = lacking()
        if reason:
            print(reason)
        sys.exit(1 if reason else 0)
    if arguments.count_operations:
        return count_operations(arguments)
    work(arguments)


if __name__ == "__main__":
    main()
