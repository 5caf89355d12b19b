#!/usr/bin/env python3
"""Stands for train_step and torch_step.py in compare_test.py.

    fake_program.py RULES ARGUMENTS

RULES is JSON: a list of [words of ARGUMENTS, what to do then]; the first whose words are all there
holds. LD_PRELOAD=FILE is such a word if the environment has it. What to do: "seconds" of a step, its "loss", "later_loss" and "grad_norm"; "dies", "out_of_memory" or "other" before it is
ready; "dies_after" so many answers; "kills" that process then.
"""

import json
import os
import signal
import sys


def main():
    rules, arguments = json.loads(sys.argv[1]), sys.argv[2:]
    folder = [a.split("=")[1] for a in arguments if a.startswith("--export_folder=")]
    if folder:
        os.makedirs(folder[0], exist_ok=True)
        return
    known = arguments + [f"LD_PRELOAD={os.environ.get('LD_PRELOAD', '')}"]
    rule = next(what for words, what in rules if all(word in known for word in words))
    if "--count_operations" in arguments:
        if "operations" not in rule:
            sys.exit("cannot count")
        return print(json.dumps({"operations": rule["operations"]}))
    if rule.get("dies"):
        sys.exit(rule["dies"])
    if rule.get("out_of_memory"):
        sys.exit("CUDA out of memory. Tried to allocate 2.00 GiB")
    print("a library's own line")
    print(json.dumps({"ready": "a fake", "gpu": "NVIDIA H200", "product_tflops": 700.0,
                      "cudnn": 92000}), flush=True)
    answers = 0
    for line in sys.stdin:
        if answers == rule.get("dies_after", -1):
            if "kills" in rule:
                os.kill(os.getppid(), signal.SIGKILL)
            sys.exit("lost")
        answers += 1
        steps = int(line)
        print(json.dumps({
            "steps": steps, "seconds": steps * rule.get("seconds", 1.0), "cpu_seconds": steps,
            "parts": {"frozen": 0.0, "backbone": rule.get("seconds", 1.0), "optimizer": 0.0},
            "losses": [rule.get("loss", 0.5)] + [rule.get("later_loss", 0.5)] * (steps - 1),
            "grad_norms": [rule.get("grad_norm", 2.0)] * steps,
            "peak_rss_bytes": 1, "peak_device_bytes": 1,
        }), flush=True)
    print("Note: done", file=sys.stderr)


if __name__ == "__main__":
    main()
