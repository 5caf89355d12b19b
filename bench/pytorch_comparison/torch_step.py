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


class StableDiffusion:
    """The frozen parts and the backbone of a StableDiffusionPipeline."""

    backbone_folder = "unet"

    def __init__(self, torch, folder, low):
        from diffusers import AutoencoderKL, DDPMScheduler
        from transformers import CLIPTextModel
        self.torch, self.low = torch, low
        self.vae = AutoencoderKL.from_pretrained(folder, subfolder="vae", torch_dtype=low)
        self.text = CLIPTextModel.from_pretrained(folder, subfolder="text_encoder",
                                                  torch_dtype=low)
        self.scheduler = DDPMScheduler.from_pretrained(folder, subfolder="scheduler")

    @staticmethod
    def load_backbone(folder, dtype):
        from diffusers import UNet2DConditionModel
        return UNet2DConditionModel.from_pretrained(folder, subfolder="unet", torch_dtype=dtype)

    def parts(self):
        """The frozen modules that a step runs, by attribute."""
        return {"encoder": self.vae.encoder, "text": self.text}

    def latents(self, inputs):
        moments = self.vae.encode(inputs["vae_encoder.pixels"].to(self.low)).latent_dist
        sample = moments.mean.float() + moments.std.float() * inputs["vae_encoder.vae_noise"]
        config = self.vae.config
        return (sample - (config.shift_factor or 0)) * config.scaling_factor

    def frozen(self, inputs):
        return self.latents(inputs), self.text(inputs["text_encoder.ids"])[0]

    def prediction_and_target(self, network, kept, frozen, inputs):
        latents, context = frozen
        noise, timesteps = inputs["unet.noise"], inputs["unet.timesteps"]
        noisy = self.scheduler.add_noise(latents, noise, timesteps)
        prediction = network(noisy.to(kept), timesteps, context.to(kept)).sample
        kind = self.scheduler.config.prediction_type
        target = {"epsilon": lambda: noise,
                  "v_prediction": lambda: self.scheduler.get_velocity(latents, noise, timesteps),
                  "sample": lambda: latents}[kind]()
        return prediction, target


