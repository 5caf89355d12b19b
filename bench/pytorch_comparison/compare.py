#!/usr/bin/env python3
"""Time of a training step here and in PyTorch eager with diffusers, measured in turns.

One step is what a trainer does: VAE encoder and text encoder without gradients, noising, the U-Net
forward and backward, clipping by the global norm, AdamW, clearing the gradients. Both programs get
the same weights, the same images, captions, noise and timesteps, the same batch in one piece, the
same cores and as many threads. Neither recomputes activations. The losses of the first steps are
compared.

Turns alternate, so that what else the machine does hits both alike; medians of the turns' seconds
a step, wall clock and processor time, are shown, and their ratio: above 1, this project is faster.

bf16: this project computes in bf16 with fp32 weights, gradients and moments. PyTorch is measured in
two ways that people use: autocast (the same precisions) and pure bf16 (weights, gradients and
moments too: less memory traffic, less precise).

    bazel build -c opt //bench/pytorch_comparison:train_step
    python bench/pytorch_comparison/compare.py --model=tiny_sd --batch=8 --threads=1,2

Needs torch, diffusers, transformers and safetensors, for this comparison alone.
"""

import argparse
import datetime
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


class TorchTrainer:
    """The training step in PyTorch, as diffusers' own training example has it."""

    def __init__(self, arguments):
        import torch
        from diffusers import AutoencoderKL, DDPMScheduler, UNet2DConditionModel
        from safetensors.torch import load_file
        from transformers import CLIPTextModel

        self.torch = torch
        self.autocast = arguments.dtype == "bf16" and not arguments.pure_bf16
        torch.set_num_threads(arguments.worker_threads)
        folder = arguments.folder
        low = torch.bfloat16 if arguments.dtype == "bf16" else torch.float32
        kept = low if arguments.pure_bf16 else torch.float32
        self.low = low
        self.vae = AutoencoderKL.from_pretrained(folder, subfolder="vae").to(low)
        del self.vae.decoder
        self.text = CLIPTextModel.from_pretrained(folder, subfolder="text_encoder").to(low)
        self.unet = UNet2DConditionModel.from_pretrained(folder, subfolder="unet").to(kept)
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
            image = lambda name: tensors[f"{name}.{step}"].permute(0, 3, 1, 2).contiguous()
            self.steps.append({
                "pixels": image("vae_encoder.pixels"),
                "vae_noise": image("vae_encoder.vae_noise"),
                "ids": tensors[f"text_encoder.ids.{step}"].long(),
                "noise": image("unet.noise"),
                "timesteps": tensors[f"unet.timesteps.{step}"].long(),
            })
        self.next = 0
        self.parts = {"frozen": 0.0, "backbone": 0.0, "optimizer": 0.0}

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
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=self.autocast):
            prediction = self.unet(noisy.to(kept), inputs["timesteps"], context.to(kept)).sample
        kind = self.scheduler.config.prediction_type
        target = {"epsilon": lambda: inputs["noise"],
                  "v_prediction": lambda: self.scheduler.get_velocity(
                      latents, inputs["noise"], inputs["timesteps"]),
                  "sample": lambda: latents}[kind]()
        loss = torch.nn.functional.mse_loss(prediction.float(), target.float())
        loss.backward()
        return loss.item()

    def update(self):
        self.torch.nn.utils.clip_grad_norm_(self.unet.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)

    def step(self):
        inputs = self.steps[self.next % len(self.steps)]
        self.next += 1
        times = [time.perf_counter()]
        latents, context = self.frozen(inputs)
        times.append(time.perf_counter())
        loss = self.backbone(latents, context, inputs)
        times.append(time.perf_counter())
        self.update()
        times.append(time.perf_counter())
        for name, start, end in zip(self.parts, times, times[1:]):
            self.parts[name] += end - start
        return loss


