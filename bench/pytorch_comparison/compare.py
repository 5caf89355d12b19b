#!/usr/bin/env python3
"""Time of a training step here and in PyTorch with diffusers, measured in turns.

One step is what a trainer does: VAE encoder and text encoder without gradients, noising, the U-Net
forward and backward, clipping by the global norm, AdamW, clearing the gradients. With --cached the
latents and text embeddings are there before, and the U-Net is all that runs. Both programs get the
same weights, the same images, captions, noise and timesteps, the same batch in one piece, and the
same cores and as many threads, or the same GPU. Neither recomputes activations. The losses of the
first steps are compared.

Turns alternate, so that what else the machine does hits both alike; medians of the turns' seconds
a step, wall clock and processor time, are shown, and their ratio: above 1, this project is faster.

bf16: this project computes in bf16 with fp32 weights, gradients and moments. PyTorch is measured in
two ways that people use: autocast (the same precisions) and pure bf16 (weights, gradients and
moments too: less memory traffic, less precise). With --compile also compiled, by torch.compile.

    bazel build -c opt //bench/pytorch_comparison:train_step
    python bench/pytorch_comparison/compare.py --model=tiny_sd --batch=8 --threads=1,2

On a GPU, one program at a time, each with all of its memory; shares of the peak are of the GPU's
dense bf16 rate as its maker states it, and operations are those that PyTorch counts:

    python bench/pytorch_comparison/compare.py --device=cuda --model=stable_diffusion_v2_1 \
        --image_size=512 --batch=64 --cached --compile --reference="MLPerf v4.0=128.9"

Needs torch, diffusers, transformers and safetensors, for this comparison alone.
"""

import argparse
import datetime
import importlib.util
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
BINARY = os.path.join(ROOT, "bazel-bin/bench/pytorch_comparison/train_step")


# Dense bf16 TFLOP/s, from the makers' data sheets.
PEAKS = {"H200": 989.4, "H100": 989.4, "A100": 312.0, "B200": 2250.0}


