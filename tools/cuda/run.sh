#!/usr/bin/env bash
# Runs the tests and benchmarks of this bundle.
#   ./run [--results=FOLDER] [--baseline=FOLDER] [--only=TEXT] [--timeout=SECONDS] [--require_gpu]
#         [--sanitize=TOOL]
# --only: what has TEXT in its path or arguments. Leaves in FOLDER (default: results, beside this
# script) a log for each program, what benchmarks write, machine.txt and summary.txt; and
# FOLDER.tar.gz of all. Ends with "N passed, N failed, N skipped", and with 1 if anything failed.
# Without a GPU, tests that need one skip with the reason, and benchmarks are not run; with
# --require_gpu that is a failure. --baseline: the results of an earlier run; what is slower than
# there is a failure. Comparisons with PyTorch are run where python3 has what they need. --sanitize:
# tests alone, under compute-sanitizer's TOOL: memcheck, racecheck, initcheck or synccheck. Single
# programs are started by ./start.
set -uo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
results=$root/results baseline='' only='' limit=1200 require_gpu=false sanitize=''
for argument in "$@"; do
  case $argument in
    --results=*) results=${argument#*=} ;;
    --baseline=*) baseline=${argument#*=} ;;
    --only=*) only=${argument#*=} ;;
    --timeout=*) limit=${argument#*=} ;;
    --require_gpu) require_gpu=true ;;
    --sanitize=*) sanitize=${argument#*=} ;;
    *) sed -n '2,12s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 2 ;;
  esac
done
mkdir -p "$results" && results=$(cd "$results" && pwd) || exit 2
if [ -n "$baseline" ]; then
  [ -d "$baseline" ] || { echo "--baseline=$baseline: there is no such folder" >&2; exit 2; }
  baseline=$(cd "$baseline" && pwd)
fi
workspace=$(cat "$root/workspace")
if [ -n "$sanitize" ] && ! command -v compute-sanitizer >/dev/null; then
  echo "--sanitize=$sanitize: there is no compute-sanitizer in PATH" >&2
  exit 2
fi
readonly root results baseline only limit require_gpu sanitize workspace
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

passed=0 failed=0 skipped=0
say() { printf '%s\n' "$*" | tee -a "$results/summary.txt"; }

start() {  # path, arguments...
  TEST_TMPDIR=$scratch BUILD_WORKSPACE_DIRECTORY=$scratch DPIPE_PARITY_DEVICE=gpu \
    timeout --kill-after=30 "$limit" "${under[@]}" "$root/start" "$@" </dev/null
}

# What starts the programs of tests: nothing, or the sanitizer, whose findings are failures.
under=()
sanitized=()
[ -z "$sanitize" ] ||
  sanitized=(compute-sanitizer "--tool=$sanitize" --error-exitcode=86 --target-processes=all)

# One of a googletest program's outcomes, from its log: the lines that end with a time.
count() { grep -cE "^\[ *$1 *\] .* \([0-9]+ ms\)$" "$2" || true; }

run_test() {  # path
  local log=$results/${1//\//.}.log status ok bad skip
  local -a under=("${sanitized[@]}")
  start "$1" --gtest_color=no >"$log" 2>&1
  status=$?
  ok=$(count OK "$log") bad=$(count FAILED "$log") skip=$(count SKIPPED "$log")
  # A program that ends early has not said what failed.
  [ "$status" -ne 0 ] && [ "$bad" -eq 0 ] && bad=1
  passed=$((passed + ok)) failed=$((failed + bad)) skipped=$((skipped + skip))
  if [ "$bad" -gt 0 ]; then
    say "FAILED   $1: $ok passed, $bad failed, $skip skipped; exit code $status, see $log"
  else
    say "ok       $1: $ok passed, $skip skipped"
  fi
  [ "$skip" -gt 0 ] && grep -A1 -E '^.*: Skipped$' "$log" | grep -vE ': Skipped$|^--$' |
    sort -u | sed 's/^/           /' | tee -a "$results/summary.txt"
  return 0
}

# A script that python3 runs; our programs it starts by ./start.
start_script() {  # path, arguments...
  BUILD_WORKSPACE_DIRECTORY=$scratch timeout --kill-after=30 "$limit" \
    python3 "$root/files/$workspace/$1" "${@:2}" </dev/null
}

declare -A runs  # of each benchmark

run_benchmark() {  # how to start it, path, arguments
  local how=$1 log status
  shift
  runs[$1]=$((${runs[$1]:-0} + 1))
  log=$results/${1//\//.}.log
  [ "${runs[$1]}" -eq 1 ] || log=${log%.log}.${runs[$1]}.log
  local -a arguments
  local text=$2 name
  local -A paths=([results]=$results [baseline]=$baseline [start]=$root/start)
  for name in "${!paths[@]}"; do
    text=${text//"{$name}"/$(printf %q "${paths[$name]}")}
  done
  eval "arguments=($text)"
  "$how" "$1" "${arguments[@]}" >"$log" 2>&1
  status=$?
  if [ "$status" -eq 0 ]; then
    passed=$((passed + 1))
    say "ok       $1 ${arguments[*]}"
  else
    failed=$((failed + 1))
    say "FAILED   $1 ${arguments[*]}: exit code $status, $(tail -n 1 "$log")"
  fi
}

: >"$results/summary.txt"
gpu_info=$(awk -F'\t' '$1 == "gpu_info" {print $2}' "$root/programs")
{ uname -a; grep -m1 'model name' /proc/cpuinfo; nvidia-smi 2>&1; } >"$results/machine.txt" 2>&1
gpus=$(start "$gpu_info" 2>&1)
has_gpu=$?
printf '%s\n' "$gpus" >>"$results/machine.txt"
say "GPU      $gpus"
if [ "$has_gpu" -ne 0 ] && $require_gpu; then
  failed=$((failed + 1))
  say "FAILED   --require_gpu: $gpus"
fi

while IFS=$'\t' read -r kind path arguments; do
  [[ "$path $arguments" == *"$only"* ]] || continue
  case $kind in
    test) run_test "$path" ;;
    benchmark | comparison)
      how=start reason=''
      [ -z "$sanitize" ] || continue
      [[ -z $baseline && $arguments == *'{baseline}'* ]] && reason="no --baseline"
      if [ "$kind" = comparison ]; then
        how=start_script
        reason=$(python3 "$root/files/$workspace/$path" --check 2>&1 | tail -n 1)
      fi
      [ "$has_gpu" -eq 0 ] || reason=$gpus
      if [ -z "$reason" ]; then
        run_benchmark "$how" "$path" "$arguments"
      else
        skipped=$((skipped + 1))
        say "skipped  $path $arguments: $reason"
      fi
      ;;
  esac
done <"$root/programs"

say "$passed passed, $failed failed, $skipped skipped"
tar -C "$(dirname "$results")" -czf "$results.tar.gz" "$(basename "$results")"
[ "$failed" -eq 0 ]
