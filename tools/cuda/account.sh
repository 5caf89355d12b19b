#!/usr/bin/env bash
# Runs the GPU tests, then accounts for the GPU's time in training steps of Stable Diffusion v2.1's
# U-Net and for the time until the first step.
#   ./account [--out=FOLDER] [--total=SECONDS] [--tests=SECONDS] [--only=REGEX] [--model=NAME]
#             [--batch=N] [--virtual=N]
# Prints at most 12,000 characters, the account of the steps as they usually are last. FOLDER
# (default: accounts, beside this script) gets report.txt, which is what was printed, and
# account.tar.gz with all logs and accounts. An earlier account's files there are replaced.
#   --total   for all of it; parts for which nothing is left are skipped. Default: 290
#   --tests   of that, for the tests. Default: 110; 0: no tests
#   --only    the tests, as ./run has it. Default: _test
#   --virtual  compares strategies on so many virtual GPUs, measured beside predicted, instead of
#             starting from a folder and accounting for 16 images. Default: 0
#   --batch   images of a step. Default: 64; in two passes where memory is lacking
set -uo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
out=$root/accounts total=290 tests=110 only=_test virtual=0 model=stable_diffusion_v2_1 batch=64
for argument in "$@"; do
  case $argument in
    --out=*) out=${argument#*=} ;;
    --total=*) total=${argument#*=} ;;
    --tests=*) tests=${argument#*=} ;;
    --only=*) only=${argument#*=} ;;
    --virtual=*) virtual=${argument#*=} ;;
    --model=*) model=${argument#*=} ;;
    --batch=*) batch=${argument#*=} ;;
    *) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 2 ;;
  esac
done
mkdir -p "$out" && out=$(cd "$out" && pwd) || exit 2
readonly root out total tests only virtual model batch
readonly logs=$out/logs
rm -rf "$logs" "$out/account.tar.gz" && mkdir -p "$logs"
readonly train_step=bench/pytorch_comparison/train_step

failed=0
left() { echo $((total - SECONDS)); }

# Steps of the U-Net alone: the first, another one, and five whose time counts.
train() {  # name, seconds that it must have, arguments...
  local name=$1 needed=$2
  shift 2
  if [ "$(left)" -lt "$needed" ]; then
    echo "== $name: skipped, $(left) s left"
    return 1
  fi
  printf '1\n1\n5\n' | timeout --kill-after=5 "$(left)" "$root/start" "$train_step" \
    --backend=cuda --image_size=512 --dtype=bf16 --cached_steps=12 --phases "$@" \
    >"$logs/$name.out" 2>"$logs/$name.log"
  local status=$?
  echo "== $name, at $SECONDS s: ${*//"$logs/"/} (exit code $status)"
  [ "$status" -eq 0 ] || { failed=1; tail -n 2 "$logs/$name.log" | cut -c1-300; }
  # A line of JSON per request; the first says what is ready.
  sed -nE 's/.*"grad_norms":\[([^],]*).*"losses":\[([^],]*).*"peak_device_bytes":([0-9]*).*"seconds":([0-9.e-]*),("step_seconds":\[([^]]*)\],)?"steps":([0-9]*).*/\7 steps: \4 s (\6); first loss \2, norm of gradients \1; \3 bytes/p' \
    "$logs/$name.out"
  # Only where the GPU's memory ran short.
  grep 'wait for memory' "$logs/$name.log" | tail -n 1
  return "$status"
}

# The lines of a log from one that begins with a text, as many as that.
part() {  # log, beginning, lines
  sed -n "/^$2/,\$p" "$1" | sed "$3q"
}

# What the parts of a start took, and when they began and ended.
phases() {  # log, lines
  part "$1" 'All took' "$2" |
    sed -E 's/^ *([0-9.]+) s +([0-9.]+) s +to +([0-9.]+) s +([0-9]+) x/\1 s, \2 to \3, \4 x/' | cut -c1-80
}