class Marks:
    """Seconds between points of a step; on a GPU by its own clock, so that nothing waits for it."""

    def __init__(self, torch, device):
        self.torch, self.on_gpu = torch, device.type == "cuda"
        self.steps = []

    def begin(self):
        self.steps.append([])
        self.add()

    def add(self):
        if not self.on_gpu:
            self.steps[-1].append(time.perf_counter())
            return
        event = self.torch.cuda.Event(enable_timing=True)
        event.record()
        self.steps[-1].append(event)

    def sums(self, names):
        """By name, over all steps since the last call. The GPU has done them."""
        sums = dict.fromkeys(names, 0.0)
        for marks in self.steps:
            for name, start, end in zip(names, marks, marks[1:]):
                sums[name] += (start.elapsed_time(end) * 1e-3 if self.on_gpu else end - start)
        self.steps = []
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
        torch.backends.cudnn.benchmark = True
        self.autocast = arguments.dtype == "bf16" and not arguments.pure_bf16
        torch.set_num_threads(arguments.worker_threads)
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
            self.steps.append({
                "pixels": image("vae_encoder.pixels"),
                "vae_noise": image("vae_encoder.vae_noise"),
                "ids": tensors[f"text_encoder.ids.{step}"].long().to(to),
                "noise": image("unet.noise"),
                "timesteps": tensors[f"unet.timesteps.{step}"].long().to(to),
            })
        self.next = 0
        self.marks = Marks(torch, self.device)
        if arguments.cached:
            for inputs in self.steps:
                inputs["cached"] = self.in_quarters(inputs)
            del self.vae, self.text
        self.network = torch.compile(self.unet) if arguments.compile else self.unet

    def in_quarters(self, inputs):
        """Frozen outputs, some samples at a time, for which there is memory."""
        size = max(1, inputs["ids"].shape[0] // 4)
        parts = zip(*(inputs[name].split(size) for name in ("pixels", "vae_noise", "ids")))
        outputs = [self.frozen(dict(zip(("pixels", "vae_noise", "ids"), part))) for part in parts]
        return [self.torch.cat(output) for output in zip(*outputs)]

    def frozen(self, inputs):
        torch = self.torch
        with torch.no_grad():
            moments = self.vae.encode(inputs["pixels"].to(self.low)).latent_dist
            latents = moments.mean.float() + moments.std.float() * inputs["vae_noise"]
            context = self.text(inputs["ids"])[0]
        return latents * self.vae.config.scaling_factor, context

    def backbone(self, latents, context, inputs):
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
        loss = torch.nn.functional.mse_loss(prediction.float(), target.float())
        loss.backward()
        return loss.detach()

    def update(self):
        self.torch.nn.utils.clip_grad_norm_(self.unet.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)

    def step(self):
        inputs = self.steps[self.next % len(self.steps)]
        self.next += 1
        self.marks.begin()
        latents, context = inputs["cached"] if "cached" in inputs else self.frozen(inputs)
        self.marks.add()
        loss = self.backbone(latents, context, inputs)
        self.marks.add()
        self.update()
        self.marks.add()
        return loss

    def train(self, steps):
        losses = [self.step() for _ in range(steps)]
        return [float(loss) for loss in losses]  # waits for a GPU


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
    marks.add()
    torch.cuda.synchronize()
    return 2e-12 * size ** 3 * times / marks.sums(["products"])["products"]


def torch_worker(arguments):
    """Answers as train_step does."""
    import resource
    import torch
    trainer = TorchTrainer(arguments)
    ready = {"ready": f"PyTorch {torch.__version__}"}
    on_gpu = trainer.device.type == "cuda"
    if on_gpu:
        ready["gpu"] = torch.cuda.get_device_name()
        ready["product_tflops"] = product_tflops(torch, trainer.device)
        ready["cudnn"] = torch.backends.cudnn.version()
    print(json.dumps(ready), flush=True)
    for line in sys.stdin:
        steps = int(line)
        cpu, start = time.process_time(), time.perf_counter()
        losses = trainer.train(steps)
        if on_gpu:
            torch.cuda.synchronize()
        seconds = time.perf_counter() - start
        parts = trainer.marks.sums(["frozen", "backbone", "optimizer"])
        print(json.dumps({
            "steps": steps,
            "seconds": seconds,
            "cpu_seconds": time.process_time() - cpu,
            "parts": {name: total / steps for name, total in parts.items()},
            "losses": losses,
            "peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
            "peak_device_bytes": torch.cuda.max_memory_allocated() if on_gpu else 0,
        }), flush=True)


class Program:
    """One of the two, pinned to cores; on a GPU, unpinned."""

    def __init__(self, name, command, cores):
        self.name = name
        environment, pinned = dict(os.environ), []
        if cores:
            environment["OMP_NUM_THREADS"] = str(len(cores))
            pinned = ["taskset", "-c", ",".join(map(str, cores))]
        self.messages = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            pinned + command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=self.messages, text=True, env=environment, cwd=ROOT)
        self.about = self.answer()

    def answer(self):
        line = self.process.stdout.readline()
        if line:
            return json.loads(line)
        code = self.process.wait()
        self.messages.seek(0)
        sys.exit(f"{self.messages.read()[-4000:]}\n{self.name} ended with code {code}")

    def train(self, steps):
        self.process.stdin.write(f"{steps}\n")
        self.process.stdin.flush()
        return self.answer()

    def end(self):
        """Keeps what it says of work that was not done as it should be."""
        self.process.stdin.close()
        self.process.wait()
        self.messages.seek(0)
        notes = [line.strip() for line in self.messages if line.startswith("Note:")]
        self.about["notes"] = notes
        for note in notes:
            print(f"{self.name}: {note}", flush=True)


def ours(arguments, dtype, cores, devices):
    command = arguments.binary + [
        f"--model={arguments.folder}", f"--batch={arguments.batch}", f"--dtype={dtype}",
        f"--devices={devices}", f"--lr={arguments.lr}", f"--seed={arguments.seed}",
        f"--backend={arguments.device}"]
    if arguments.image_size:
        command.append(f"--image_size={arguments.image_size}")
    if arguments.cached:
        command.append(f"--cached_steps={arguments.warmup_steps + steps_a_start(arguments)}")
    return lambda extra=(): Program(f"ours, {devices} device(s)", command + list(extra), cores)


def torch_program(arguments, dtype, cores, extra):
    command = [sys.executable, os.path.abspath(__file__), "--worker", f"--dtype={dtype}",
               f"--folder={arguments.folder}", f"--worker_threads={len(cores) or os.cpu_count()}",
               f"--lr={arguments.lr}", f"--device={arguments.device}"] + extra
    if arguments.cached:
        command.append("--cached")
    return lambda: Program("torch " + " ".join(extra), command, cores)