class Flux(StableDiffusion):
    """Those of a FluxPipeline whose transformer does not embed the guidance."""

    backbone_folder = "transformer"

    def __init__(self, torch, folder, low):
        from diffusers import AutoencoderKL, FluxPipeline
        from transformers import CLIPTextModel, T5EncoderModel
        self.torch, self.low, self.pipeline = torch, low, FluxPipeline
        self.vae = AutoencoderKL.from_pretrained(folder, subfolder="vae", torch_dtype=low)
        self.text = CLIPTextModel.from_pretrained(folder, subfolder="text_encoder",
                                                  torch_dtype=low)
        self.t5 = T5EncoderModel.from_pretrained(folder, subfolder="text_encoder_2",
                                                 torch_dtype=low)

    @staticmethod
    def load_backbone(folder, dtype):
        from diffusers import FluxTransformer2DModel
        model = FluxTransformer2DModel.from_pretrained(folder, subfolder="transformer",
                                                       torch_dtype=dtype)
        if model.config.guidance_embeds:
            sys.exit("a transformer that embeds the guidance is not compared")
        return model

    def parts(self):
        return {"encoder": self.vae.encoder, "text": self.text, "t5": self.t5}

    def frozen(self, inputs):
        pooled = self.text(inputs["text_encoder.ids"]).pooler_output
        return self.latents(inputs), self.t5(inputs["text_encoder_2.ids"])[0], pooled

    def packed(self, image):
        return self.pipeline._pack_latents(image, *image.shape)

    def prediction_and_target(self, network, kept, frozen, inputs):
        latents, context, pooled = frozen
        noise = inputs["transformer.noise"]
        levels = inputs["transformer.timesteps"] / 1000
        part = levels.view(-1, 1, 1, 1)
        noisy = (1 - part) * latents + part * noise
        ids = self.pipeline._prepare_latent_image_ids(
            None, noisy.shape[2] // 2, noisy.shape[3] // 2, noisy.device, kept)
        prediction = network(
            hidden_states=self.packed(noisy).to(kept), timestep=levels.to(kept),
            pooled_projections=pooled.to(kept), encoder_hidden_states=context.to(kept),
            txt_ids=self.torch.zeros(context.shape[1], 3, device=noisy.device, dtype=kept),
            img_ids=ids).sample
        return prediction, self.packed(noise - latents)


def family_of(folder):
    with open(os.path.join(folder, "model_index.json")) as file:
        name = json.load(file)["_class_name"]
    families = {"StableDiffusionPipeline": StableDiffusion, "FluxPipeline": Flux}
    if name not in families:
        sys.exit(f"{folder}: a {name} is not compared; one of {', '.join(families)} is")
    return families[name]


class TorchTrainer:
    """The training step in PyTorch, as diffusers' own training examples have it."""

    def __init__(self, arguments):
        import torch
        from safetensors.torch import load_file

        self.torch = torch
        self.device = torch.device(arguments.device)
        self.pieces = arguments.micro_batches
        # Of the convolutions that cuDNN has for a shape the quickest, by trying them.
        torch.backends.cudnn.benchmark = True
        self.autocast = arguments.dtype == "bf16" and not arguments.pure_bf16
        torch.set_num_threads(arguments.threads)
        folder, to = arguments.folder, self.device
        low = torch.bfloat16 if arguments.dtype == "bf16" else torch.float32
        self.kept = low if arguments.pure_bf16 else torch.float32
        family = family_of(folder)
        self.model = family(torch, folder, low)
        del self.model.vae.decoder
        self.backbone = family.load_backbone(folder, self.kept).to(to)
        for part in (self.model.vae, *self.model.parts().values()):
            part.requires_grad_(False).to(to)
        if arguments.channels_last:
            self.model.vae.to(memory_format=torch.channels_last)
            self.backbone.to(memory_format=torch.channels_last)
        self.backbone.train()
        self.optimizer = torch.optim.AdamW(
            self.backbone.parameters(), lr=arguments.lr, betas=(0.9, 0.999), eps=1e-8,
            weight_decay=0.01, fused=arguments.fused or None)
        tensors = load_file(os.path.join(folder, "inputs.safetensors"))
        self.steps = []
        for step in range(1 + max(int(name.rsplit(".", 1)[1]) for name in tensors)):
            inputs = {name.rsplit(".", 1)[0]: self.converted(tensor).to(to)
                      for name, tensor in tensors.items() if name.endswith(f".{step}")}
            self.steps.append(self.divided(inputs, self.pieces))
        self.next = 0
        self.marks = Marks(torch, self.device)
        self.cached = None
        if arguments.cached:
            self.cached = [[self.in_quarters(inputs) for inputs in pieces]
                           for pieces in self.steps]
            del self.model.vae, self.model.text
        self.network = self.backbone
        if arguments.compile:
            how = {"mode": arguments.compile_mode}
            self.network = torch.compile(self.backbone, **how)
            if not arguments.cached:
                for part in self.model.parts().values():
                    part.compile(**how)

    def converted(self, tensor):
        """Images channels first, numbers of tokens and timesteps as PyTorch indexes by them."""
        if tensor.dim() == 4:
            return tensor.permute(0, 3, 1, 2).contiguous()
        return tensor if tensor.is_floating_point() else tensor.long()

    @staticmethod
    def divided(inputs, pieces):
        """A batch in pieces of as many samples each."""
        size = next(iter(inputs.values())).shape[0] // pieces
        return [dict(zip(inputs, piece))
                for piece in zip(*(tensor.split(size) for tensor in inputs.values()))]

    def in_quarters(self, inputs):
        """Frozen outputs, some samples at a time, for which there is memory."""
        quarters = self.divided(inputs, min(4, next(iter(inputs.values())).shape[0]))
        return [self.torch.cat(output) for output in zip(*map(self.frozen, quarters))]

    def frozen(self, inputs):
        with self.torch.inference_mode():
            outputs = self.model.frozen(inputs)
        return [output.clone() for output in outputs]  # which gradients may be computed from

    def pass_backbone(self, frozen, inputs):
        """The piece's share of the step's loss; adds its gradients."""
        torch = self.torch
        with torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=self.autocast):
            prediction, target = self.model.prediction_and_target(
                self.network, self.kept, frozen, inputs)
        loss = torch.nn.functional.mse_loss(prediction.float(), target.float()) / self.pieces
        loss.backward()
        return loss.detach()

    def update(self):
        """The gradients' norm before clipping."""
        norm = self.torch.nn.utils.clip_grad_norm_(self.backbone.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return norm

    def step(self):
        step = self.next % len(self.steps)
        self.next += 1
        losses = []
        self.marks.begin()
        for piece, inputs in enumerate(self.steps[step]):
            frozen = self.cached[step][piece] if self.cached else self.frozen(inputs)
            self.marks.add("frozen")
            losses.append(self.pass_backbone(frozen, inputs))
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
    parser.add_argument("--compile", action="store_true",
                        help="the backbone and the frozen parts by torch.compile")
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
