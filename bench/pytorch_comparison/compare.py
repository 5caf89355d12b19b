#!/usr/bin/env python3
"""Time of a training step here and in PyTorch with diffusers, measured in turns.

One step is what a trainer does: VAE encoder and text encoders without gradients, noising, the
backbone forward and backward, clipping by the global norm, AdamW, clearing the gradients. With --cached the
latents and text embeddings are there before, and the backbone is all that runs. Both programs get the
same weights, the same images, captions, noise and timesteps, and the same cores and as many
threads, or the same GPU. Neither recomputes activations. The losses of the first steps are
compared, and the global norm of the first one's gradients, before clipping; a program whose answers
are others has a line, but its times do not count.

On a CPU turns alternate, so that what else the machine does hits both alike; medians of the turns'
seconds a step, wall clock and processor time, are shown, and the median of neighbouring turns'
ratios: above 1, this project is faster.

bf16: this project computes in bf16 with fp32 weights, gradients and moments. PyTorch is measured in
two ways that people use: autocast (the same precisions) and pure bf16 (weights, gradients and
moments too: less memory traffic, less precise). With --compile the backbone and the frozen parts
are also compiled, by torch.compile; with --preload also with another allocator.

    bazel build -c opt //bench/pytorch_comparison:train_step
    python bench/pytorch_comparison/compare.py --model=tiny_sd --batch=8 --threads=1,2

On a GPU, one program at a time, each with all of its memory, warm for some seconds before its
turns. Turns of different programs lie minutes apart there: the ratio is that of the medians, the
range that of a program's own turns, over all its starts, and clocks and power after each turn are
in the JSON. PyTorch runs with cudnn.benchmark and in both memory formats, and what counts is its
best line. A program that has not enough memory gets the batch in twice as many pieces, whose
gradients are added: the images of a pass are shown. Shares of the peak are of the GPU's dense bf16
rate as its maker states it, and operations are those that PyTorch counts, of the U-Net: they are
shown with --cached.

    python bench/pytorch_comparison/compare.py --device=cuda --model=stable_diffusion_v2_1 \
        --image_size=512 --batch=64 --cached --compile --reference="MLPerf v4.0=128.9"

Needs torch, diffusers, transformers and safetensors, for this comparison alone. Ends with 1 where a
program failed or its answers were others, with 124 where there was no time for any.
"""

import argparse
import datetime
import json
import os
import platform
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile

import turns

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
BINARY = os.path.join(ROOT, "bazel-bin/bench/pytorch_comparison/train_step")
TORCH = os.path.join(HERE, "torch_step.py")

# Dense bf16 TFLOP/s, from the makers' data sheets; the first whose name is in the GPU's.
PEAKS = {"H200 NVL": 835.5, "H200": 989.4, "H100 NVL": 835.5, "H100 PCIe": 756.0, "H100": 989.4,
         "A100": 312.0, "B200": 2250.0}

# The exit code where --total is over before anything is measured: that of timeout(1).
NO_TIME_LEFT = 124

# Asked for at the end: seconds that are kept for it of --total.
COUNTING_SECONDS = 45


def ours(arguments, name, dtype, cores, devices, extra=()):
    command = arguments.binary + [
        f"--model={arguments.folder}", f"--batch={arguments.batch}", f"--dtype={dtype}",
        f"--devices={devices}", f"--lr={arguments.lr}", f"--seed={arguments.seed}",
        f"--backend={arguments.device}"] + list(extra)
    if arguments.image_size:
        command.append(f"--image_size={arguments.image_size}")
    if arguments.cached:
        more = turns.MOST_WARMUP_STEPS if arguments.warmup_seconds else 0
        command.append(f"--cached_steps={arguments.warmup_steps + more + steps_a_start(arguments)}")
    return turns.Measured(name, lambda pieces: command + [f"--micro_batches={pieces}"], cores)