def torch_variants(arguments, dtype):
    """By name, what to ask of a worker."""
    best = ["--fused", "--channels_last"]
    variants = {"torch": []}
    if arguments.device == "cuda":
        variants = {"torch, fused AdamW, channels last": best}
    elif arguments.torch_variants:
        variants["torch, fused AdamW"] = ["--fused"]
        variants["torch, fused AdamW, channels last"] = best
    if dtype == "bf16":
        variants = {name.replace("torch", "torch autocast", 1): extra
                    for name, extra in variants.items()}
        pure = best if arguments.device == "cuda" else ["--fused"] * arguments.torch_variants
        variants["torch, pure bf16" + (", fused AdamW" if pure else "")] = ["--pure_bf16"] + pure
    if arguments.compile:
        last = list(variants.items())[-1:] if dtype == "bf16" else []
        for name, extra in [list(variants.items())[-1 - len(last)]] + last:
            variants[name + ", compiled"] = extra + ["--compile"]
    return variants


def programs(arguments, dtype, threads):
    """By name, what to start. The first is ours."""
    variants = torch_variants(arguments, dtype)
    if arguments.device == "cuda":
        start = ours(arguments, dtype, [], 1)
        found = {"ours": start, "ours, CUDA graphs": lambda: start(["--cuda_graphs"])}
        cores = []
    else:
        cores = sorted(os.sched_getaffinity(0))[:threads]
        found = {f"ours, {threads} thread(s), 1 device": ours(arguments, dtype, cores, 1)}
        if threads > 1 and not arguments.one_device_only:
            found[f"ours, {threads} devices of 1 thread"] = ours(arguments, dtype, cores, threads)
    for name, extra in variants.items():
        found[name] = torch_program(arguments, dtype, cores, extra)
    return found


def steps_a_start(arguments):
    """That a program trains after its first ones."""
    turns = arguments.turns_a_start if arguments.one_at_a_time else arguments.repeats
    return turns * arguments.steps


def median_of(answers, key):
    return statistics.median(a[key] / a["steps"] for a in answers)


def measure(arguments, starters):
    """Answers by program: its first steps', then one a turn."""
    first, turns, about = {}, {name: [] for name in starters}, {}
    if arguments.one_at_a_time:
        for _ in range(arguments.repeats):
            for name, start in starters.items():
                program = start()
                about[name] = program.about
                warm = program.train(arguments.warmup_steps)
                first.setdefault(name, warm)
                for _ in range(arguments.turns_a_start):
                    turns[name].append(program.train(arguments.steps))
                program.end()
        return first, turns, about
    running = {name: start() for name, start in starters.items()}
    for name, program in running.items():
        about[name] = program.about
        first[name] = program.train(arguments.warmup_steps)
    for _ in range(arguments.repeats):
        for name, program in running.items():
            turns[name].append(program.train(arguments.steps))
    for program in running.values():
        program.end()
    return first, turns, about