def torch_worker(arguments):
    """Answers as train_step does."""
    import resource
    import torch
    trainer = TorchTrainer(arguments)
    print(json.dumps({"ready": f"PyTorch {torch.__version__}"}), flush=True)
    for line in sys.stdin:
        steps = int(line)
        trainer.parts = dict.fromkeys(trainer.parts, 0.0)
        cpu, start = time.process_time(), time.perf_counter()
        losses = [trainer.step() for _ in range(steps)]
        print(json.dumps({
            "steps": steps,
            "seconds": time.perf_counter() - start,
            "cpu_seconds": time.process_time() - cpu,
            "parts": {name: seconds / steps for name, seconds in trainer.parts.items()},
            "losses": losses,
            "peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        }), flush=True)


class Program:
    """One of the two, pinned to cores."""

    def __init__(self, name, command, cores):
        self.name = name
        environment = dict(os.environ, OMP_NUM_THREADS=str(len(cores)))
        self.process = subprocess.Popen(
            ["taskset", "-c", ",".join(map(str, cores))] + command, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment)
        self.ready = self.answer()["ready"]

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"{self.name} ended with code {self.process.wait()}")
        return json.loads(line)

    def train(self, steps):
        self.process.stdin.write(f"{steps}\n")
        self.process.stdin.flush()
        return self.answer()

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def ours(arguments, dtype, cores, devices):
    command = [arguments.binary, f"--model={arguments.folder}", f"--batch={arguments.batch}",
               f"--dtype={dtype}", f"--devices={devices}", f"--lr={arguments.lr}",
               f"--seed={arguments.seed}"]
    if arguments.image_size:
        command.append(f"--image_size={arguments.image_size}")
    return lambda: Program(f"ours, {devices} device(s)", command, cores)


def torch_program(arguments, dtype, cores, extra):
    command = [sys.executable, os.path.abspath(__file__), "--worker", f"--dtype={dtype}",
               f"--folder={arguments.folder}", f"--worker_threads={len(cores)}",
               f"--lr={arguments.lr}"] + extra
    return lambda: Program("torch " + " ".join(extra), command, cores)


def programs(arguments, dtype, threads):
    """By name, what to start. The first is ours."""
    cores = sorted(os.sched_getaffinity(0))[:threads]
    found = {f"ours, {threads} thread(s), 1 device": ours(arguments, dtype, cores, 1)}
    if threads > 1 and not arguments.one_device_only:
        found[f"ours, {threads} devices of 1 thread"] = ours(arguments, dtype, cores, threads)
    variants = {"torch": []}
    if arguments.torch_variants:
        variants["torch, fused AdamW"] = ["--fused"]
        variants["torch, fused AdamW, channels last"] = ["--fused", "--channels_last"]
    if dtype == "bf16":
        variants = {name.replace("torch", "torch autocast", 1): extra
                    for name, extra in variants.items()}
        variants["torch, pure bf16" + (", fused AdamW" if arguments.torch_variants else "")] = (
            ["--pure_bf16"] + (["--fused"] if arguments.torch_variants else []))
    for name, extra in variants.items():
        found[name] = torch_program(arguments, dtype, cores, extra)
    return found


def median_of(answers, key):
    return statistics.median(a[key] / a["steps"] for a in answers)


def measure(arguments, starters):
    """Answers by program: its first steps', then one a turn."""
    first, turns = {}, {name: [] for name in starters}
    if arguments.one_at_a_time:
        for _ in range(arguments.repeats):
            for name, start in starters.items():
                program = start()
                warm = program.train(arguments.warmup_steps)
                first.setdefault(name, warm)
                turns[name].append(program.train(arguments.steps))
                program.end()
        return first, turns
    running = {name: start() for name, start in starters.items()}
    for name, program in running.items():
        first[name] = program.train(arguments.warmup_steps)
    for _ in range(arguments.repeats):
        for name, program in running.items():
            turns[name].append(program.train(arguments.steps))
    for program in running.values():
        program.end()
    return first, turns


def report(dtype, threads, first, turns):
    names = list(turns)
    rows = []
    for name in names:
        answers = turns[name]
        parts = {part: statistics.median(a["parts"][part] for a in answers)
                 for part in answers[0]["parts"]}
        rows.append({
            "program": name, "dtype": dtype, "threads": threads,
            "seconds_a_step": median_of(answers, "seconds"),
            "cpu_seconds_a_step": median_of(answers, "cpu_seconds"),
            "parts_seconds": parts,
            "first_losses": first[name]["losses"],
            "peak_rss_bytes": max(a["peak_rss_bytes"] for a in answers),
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
    subprocess.run([arguments.binary, f"--model={arguments.model}",
                    f"--image_size={arguments.image_size}", f"--batch={arguments.batch}",
                    f"--seed={arguments.seed}", f"--export_folder={arguments.folder}",
                    f"--export_steps={arguments.warmup_steps}"], check=True)


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
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--steps", type=int, default=2, help="a turn")
    parser.add_argument("--warmup_steps", type=int, default=3)
    parser.add_argument("--lr", type=float, default=1e-5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--one_at_a_time", action="store_true",
                        help="start each program anew for its turn: large models")
    parser.add_argument("--one_device_only", action="store_true")
    parser.add_argument("--torch_variants", action="store_true",
                        help="also with fused AdamW, and with images in channels-last order")
    parser.add_argument("--binary", default=BINARY)
    parser.add_argument("--folder", default="", help="where the exported model is, or goes")
    parser.add_argument("--json", default="", help="also write the results there")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--worker_threads", type=int, default=1, help=argparse.SUPPRESS)
    parser.add_argument("--pure_bf16", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--fused", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--channels_last", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        return torch_worker(arguments)

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
            first, turns = measure(arguments, programs(arguments, dtype, threads))
            results += report(dtype, threads, first, turns)
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
