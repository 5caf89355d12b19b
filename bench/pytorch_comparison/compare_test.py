#!/usr/bin/env python3
"""compare.py with programs that answer, die, lack memory or compute something else."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, HERE)
sys.dont_write_bytecode = True
import turns

OURS = [[["--cuda_graphs"], {"seconds": 0.5}], [[], {"seconds": 1.0}]]


class Run:
    """What a run of compare.py said, and left."""

    def __init__(self, rules, *arguments, ours=OURS, environment=None):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "results.json")
            fake = [sys.executable, os.path.join(HERE, "fake_program.py")]
            words = []
            for flag, its in (("--binary", ours), ("--torch", rules)):
                words += [f"{flag}={word}" for word in fake + [json.dumps(its)]]
            done = subprocess.run(
                [sys.executable, "-B", os.path.join(HERE, "compare.py"), "--dtype=bf16",
                 "--device=cuda", "--batch=64", "--repeats=2", f"--json={path}",
                 f"--folder={folder}/model", *words, *arguments],
                capture_output=True, text=True, env={**os.environ, **(environment or {})})
            self.code, self.output, self.errors = done.returncode, done.stdout, done.stderr
            self.json = None
            if os.path.exists(path):
                with open(path) as file:
                    self.json = json.load(file)
        self.rows = {row["program"]: row for row in self.json["results"]} if self.json else {}


class CompareTest(unittest.TestCase):

    def test_one_that_fails_is_told_and_the_others_are_measured(self):
        run = Run([[["--pure_bf16", "--channels_last"], {"dies": "no such convolution"}],
                   [["--pure_bf16"], {"dies_after": 2}],
                   [["--channels_last"], {"loss": 0.75}],
                   [[], {"seconds": 2.0}]], "--turns_a_start=2", "--warmup_seconds=0")
        self.assertEqual(run.code, 1, run.output)
        self.assertIn("no such convolution", run.rows["torch pure bf16, channels last"]["failed"])
        self.assertNotIn("turns", run.rows["torch pure bf16, channels last"])
        # What it measured before counts.
        self.assertIn("ended with code 1", run.rows["torch pure bf16"]["failed"])
        self.assertEqual(len(run.rows["torch pure bf16"]["turns"]), 1)
        self.assertIn("loss 0.75, of ours 0.5", run.rows["torch autocast, channels last"]["invalid"])
        self.assertEqual(run.rows["torch autocast"]["turns"], [2.0] * 4)
        self.assertEqual(run.rows["torch autocast"]["times_ours"], 2.0)
        for name in ("ours", "ours, CUDA graphs", "torch autocast"):
            self.assertFalse({"failed", "invalid", "skipped"} & run.rows[name].keys())
        for name in ("torch pure bf16", "torch autocast, channels last"):
            self.assertIn(name, run.errors)
        self.assertIn("best: ours, CUDA graphs, 128.00 images/s; torch pure bf16, 64.00; ratio 2.00",
                      run.output)
        self.assertIn("Note: done", run.output)

    def test_gradients_are_compared_and_later_losses_where_they_mean_something(self):
        run = Run([[["--pure_bf16", "--channels_last"], {"grad_norm": 2.2}],
                   [["--pure_bf16"], {"later_loss": 0.8, "grad_norm": 2.05}],
                   [["--channels_last"], {"later_loss": 0.8}],
                   [[], {"grad_norm": float("nan")}]])
        self.assertEqual(run.code, 1, run.output)
        self.assertIn("gradients' norm 2.2, of ours 2.0: 1.0e-01 apart, more than 0.05",
                      run.rows["torch pure bf16, channels last"]["invalid"])
        # Weights of bf16 hardly learn.
        self.assertNotIn("invalid", run.rows["torch pure bf16"])
        self.assertIn("loss of step 1 0.8, of ours 0.5",
                      run.rows["torch autocast, channels last"]["invalid"])
        self.assertIn("gradients' norm nan", run.rows["torch autocast"]["invalid"])

    def test_timed_engines_are_a_program_of_their_own(self):
        timed = "--engines=/results/engines.json"
        run = Run([[[], {"seconds": 2.0}]], timed,
                  ours=[[["--deterministic=false", timed], {"seconds": 0.375}],
                        [["--cuda_graphs", timed, "--time_engines"], {"seconds": 0.25}]] + OURS)
        self.assertEqual(run.rows["ours, CUDA graphs, engines timed"]["turns"][0], 0.25)
        self.assertEqual(
            run.rows["ours, CUDA graphs, engines timed, in any order"]["turns"][0], 0.375)
        self.assertEqual(run.rows["ours, CUDA graphs"]["turns"][0], 0.5)
        self.assertIn("best: ours, CUDA graphs, engines timed, 256.00 images/s", run.output)

    def test_one_without_enough_memory_gets_smaller_passes(self):
        enough = "--micro_batches=4"
        run = Run([[["--pure_bf16", enough], {}], [["--pure_bf16"], {"out_of_memory": True}],
                   [["--channels_last"], {"out_of_memory": True}], [[], {}]], "--least_pass=8")
        self.assertEqual(run.code, 1, run.output)
        self.assertEqual(run.rows["ours"]["images_a_pass"], 64)
        self.assertEqual(run.rows["torch pure bf16"]["images_a_pass"], 16)
        self.assertEqual(len(run.rows["torch pure bf16"]["turns"]), 2)
        self.assertEqual(run.rows["torch pure bf16"]["images_a_second"], 64)
        # Down to 8 images a pass and no further.
        self.assertEqual(run.rows["torch autocast, channels last"]["images_a_pass"], 8)
        self.assertIn("out of memory", run.rows["torch autocast, channels last"]["failed"])

    def test_ours_may_fail(self):
        run = Run([[[], {"seconds": 2.0}]], ours=[[[], {"dies": "no kernel image"}]])
        self.assertEqual(run.code, 1, run.output)
        self.assertIn("no kernel image", run.rows["ours"]["failed"])
        self.assertEqual(run.rows["torch autocast"]["images_a_second"], 32)
        self.assertNotIn("times_ours", run.rows["torch autocast"])

    def test_what_is_measured_is_written_at_once(self):
        # Killed as nothing can be that tidies up.
        run = Run([[["--channels_last"], {"dies_after": 1, "kills": True}], [[], {"seconds": 2.0}]])
        self.assertEqual(run.code, -signal.SIGKILL)
        self.assertEqual(len(run.rows["ours"]["turns"]), 1)
        self.assertEqual(run.rows["torch pure bf16"]["images_a_second"], 32)
        self.assertIn("torch pure bf16: turn 1, 2.0000 s a step", run.output)

    def test_the_quicker_memory_format_is_compiled(self):
        run = Run([[["--compile_mode=max-autotune-no-cudagraphs"], {"seconds": 0.3}],
                   [["--compile"], {"seconds": 0.4}],
                   [["--pure_bf16", "--channels_last"], {"seconds": 0.8}],
                   [["--pure_bf16"], {"seconds": 0.9}],
                   [["--channels_last"], {"seconds": 1.2}], [[], {"seconds": 1.1}]],
                  "--compile", "--max_autotune", "--steps=3", "--turns_a_start=2")
        self.assertEqual(run.code, 0, run.output + run.errors)
        self.assertEqual([name for name in run.rows if "compiled" in name],
                         ["torch pure bf16, channels last, compiled", "torch autocast, compiled",
                          "torch pure bf16, channels last, compiled, max-autotune",
                          "torch autocast, compiled, max-autotune"])
        self.assertEqual(len(run.rows["torch autocast, compiled"]["turns"]), 4)
        self.assertEqual(len(run.rows["torch autocast, compiled"]["states"]), 4)

    def test_pytorch_at_its_best_on_a_cpu(self):
        with tempfile.NamedTemporaryFile(prefix="libquick_minimal.so") as library:
            preload = f"LD_PRELOAD={library.name}"
            run = Run([[["--compile", "--channels_last", preload], {"seconds": 0.25}],
                       [[preload], {"seconds": 0.75}], [["--compile"], {"seconds": 0.5}],
                       [["--fused"], {"seconds": 1.0}], [[], {"seconds": 2.0}]],
                      "--device=cpu", "--threads=1", "--dtype=fp32", "--torch_variants",
                      "--compile", f"--preload={library.name}", ours=[[[], {"seconds": 0.125}]])
        self.assertEqual(run.code, 0, run.output + run.errors)
        quickest = {"torch": 2.0, "torch, fused AdamW": 1.0,
                    "torch, fused AdamW, channels last": 1.0,
                    "torch, fused AdamW, channels last, compiled": 0.5,
                    "torch, fused AdamW, channels last, quick": 0.75,
                    "torch, fused AdamW, channels last, compiled, quick": 0.25}
        self.assertEqual({name: row["seconds_a_step"] for name, row in run.rows.items()
                          if name.startswith("torch")}, quickest)
        self.assertIn("torch, fused AdamW, channels last, compiled, quick, 256.00; ratio 2.00",
                      run.output)
        missing = Run([[[], {}]], "--device=cpu", "--preload=/no/such/library")
        self.assertIn("/no/such/library: no such file", missing.errors)

    def test_shares_of_the_peak_are_of_the_backbone_alone(self):
        rules = [[["--count_operations"], {"operations": 4e12}], [[], {}]]
        cached = Run(rules, "--cached", "--reference=someone=128")
        self.assertEqual(cached.rows["ours"]["unet_tflops"], 256)
        self.assertAlmostEqual(cached.rows["ours"]["share_of_peak"], 256 / 989.4)
        self.assertRegex(cached.output, r"someone +128\.0 +500\.0 +0\.50\n")
        whole = Run(rules)
        self.assertNotIn("share_of_peak", whole.rows["ours"])
        self.assertEqual((cached.code, whole.code), (0, 0))

    def test_times_are_known_without_the_count_of_operations(self):
        run = Run([[[], {}]], "--cached")
        self.assertEqual(run.code, 0, run.errors)
        self.assertEqual(run.rows["ours"]["images_a_second"], 64)
        self.assertNotIn("unet_tflops", run.rows["ours"])

    def test_that_there_was_no_time_is_no_failure(self):
        run = Run([[[], {}]], "--total=45")
        self.assertEqual(run.code, 124, run.errors)
        self.assertEqual({row["skipped"] for row in run.rows.values()}, {"no time left"})

    def test_only_what_is_asked_for(self):
        run = Run([[[], {}]], "--programs=^ours$|autocast$")
        self.assertEqual(list(run.rows), ["ours", "torch autocast"])
        self.assertNotEqual(Run([[[], {}]], "--programs=none").code, 0)

    def test_on_a_cpu_in_turns(self):
        run = Run([[["--pure_bf16"], {"dies_after": 2}], [[], {"seconds": 3.0}]], "--device=cpu",
                  "--threads=1", "--repeats=3")
        self.assertEqual(run.code, 1, run.output)
        self.assertEqual(run.rows["torch autocast"]["turns"], [3.0] * 3)
        self.assertEqual(run.rows["torch autocast"]["times_ours"], 3.0)
        self.assertEqual(run.rows["torch, pure bf16"]["turns"], [1.0])
        self.assertIn("ended with code 1", run.rows["torch, pure bf16"]["failed"])


class CheckTest(unittest.TestCase):

    def check(self, packages):
        with tempfile.TemporaryDirectory() as folder:
            for path, text in packages.items():
                path = os.path.join(folder, path)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "w") as file:
                    file.write(text)
            return subprocess.run(
                [sys.executable, "-B", os.path.join(HERE, "compare.py"), "--check"],
                capture_output=True, text=True, env={**os.environ, "PYTHONPATH": folder})

    PACKAGES = {
        "torch/__init__.py": "", "torch/utils/__init__.py": "", "torch/utils/flop_counter.py": "",
        "safetensors/__init__.py": "", "safetensors/torch.py": "load_file = None",
        "transformers/__init__.py": "CLIPTextModel = None",
        "diffusers/__init__.py": "AutoencoderKL = DDPMScheduler = UNet2DConditionModel = None",
    }

    def test_nothing_is_said_where_all_is_there(self):
        done = self.check(self.PACKAGES)
        self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)

    def test_what_breaks_when_it_is_imported_is_told(self):
        done = self.check({**self.PACKAGES, "diffusers/__init__.py":
                           "raise RuntimeError('needs huggingface_hub 2,\\n found 1')"})
        self.assertEqual(done.returncode, 1)
        self.assertIn("RuntimeError: needs huggingface_hub 2, found 1\n", done.stdout)
        done = self.check({**self.PACKAGES, "transformers/__init__.py": ""})
        self.assertEqual(done.returncode, 1)
        self.assertIn("ImportError: cannot import name 'CLIPTextModel'", done.stdout)


class ClockTest(unittest.TestCase):

    def test_what_time_is_not_left_for_is_skipped(self):
        seconds = [0.0]
        clock = turns.Clock(10, now=lambda: seconds[0])
        fake = [sys.executable, os.path.join(HERE, "fake_program.py"), json.dumps([[[], {}]])]
        programs = [turns.Measured(name, lambda pieces: fake) for name in "abc"]

        def on_turn(measured):
            if measured.turns:
                seconds[0] += 6.0

        turns.Driver(turns.Schedule(2, 1, 1, 1, clock=clock), HERE, on_turn).one_at_a_time(programs)
        self.assertEqual([len(measured.turns) for measured in programs], [1, 1, 0])
        self.assertEqual([measured.skipped for measured in programs], ["no time left"] * 3)
        self.assertEqual([measured.failed for measured in programs], [""] * 3)

    def test_without_a_total_there_is_no_end(self):
        self.assertFalse(turns.Clock().is_over())
        self.assertIsNone(turns.Clock().left())


if __name__ == "__main__":
    unittest.main()