def report(arguments, dtype, threads, first, turns, about):
    names = list(turns)
    rows = []
    for name in names:
        answers = turns[name]
        parts = {part: statistics.median(a["parts"][part] for a in answers)
                 for part in answers[0]["parts"]}
        rows.append({
            "program": name, "about": about[name], "dtype": dtype, "threads": threads,
            "seconds_a_step": median_of(answers, "seconds"),
            "images_a_second": arguments.batch / median_of(answers, "seconds"),
            "cpu_seconds_a_step": median_of(answers, "cpu_seconds"),
            "parts_seconds": parts,
            "first_losses": first[name]["losses"],
            "peak_rss_bytes": max(a["peak_rss_bytes"] for a in answers),
            "peak_device_bytes": max(a["peak_device_bytes"] for a in answers),
            "turns": [a["seconds"] / a["steps"] for a in answers],
            "cpu_turns": [a["cpu_seconds"] / a["steps"] for a in answers],
        })
    # What pairs of neighbouring turns say of the ratio, which drift does not reach.
    for row in rows:
        pairs = [r / o for r, o in zip(row["turns"], rows[0]["turns"])]
        row["times_ours"] = statistics.median(pairs)
        row["times_ours_cpu"] = statistics.median(
            r / o for r, o in zip(row["cpu_turns"], rows[0]["cpu_turns"]))
        row["times_ours_backbone"] = (row["parts_seconds"]["backbone"]
                                      / rows[0]["parts_seconds"]["backbone"])
    if arguments.device == "cuda":
        report_gpu(arguments, rows)
        check_losses(dtype, rows)
        return rows
    print(f"\n{dtype}, {threads} thread(s): seconds a step (median); ratio to the first line")
    print(f"{'':42}{'wall':>9}{'ratio':>7}{'cpu':>9}{'ratio':>7}   "
          f"{'frozen':>8}{'U-Net':>9}{'ratio':>7}{'AdamW':>9}{'RSS GB':>8}  loss of first steps")
    for row in rows:
        parts = row["parts_seconds"]
        losses = " ".join(f"{loss:.6f}" for loss in row["first_losses"][:3])
        print(f"{row['program']:42}{row['seconds_a_step']:9.4f}{row['times_ours']:7.2f}"
              f"{row['cpu_seconds_a_step']:9.4f}{row['times_ours_cpu']:7.2f}   "
              f"{parts['frozen']:8.4f}{parts['backbone']:9.4f}{row['times_ours_backbone']:7.2f}"
              f"{parts['optimizer']:9.4f}{row['peak_rss_bytes'] / 1e9:8.2f}  {losses}", flush=True)
    check_losses(dtype, rows)
    return rows


def step_flops(arguments):
    """Operations of one image's forward and backward pass through the U-Net, as PyTorch counts
    them, and those alone: of no tensor that has memory."""
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
    return counter.get_total_flops()


def report_gpu(arguments, rows):
    """Images a second, and what they are of the GPU's peak."""
    about = next(row["about"] for row in rows if "gpu" in row["about"])
    peak = arguments.peak_tflops or next(
        (tflops for name, tflops in PEAKS.items() if name in about["gpu"]), 0)
    flops = step_flops(arguments)
    print(f"\n{about['gpu']}, {rows[0]['dtype']}, {arguments.batch} images a step; U-Net, forward "
          f"and backward, {flops * 1e-12:.3f} TFLOP an image; peak {peak:.0f} TFLOP/s, a large "
          f"product in PyTorch {about['product_tflops']:.0f}")
    print(f"{'':52}{'images/s':>9}{'step ms':>9}{'ratio':>7}{'TFLOP/s':>9}{'of peak':>9}{'GB':>7}"
          f"{'U-Net ms':>10}{'AdamW ms':>10}  loss of first steps")
    for row in rows:
        tflops = row["unet_tflops"] = flops * 1e-12 * row["images_a_second"]
        share = row["share_of_peak"] = tflops / peak if peak else None
        parts = row["parts_seconds"]
        losses = " ".join(f"{loss:.6f}" for loss in row["first_losses"][:3])
        print(f"{row['program']:52}{row['images_a_second']:9.1f}{row['seconds_a_step'] * 1e3:9.1f}"
              f"{row['times_ours']:7.2f}{tflops:9.1f}"
              + (f"{share:9.1%}" if share else f"{'':9}")
              + f"{row['peak_device_bytes'] / 1e9:7.1f}{parts['backbone'] * 1e3:10.1f}"
              f"{parts['optimizer'] * 1e3:10.1f}  {losses}", flush=True)
    for reference in arguments.reference:
        name, images = reference.rsplit("=", 1)
        print(f"{name:52}{float(images):9.1f}"
              f"{arguments.batch / float(images) * 1e3:9.1f}"
              f"{rows[0]['images_a_second'] / float(images):7.2f}")


def check_losses(dtype, rows):
    """The same weights and samples give the same losses. What a step learns from differs by
    rounding, which AdamW's first steps make much of where gradients are small: later losses may
    differ by more than the first."""
    first_bound, later_bound = (1e-4, 2e-2) if dtype == "fp32" else (3e-2, 1e-1)
    for row in rows[1:]:
        for step, (theirs, ours_) in enumerate(zip(row["first_losses"], rows[0]["first_losses"])):
            error = abs(theirs - ours_) / abs(ours_)
            bound = later_bound if step > 0 else first_bound
            if not error <= bound:
                sys.exit(f"{row['program']}: loss {theirs} in step {step}, ours {ours_}: "
                         f"{error:.1e} apart, more than {bound}")