def pytorch(arguments, name, dtype, cores, extra, environment=()):
    command = list(environment) + arguments.torch + [
        f"--dtype={dtype}", f"--folder={arguments.folder}", f"--device={arguments.device}",
        f"--threads={len(cores) or os.cpu_count()}", f"--lr={arguments.lr}"] + extra
    if arguments.cached:
        command.append("--cached")
    return turns.Measured(name, lambda pieces: command + [f"--micro_batches={pieces}"], cores)


def eager_variants(arguments, dtype):
    """By name, what to ask of PyTorch."""
    if arguments.device == "cuda":
        # PyTorch's GroupNorm on a GPU copies channels last to channels first, and cuDNN's
        # convolutions the other way: which costs less is measured.
        precisions = {"torch": []}
        if dtype == "bf16":
            precisions = {"torch pure bf16": ["--pure_bf16"], "torch autocast": []}
        return {name + suffix: extra + ["--fused"] + layout
                for name, extra in precisions.items()
                for suffix, layout in {"": [], ", channels last": ["--channels_last"]}.items()}
    variants = {"torch": []}
    if arguments.torch_variants:
        variants["torch, fused AdamW"] = ["--fused"]
        variants["torch, fused AdamW, channels last"] = ["--fused", "--channels_last"]
    if dtype == "bf16":
        variants = {name.replace("torch", "torch autocast", 1): extra
                    for name, extra in variants.items()}
        pure = ["--fused"] * arguments.torch_variants
        variants["torch, pure bf16" + (", fused AdamW" if pure else "")] = ["--pure_bf16"] + pure
    return variants


def compiled_variants(arguments, dtype, eager):
    """Likewise, when those in `eager` have been measured. On a GPU, of each precision's two memory
    formats the quicker one."""
    variants = eager_variants(arguments, dtype)
    names = list(variants)
    if arguments.device == "cuda":
        seconds = {measured.name: measured.median("seconds") for measured in eager}
        def quicker(pair):
            known = [name for name in pair if seconds.get(name)]
            return min(known, key=seconds.get) if known else pair[0]
        chosen = [quicker(names[i:i + 2]) for i in range(0, len(names), 2)]
    else:
        chosen = names[-2:] if dtype == "bf16" else names[-1:]
    modes = {"compiled": "default"}
    if arguments.max_autotune:
        modes["compiled, max-autotune"] = "max-autotune-no-cudagraphs"
    return {f"{name}, {how}": variants[name] + ["--compile", f"--compile_mode={mode}"]
            for how, mode in modes.items() if arguments.compile for name in chosen}


def programs(arguments, dtype, threads):
    """What to measure, ours first; and, when it is measured, what to measure besides."""
    cores = [] if arguments.device == "cuda" else sorted(os.sched_getaffinity(0))[:threads]
    if arguments.device == "cuda":
        found = [ours(arguments, "ours", dtype, cores, 1),
                 ours(arguments, "ours, CUDA graphs", dtype, cores, 1, ["--cuda_graphs"])]
        if arguments.engines:
            # As PyTorch has cuDNN's timed, and adds in any order (torch_step.py).
            timed = ["--cuda_graphs", f"--engines={arguments.engines}", "--time_engines"]
            found += [ours(arguments, "ours, CUDA graphs, engines timed", dtype, cores, 1, timed),
                      ours(arguments, "ours, CUDA graphs, engines timed, in any order", dtype,
                           cores, 1, timed + ["--deterministic=false"])]
    else:
        found = [ours(arguments, f"ours, {threads} thread(s), 1 device", dtype, cores, 1)]
        if threads > 1 and not arguments.one_device_only:
            found.append(
                ours(arguments, f"ours, {threads} devices of 1 thread", dtype, cores, threads))

    def of_torch(variants):
        return [pytorch(arguments, name, dtype, cores, extra) for name, extra in variants.items()]

    def of_last_variants():
        variants = compiled_variants(arguments, dtype, found)
        preloaded = []
        if arguments.preload:
            # The last of the eager variants has all that helps eager steps.
            eager = eager_variants(arguments, dtype)
            last = {name: eager[name] for name in list(eager)[-2 if dtype == "bf16" else -1:]}
            library = re.sub(r"^lib|(_minimal)?\.so.*$", "", os.path.basename(arguments.preload))
            preloaded = [pytorch(arguments, f"{name}, {library}", dtype, cores, extra,
                                 ["env", f"LD_PRELOAD={arguments.preload}"])
                         for name, extra in {**last, **variants}.items()]
        return asked_for(of_torch(variants) + preloaded)

    def asked_for(some):
        return [measured for measured in some if re.search(arguments.programs, measured.name)]

    found = asked_for(found + of_torch(eager_variants(arguments, dtype)))
    return found, of_last_variants


