"""Compares outputs dumped by the C++ code with what diffusers computes from data/tiny_sd.

    compare_with_diffusers.py --model data/tiny_sd --outputs dump.safetensors

The dump holds any of the tensors of tiny_sd.safetensors under the same names and layouts, computed from the inputs
stored there. Prints, per tensor, the largest absolute error and the error relative to the tensor's L2 norm; exits
with 1 if a relative error exceeds --tolerance, a shape differs or a name is unknown.
"""

import argparse
import pathlib
import sys

from safetensors.torch import load_file

from make_tiny_sd_goldens import compute_all

HERE = pathlib.Path(__file__).parent


def compare(name, ours, theirs):
    """(largest absolute error, relative L2 error); None where shapes differ."""
    if ours.shape != theirs.shape:
        print(f"{name}: shape {tuple(ours.shape)}, diffusers has {tuple(theirs.shape)}")
        return None
    difference = ours.double() - theirs.double()
    return difference.abs().max().item(), (difference.norm() / theirs.double().norm().clamp(min=1e-30)).item()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=HERE.parent.parent / "data" / "tiny_sd")
    parser.add_argument("--outputs", required=True)
    parser.add_argument("--tolerance", type=float, default=1e-4)
    parser.add_argument("--all", action="store_true", help="print every gradient digest, not only the worst")
    args = parser.parse_args()
    inputs, outputs = compute_all(args.model)
    reference, failed, worst = {**inputs, **outputs}, False, {}
    for name, ours in sorted(load_file(args.outputs).items()):
        if name not in reference:
            print(f"{name}: not a tensor of tiny_sd.safetensors")
            failed = True
            continue
        errors = compare(name, ours, reference[name].detach())
        if errors is None:
            failed = True
            continue
        failed |= not errors[1] <= args.tolerance
        group = "/".join(name.split("/")[:2])
        if args.all or group == name:
            print(f"{name:60s} max {errors[0]:.3e}  relative {errors[1]:.3e}")
        if group != name and errors[1] >= worst.get(group, (0, -1.0))[1]:
            worst[group] = (name, errors[1])
    for group, (name, error) in worst.items():
        print(f"{group}: worst relative {error:.3e} at {name}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