# What strategies reach on virtual GPUs, and what was predicted.
compare_strategies() {
  local suite=$logs/suite.textproto
  if [ "$(left)" -lt 60 ]; then
    echo "== strategies: skipped, $(left) s left"
    return 1
  fi
  cat >"$suite" <<END_OF_SUITE
name: "strategies"
description: "Strategies on $virtual virtual GPUs of one GPU."
groups {
  backends: "cuda"
  models { name: "$model" image_size: 512 caption_drop: 0.1 }
  strategies: ["data_parallel", "diffusionpipe", "opendiffusionpipe"]
  devices: $virtual
  global_batches: $batch
  dtype: "bf16"
  repeats: 2
  steps: 2
  warmup_steps: 1
  profiles: 1
  reference_steps: 1
}
END_OF_SUITE
  timeout --kill-after=5 "$(left)" "$root/start" bench/suite --suite="$suite" --fresh \
    --out="$logs/suite" >"$logs/suite.log" 2>&1
  local status=$?
  echo "== strategies on $virtual virtual GPUs, at $SECONDS s (exit code $status)"
  grep '^planned' "$logs/suite.log" | cut -c1-120
  part "$logs/suite.log" 'strategy  ' 5 | sed -E 's/ {3,}/  /g' | cut -c1-170
  grep -E ': step .*most off' "$logs/suite.log" | cut -c1-160
  [ "$status" -eq 0 ] || { failed=1; tail -n 2 "$logs/suite.log" | cut -c1-300; }
  return "$status"
}

account_for_all() {
  if [ "$tests" -gt 0 ]; then
    "$root/run" --require_gpu --only="$only" --total="$tests" --results="$logs/tests" \
      --archive="$out/tests.tar.gz" >"$logs/tests.log" 2>&1 || failed=1
    rm -f "$out/tests.tar.gz"
    grep -E '^(GPU|FAILED|skipped)' "$logs/tests.log" | cut -c1-180 | head -n 12
    tail -n 1 "$logs/tests.log"
  fi

  accounted=(--model="$model" --batch="$batch")
  train ours 40 "${accounted[@]}" --account="$logs/ours.textproto"
  if grep -q 'out of memory' "$logs/ours.log" 2>/dev/null; then
    accounted+=(--micro_batches=2)
    train ours 40 "${accounted[@]}" --account="$logs/ours.textproto"
  fi
  [ -e "$logs/ours.log" ] && phases "$logs/ours.log" "$((virtual > 0 ? 20 : 24))"

  # What order costs: the same with engines that add in any order.
  train any_order 45 "${accounted[@]}" --deterministic=false --account="$logs/any_order.textproto" &&
    part "$logs/any_order.log" 'GPU time' "$((virtual > 0 ? 30 : 12))" | cut -c1-84

  if [ "$virtual" -gt 0 ]; then
    compare_strategies
  else
    account_for_starts
  fi

  [ -e "$logs/ours.log" ] &&
    part "$logs/ours.log" 'GPU time' "$((virtual > 0 ? 46 : 64))" | cut -c1-96
  echo "$SECONDS s in all"
  return "$failed"
}

account_for_starts() {
  # Starting from a folder, as users do.
  if [ "$(left)" -gt 70 ]; then
    begin=$SECONDS
    timeout "$(left)" "$root/start" "$train_step" --backend=cuda --image_size=512 \
      --model="$model" --batch=1 --export_folder="$logs/model" --export_steps=1 \
      >"$logs/export.log" 2>&1
    echo "== export: $((SECONDS - begin)) s (exit code $?)"
    train folder 25 --model="$logs/model" --batch="$batch" "${accounted[@]:2}" &&
      phases "$logs/folder.log" 18
  fi
  rm -rf "$logs/model"

  train small 30 --model="$model" --batch=16 --account="$logs/small.textproto" &&
    part "$logs/small.log" 'GPU time' 7 | cut -c1-84
}

account_for_all 2>&1 | tee "$out/report.txt"
failed=${PIPESTATUS[0]}
tar -C "$out" -czf "$out/account.tar.gz" logs
exit "$failed"