def export(arguments):
    """The model and the inputs of the first steps, unless the folder has as many already."""
    path = os.path.join(arguments.folder, "inputs.safetensors")
    if os.path.exists(path):
        with open(path, "rb") as file:
            header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        steps = 1 + max(int(name.rsplit(".", 1)[1]) for name in header if name != "__metadata__")
        if steps >= arguments.warmup_steps:
            return
        print(f"{path} has the inputs of {steps} step(s), asked for {arguments.warmup_steps}: "
              "exporting again", file=sys.stderr)
    subprocess.run(arguments.binary + [f"--model={arguments.model}",
                    f"--image_size={arguments.image_size}", f"--batch={arguments.batch}",
                    f"--seed={arguments.seed}", f"--export_folder={arguments.folder}",
                    f"--export_steps={arguments.warmup_steps}"], check=True, cwd=ROOT)


def machine():
    import torch
    import diffusers
    model = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo")
                  if line.startswith("model name")), platform.processor())
    return {"cpu": model, "cores": len(os.sched_getaffinity(0)),
            "date": datetime.datetime.now().isoformat(timespec="minutes"),
            "torch": torch.__version__, "diffusers": diffusers.__version__,
            "load_average": os.getloadavg()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", default="tiny_sd")
    parser.add_argument("--image_size", type=int, default=0)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--dtype", default="fp32,bf16")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--threads", default="1,2", help="on a CPU")
    parser.add_argument("--cached", action="store_true",
                        help="latents and text embeddings are there before; the U-Net alone runs")
    parser.add_argument("--compile", action="store_true",
                        help="PyTorch also by torch.compile; asked of a worker, only so")
    parser.add_argument("--reference", action="append", default=[],
                        help="NAME=IMAGES_A_SECOND, to show beside the results on a GPU")
    parser.add_argument("--peak_tflops", type=float, default=0,
                        help="the GPU's dense bf16 rate; 0: as its data sheet says")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--steps", type=int, default=2, help="a turn")
    parser.add_argument("--warmup_steps", type=int, default=3)
    parser.add_argument("--lr", type=float, default=1e-5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--one_at_a_time", action="store_true",
                        help="start each program anew for its turn: large models; on a GPU always")
    parser.add_argument("--turns_a_start", type=int, default=1, help="with --one_at_a_time")
    parser.add_argument("--one_device_only", action="store_true")
    parser.add_argument("--torch_variants", action="store_true",
                        help="also with fused AdamW, and with images in channels-last order")
    parser.add_argument("--binary", action="append",
                        help="train_step; or, repeated, the words of a command that starts it")
    parser.add_argument("--folder", default="", help="where the exported model is, or goes")
    parser.add_argument("--json", default="", help="also write the results there")
    parser.add_argument("--check", action="store_true",
                        help="only say what this comparison lacks here; nothing where all is there")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--worker_threads", type=int, default=1, help=argparse.SUPPRESS)
    parser.add_argument("--pure_bf16", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--fused", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--channels_last", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    arguments.binary = arguments.binary or [BINARY]
    if arguments.check:
        missing = [name for name in ("torch", "diffusers", "transformers", "safetensors")
                   if importlib.util.find_spec(name) is None]
        return print(f"python3 has no {', '.join(missing)}") if missing else None
    if arguments.worker:
        return torch_worker(arguments)
    if arguments.device == "cuda":
        arguments.one_at_a_time, arguments.threads = True, "1"

    made = None
    if not arguments.folder:
        made = arguments.folder = tempfile.mkdtemp(prefix="pytorch_comparison_")
    arguments.folder = os.path.abspath(arguments.folder)
    if made:
        os.rmdir(arguments.folder)
    export(arguments)
    results = []
    for dtype in arguments.dtype.split(","):
        for threads in map(int, arguments.threads.split(",")):
            measured = measure(arguments, programs(arguments, dtype, threads))
            results += report(arguments, dtype, threads, *measured)
    if arguments.json:
        with open(arguments.json, "w") as out:
            command = "compare.py " + " ".join(
                a for a in sys.argv[1:] if not a.startswith(("--folder", "--json", "--binary")))
            json.dump({"command": command, "machine": machine(), "results": results}, out,
                      indent=1)
            out.write("\n")
    if made:
        shutil.rmtree(made)


if __name__ == "__main__":
    main()