def steps_a_start(arguments):
    """That a program trains in its turns."""
    return arguments.steps * (arguments.turns_a_start if arguments.one_at_a_time
                              else arguments.repeats)


def most_pieces(arguments):
    """That a step's batch may be divided into where memory is not enough: into equal ones of no
    fewer images than --least_pass. On a CPU it is not divided."""
    pieces = 1
    while (arguments.device == "cuda" and arguments.batch % (2 * pieces) == 0
           and arguments.batch // (2 * pieces) >= arguments.least_pass):
        pieces *= 2
    return pieces


GPU_STATE = {"clocks.sm": "sm_mhz", "power.draw": "watts", "temperature.gpu": "celsius",
             "clocks_event_reasons.active": "clocks_held_back_by"}


def query_gpu(fields):
    """What nvidia-smi says of the first GPU that may be used, by field; None where it does not."""
    gpu = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0]
    try:
        said = subprocess.run(
            ["nvidia-smi", f"--id={gpu}", "--query-gpu=" + ",".join(fields),
             "--format=csv,noheader,nounits"], capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return None
    values = [value.strip() for value in said.stdout.split("\n")[0].split(",")]
    if said.returncode != 0 or len(values) != len(fields):
        return None
    return dict(zip(fields, values))


def gpu_state():
    said = query_gpu(list(GPU_STATE))
    return said and {GPU_STATE[field]: value for field, value in said.items()}


def ratio(a, b):
    return a / b if a and b else None


def row_of(arguments, dtype, threads, measured, reference):
    """What the JSON has of a program; `reference` is ours."""
    row = {"program": measured.name, "dtype": dtype, "threads": threads,
           "batch": arguments.batch, "images_a_pass": arguments.batch // measured.pieces}
    for field in ("failed", "skipped"):
        if getattr(measured, field):
            row[field] = getattr(measured, field)
    if measured.about:
        row["about"] = measured.about
    if measured.first:
        row["first_losses"] = measured.first["losses"]
        row["first_grad_norm"] = measured.first["grad_norms"][0]
    if not measured.turns:
        return row
    answers = measured.turns
    a_step = lambda key: [answer[key] / answer["steps"] for answer in answers]
    row.update({
        "seconds_a_step": measured.median("seconds"),
        "images_a_second": arguments.batch / measured.median("seconds"),
        "cpu_seconds_a_step": measured.median("cpu_seconds"),
        "parts_seconds": {part: statistics.median(answer["parts"][part] for answer in answers)
                          for part in answers[0]["parts"]},
        "peak_rss_bytes": max(answer["peak_rss_bytes"] for answer in answers),
        "peak_device_bytes": max(answer["peak_device_bytes"] for answer in answers),
        "turns": a_step("seconds"),
        "cpu_turns": a_step("cpu_seconds"),
    })
    if arguments.device == "cuda":
        row["states"] = [answer["state"] for answer in answers]
    if not reference.turns:
        return row
    theirs = reference.turns
    if arguments.one_at_a_time:
        # Turns that are no neighbours make no pairs.
        of = lambda key: ratio(measured.median(key), reference.median(key))
    else:
        # What pairs of neighbouring turns say of the ratio, which drift does not reach.
        of = lambda key: statistics.median(
            mine[key] / other[key] for mine, other in zip(answers, theirs))
    row["times_ours"], row["times_ours_cpu"] = of("seconds"), of("cpu_seconds")
    row["times_ours_backbone"] = ratio(
        row["parts_seconds"]["backbone"],
        statistics.median(answer["parts"]["backbone"] for answer in theirs))
    return row


def check_answers(dtype, rows):
    """The same weights and samples give the same loss and the same gradients, whose global norm is
    compared. What a step learns from differs by rounding, which AdamW's first steps make much of
    where gradients are small: later losses may differ by more than the first. Of pure bf16 they are
    not compared: a weight of bf16 keeps no update below half of its last place, as those of these
    learning rates mostly are. Rows whose answers are others than the first one's are marked."""
    loss_bound, norm_bound, later_bound = (1e-4, 1e-3, 2e-2) if dtype == "fp32" else (3e-2, 5e-2,
                                                                                      1e-1)
    known = [row for row in rows if row.get("first_losses")]
    for row in known[1:]:
        compared = [("loss", row["first_losses"][0], known[0]["first_losses"][0], loss_bound),
                    ("gradients' norm", row["first_grad_norm"], known[0]["first_grad_norm"],
                     norm_bound)]
        if "pure bf16" not in row["program"]:
            later = list(zip(row["first_losses"], known[0]["first_losses"]))[1:]
            compared += [(f"loss of step {step + 1}", *both, later_bound)
                         for step, both in enumerate(later)]
        for what, theirs, ours_, bound in compared:
            error = abs(theirs - ours_) / abs(ours_)
            if not error <= bound:
                row["invalid"] = (f"{what} {theirs}, of {known[0]['program']} {ours_}:"
                                  f" {error:.1e} apart, more than {bound}")
                break


def rows_of(arguments, dtype, threads, all_measured):
    rows = [row_of(arguments, dtype, threads, measured, all_measured[0])
            for measured in all_measured]
    check_answers(dtype, rows)
    return rows


def best(rows, ours_):
    """Ours or PyTorch's quickest row that counts; None where there is none."""
    counting = [row for row in rows if "turns" in row and "invalid" not in row
                and row["program"].startswith("ours") == ours_]
    return min(counting, key=lambda row: row["seconds_a_step"], default=None)


def number(value, width, digits, scale=1.0):
    return f"{'-':>{width}}" if value is None else f"{value * scale:{width}.{digits}f}"


def answers_of(row):
    return (f"{row['first_grad_norm']:10.5f}  " +
            " ".join(f"{loss:.6f}" for loss in row["first_losses"][:3]))


def report_cpu(rows):
    print(f"\n{rows[0]['dtype']}, {rows[0]['threads']} thread(s): seconds a step (median); ratio "
          "to the first line")
    width = max(len(row["program"]) for row in rows) + 2
    print(f"{'':{width}}{'wall':>9}{'ratio':>7}{'cpu':>9}{'ratio':>7}   "
          f"{'frozen':>8}{'trained':>9}{'ratio':>7}{'AdamW':>9}{'RSS GB':>8}{'gradients':>10}"
          "  loss of first steps")
    for row in (row for row in rows if "turns" in row):
        parts = row["parts_seconds"]
        print(f"{row['program']:{width}}{row['seconds_a_step']:9.4f}"
              f"{number(row.get('times_ours'), 7, 2)}{row['cpu_seconds_a_step']:9.4f}"
              f"{number(row.get('times_ours_cpu'), 7, 2)}   {parts['frozen']:8.4f}"
              f"{parts['backbone']:9.4f}{number(row.get('times_ours_backbone'), 7, 2)}"
              f"{parts['optimizer']:9.4f}{row['peak_rss_bytes'] / 1e9:8.2f}  {answers_of(row)}")


def count_operations(arguments, rows):
    """Into the rows, what the U-Net's operations make of their times. They are known without them,
    too, and so are written before."""
    gpu = next((row["about"] for row in rows if "gpu" in row.get("about", {})), {})
    peak = arguments.peak_tflops or next(
        (tflops for name, tflops in PEAKS.items() if name in gpu.get("gpu", "")), 0)
    try:
        said = subprocess.run(
            arguments.torch + ["--count_operations", f"--folder={arguments.folder}",
                               f"--image_size={arguments.image_size}"],
            capture_output=True, text=True, timeout=COUNTING_SECONDS - 5)
        operations = json.loads(said.stdout.strip().split("\n")[-1])["operations"]
    except (OSError, subprocess.TimeoutExpired, ValueError, KeyError) as error:
        print(f"PyTorch has not counted the U-Net's operations: {type(error).__name__}: {error}")
        return
    print(f"the U-Net, forward and backward: {operations * 1e-12:.3f} TFLOP an image; "
          f"peak {peak:.0f} TFLOP/s, a large product in PyTorch "
          f"{number(gpu.get('product_tflops'), 0, 0)}")
    for row in (row for row in rows if "turns" in row):
        row["unet_tflops"] = operations * 1e-12 * row["images_a_second"]
        row["share_of_peak"] = row["unet_tflops"] / peak if peak else None


def report_gpu(arguments, rows):
    """Images a second, and, where the U-Net is all that ran, what they are of the GPU's peak."""
    about = next((row["about"] for row in rows if "cudnn" in row.get("about", {})), {})
    what = "the U-Net alone" if arguments.cached else "with VAE and text encoder"
    print(f"\n{about.get('gpu', 'GPU')}, {rows[0]['dtype']}, {what}, {arguments.batch} images a "
          "step; PyTorch with cudnn.benchmark, fused AdamW; medians, and the range of the turns of "
          "all starts")
    print(f"{'':46}{'images/s':>9}{'a pass':>7}{'step ms':>9}{'from':>9}{'to':>9}{'ratio':>7}"
          f"{'TFLOP/s':>9}{'of peak':>9}{'GB':>7}{'U-Net ms':>10}{'AdamW ms':>10}"
          f"{'gradients':>10}  loss of first steps")
    for row in (row for row in rows if "turns" in row):
        parts = row["parts_seconds"]
        print(f"{row['program']:46}{row['images_a_second']:9.1f}{row['images_a_pass']:7}"
              f"{row['seconds_a_step'] * 1e3:9.1f}{min(row['turns']) * 1e3:9.1f}"
              f"{max(row['turns']) * 1e3:9.1f}{number(row.get('times_ours'), 7, 2)}"
              f"{number(row.get('unet_tflops'), 9, 1)}{number(row.get('share_of_peak'), 9, 3)}"
              f"{row['peak_device_bytes'] / 1e9:7.1f}{parts['backbone'] * 1e3:10.1f}"
              f"{parts['optimizer'] * 1e3:10.1f}  {answers_of(row)}")
    for reference in arguments.reference:
        name, images = reference.rsplit("=", 1)
        print(f"{name:46}{float(images):9.1f}{'':7}{arguments.batch / float(images) * 1e3:9.1f}"
              f"{'':18}{number(ratio(rows[0].get('images_a_second'), float(images)), 7, 2)}")


def report(arguments, rows):
    """Prints a table, and below it what does not count."""
    report_gpu(arguments, rows) if arguments.device == "cuda" else report_cpu(rows)
    for row in rows:
        for field in ("failed", "skipped", "invalid"):
            if field in row:
                print(f"{field:8} {row['program']}: {row[field]}")
    ours_, theirs = best(rows, True), best(rows, False)
    if ours_ and theirs:
        print(f"best: {ours_['program']}, {ours_['images_a_second']:.2f} images/s; "
              f"{theirs['program']}, {theirs['images_a_second']:.2f}; ratio "
              f"{theirs['seconds_a_step'] / ours_['seconds_a_step']:.2f}")
    sys.stdout.flush()


def export(arguments):
    """The model and the inputs of the first steps, unless the folder has just these already."""
    path = os.path.join(arguments.folder, "exported.json")
    what = [f"--model={arguments.model}", f"--image_size={arguments.image_size}",
            f"--batch={arguments.batch}", f"--seed={arguments.seed}",
            f"--export_steps={arguments.warmup_steps}"]
    if os.path.exists(path):
        with open(path) as file:
            if json.load(file) == what:
                return
    done = subprocess.run(arguments.binary + what + [f"--export_folder={arguments.folder}"],
                          cwd=ROOT)
    if done.returncode != 0:
        sys.exit(f"the model could not be exported: exit code {done.returncode}")
    turns.write_json(path, what)


def revision():
    """Of the code that ours was built from: what the environment says, else of this checkout."""
    if "DPIPE_REVISION" in os.environ:
        return os.environ["DPIPE_REVISION"]
    try:
        said = subprocess.run(["git", "-C", ROOT, "describe", "--always", "--dirty", "--abbrev=12",
                               "--exclude=*"], capture_output=True, text=True)
    except OSError:
        return "unknown"
    return said.stdout.strip() or "unknown"


def machine(arguments):
    with open("/proc/cpuinfo") as cpuinfo:
        model = next((line.split(":")[1].strip() for line in cpuinfo
                      if line.startswith("model name")), platform.processor())
    about = {"cpu": model, "cores": len(os.sched_getaffinity(0)),
             "date": datetime.datetime.now().isoformat(timespec="minutes"),
             "load_average": os.getloadavg()}
    if arguments.device == "cuda":
        about["gpu"] = query_gpu(["name", "driver_version", "memory.total", "power.limit",
                                  "clocks.max.sm"])
    return about


class Results:
    """What --json gets: all that is known, whenever something is."""

    def __init__(self, arguments):
        self.arguments, self.of_settings = arguments, {}
        command = "compare.py " + " ".join(a for a in sys.argv[1:] if not a.startswith(
            ("--folder", "--json", "--binary", "--torch=", "--total")))
        self.about = {"command": command, "revision": revision(), "machine": machine(arguments)}

        self.write()  # so that what lies there from before is not taken for this

    def put(self, setting, rows):
        self.of_settings[setting] = rows
        for row in rows:
            self.about["machine"].update(row.get("about", {}).get("versions", {}))
        self.write()

    def write(self):
        if self.arguments.json:
            turns.write_json(self.arguments.json, {**self.about, "results": self.rows()})

    def rows(self):
        return [row for rows in self.of_settings.values() for row in rows]


def say_turn(measured):
    now = datetime.datetime.now().strftime("%H:%M:%S")
    if measured.failed or measured.skipped:
        last = (measured.failed or measured.skipped).strip().split("\n")
        print(f"{now} {measured.name}: {'; '.join(last[-2:])}", flush=True)
        return
    turn = measured.turns[-1]
    print(f"{now} {measured.name}: turn {len(measured.turns)}, "
          f"{turn['seconds'] / turn['steps']:.4f} s a step", flush=True)


def compare(arguments, clock, dtype, threads, results):
    some, more = programs(arguments, dtype, threads)
    every = list(some)

    def put():
        results.put((dtype, threads), rows_of(arguments, dtype, threads, every))

    def on_turn(measured):
        say_turn(measured)
        put()

    def further():
        added = more()
        every.extend(added)
        return added

    if not some:
        sys.exit(f"--programs={arguments.programs}: no program's name has that")
    schedule = turns.Schedule(
        arguments.repeats, arguments.turns_a_start, arguments.steps, arguments.warmup_steps,
        arguments.warmup_seconds, most_pieces(arguments), clock)
    driver = turns.Driver(schedule, ROOT, on_turn,
                          gpu_state if arguments.device == "cuda" else lambda: None)
    if arguments.one_at_a_time:
        driver.one_at_a_time(some, further)
    else:
        further()
        driver.side_by_side(every)
    put()
    rows = results.of_settings[dtype, threads]
    if arguments.device == "cuda" and arguments.cached:
        count_operations(arguments, rows)
        results.put((dtype, threads), rows)
    report(arguments, rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", default="tiny_sd")
    parser.add_argument("--image_size", type=int, default=0)
    parser.add_argument("--batch", type=int, default=8, help="images a step")
    parser.add_argument("--dtype", default="fp32,bf16")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--threads", default="1,2", help="on a CPU")
    parser.add_argument("--cached", action="store_true",
                        help="latents and text embeddings are there before; the U-Net alone runs")
    parser.add_argument("--compile", action="store_true", help="PyTorch also by torch.compile")
    parser.add_argument("--max_autotune", action="store_true",
                        help="with --compile, also in its mode max-autotune-no-cudagraphs")
    parser.add_argument("--preload", default="", metavar="LIBRARY",
                        help="on a CPU, PyTorch also with this allocator: libtcmalloc_minimal.so.4")
    parser.add_argument("--engines", default="", metavar="FILE",
                        help="on a GPU, ours also with cuDNN's and cuBLASLt's engines timed before "
                        "the first turn, and kept there")
    parser.add_argument("--programs", default="", metavar="REGEX",
                        help="only those in whose names it is found")
    parser.add_argument("--reference", action="append", default=[],
                        help="NAME=IMAGES_A_SECOND, to show beside the results on a GPU")
    parser.add_argument("--peak_tflops", type=float, default=0,
                        help="the GPU's dense bf16 rate; 0: as its data sheet says")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--steps", type=int, default=2, help="a turn")
    parser.add_argument("--warmup_steps", type=int, default=3)
    parser.add_argument("--warmup_seconds", type=float, default=5,
                        help="on a GPU: train on for so long before the turns, "
                        f"{turns.MOST_WARMUP_STEPS} steps at most")
    parser.add_argument("--least_pass", type=int, default=4,
                        help="images of a pass, which is halved where a GPU has not enough memory")
    parser.add_argument("--total", type=float, default=0,
                        help="seconds for all of it: what is not measured by then is left out and "
                        "said to be; 0: as long as it takes")
    parser.add_argument("--lr", type=float, default=1e-5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--one_at_a_time", action="store_true",
                        help="start each program anew for its turn: large models; on a GPU always")
    parser.add_argument("--turns_a_start", type=int, default=1, help="with --one_at_a_time")
    parser.add_argument("--one_device_only", action="store_true")
    parser.add_argument("--torch_variants", action="store_true",
                        help="on a CPU also with fused AdamW, and with images channels last")
    parser.add_argument("--binary", action="append",
                        help="train_step; or, repeated, the words of a command that starts it")
    parser.add_argument("--torch", action="append", help="likewise, instead of torch_step.py")
    parser.add_argument("--folder", default="",
                        help="where the exported model is kept; empty: nowhere")
    parser.add_argument("--json", default="",
                        help="write the results there, whenever there is a new one")
    parser.add_argument("--check", action="store_true",
                        help="only say what this comparison lacks here; nothing where all is there")
    arguments = parser.parse_args()
    arguments.binary = arguments.binary or [BINARY]
    arguments.torch = arguments.torch or [sys.executable, TORCH]
    if arguments.preload and arguments.device == "cuda":
        sys.exit(f"--preload={arguments.preload} is for comparisons on a CPU")
    if arguments.preload and not os.path.isfile(arguments.preload):
        sys.exit(f"--preload={arguments.preload}: no such file; give the path of a library")
    if arguments.check:
        sys.exit(subprocess.run(arguments.torch + ["--check"]).returncode)
    if arguments.device == "cuda":
        arguments.one_at_a_time, arguments.threads = True, "1"
    else:
        arguments.warmup_seconds = 0
    # So that what is running is ended, too.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))

    clock = turns.Clock(max(1e-3, arguments.total - COUNTING_SECONDS) if arguments.total else 0)
    made = None
    if not arguments.folder:
        made = tempfile.mkdtemp(prefix="pytorch_comparison_")
        arguments.folder = os.path.join(made, "model")
    arguments.folder = os.path.abspath(arguments.folder)
    results = Results(arguments)
    try:
        export(arguments)
        for dtype in arguments.dtype.split(","):
            for threads in map(int, arguments.threads.split(",")):
                compare(arguments, clock, dtype, threads, results)
    finally:
        if made:
            shutil.rmtree(made, ignore_errors=True)
    rows = results.rows()
    bad = [row["program"] for row in rows if "failed" in row or "invalid" in row]
    if bad:
        sys.exit(f"failed, or of other answers: {', '.join(bad)}")
    if not any("turns" in row for row in rows):
        print("nothing was measured: no time was left", file=sys.stderr)
        sys.exit(NO_TIME_LEFT)


if __name__ == "__main__":
    main()
