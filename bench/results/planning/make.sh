#!/usr/bin/env bash
# Makes plans.txt and unfilled_and_filled.svg. Run it at the root of the repository after
#   bazel build -c opt //tools:plan //tools:simulate //tools:trace
set -euo pipefail
folder=bench/results/planning
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
for_a100=(--profile=data/profiles/modelled/a100_80gb/stable_diffusion_v2_1_512.textproto
          --cluster=data/clusters/a100_8x1.textproto)

plan() {
  local arguments=("$@" "${for_a100[@]}")
  echo "\$ bazel run //tools:plan -- ${arguments[*]}"
  bazel-bin/tools/plan "${arguments[@]}" --output="$scratch/plan.textproto" 2>/dev/null |
    grep -v '^Written:'
  echo
}

{
  for batch in 32 64; do
    plan --strategy=opendiffusionpipe --global_batch=$batch
    for strategy in zero1 zero3 data_parallel zb-v 1f1b diffusionpipe; do
      plan --strategy=$strategy --global_batch=$batch
    done
  done
  for strategy in opendiffusionpipe diffusionpipe 1f1b; do
    plan --strategy=$strategy --num_stages=8 --num_micro_batches=8 --global_batch=64
  done
  for strategy in 1f1b opendiffusionpipe; do
    plan --strategy=$strategy --num_stages=4 --num_micro_batches=4 --global_batch=32
    bazel-bin/tools/simulate --plan="$scratch/plan.textproto" "${for_a100[@]}" \
      --output="$scratch/$strategy.pb" >/dev/null
  done
} >"$folder/plans.txt"
bazel-bin/tools/trace --trace="$scratch/1f1b.pb" --compare="$scratch/opendiffusionpipe.pb" \
  --devices=4 --steps=2 --messages=false --memory=false --critical_path=false \
  --output="$folder/unfilled_and_filled.svg"
