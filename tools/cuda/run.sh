#!/usr/bin/env bash
# Runs the tests, benchmarks and comparisons of this bundle, the most telling ones first.
#   ./run [--results=FOLDER] [--archive=FILE] [--baseline=FOLDER] [--only=REGEX]
#         [--case=PATTERN] [--timeout=SECONDS] [--test_timeout=SECONDS] [--total=SECONDS]
#         [--python_packages=FOLDER] [--require_gpu] [--sanitize=TOOL]
# Leaves in FOLDER (default: results, beside this script) a log for each program, what benchmarks
# write, machine.txt and summary.txt; and FILE (default: FOLDER.tar.gz) of all, written anew after
# each program, every DPIPE_PACK_EVERY seconds (default: 60; 0: not) while one runs, lest a run that
# is killed leaves nothing, and when this ends, also by SIGTERM. FOLDER must be empty, or an earlier run's, whose
# results are removed. Ends with "N passed, N failed, N skipped", and with 1 if anything failed.
#   --only      what REGEX is found in, of a program's path and arguments
#   --case      tests alone, and of those the cases that PATTERN names as --gtest_filter does, for
#               instance 'Sizes/*On2*'; a failure where there is none
#   --timeout   for each benchmark and comparison; default: 1200
#   --test_timeout  for each test; default: 300, with --sanitize as long as a benchmark
#   --total     for all of it: a program gets what is left, and those for which nothing is left are
#               skipped; default: as long as it takes
#   --baseline  the results of an earlier run; what is slower than there is a failure
#   --require_gpu  it is a failure that there is no GPU, and the end, or not what a comparison needs.
#               Otherwise tests that need a GPU skip with the reason, and benchmarks are not run
#   --sanitize  tests alone, under compute-sanitizer's TOOL: memcheck, racecheck, initcheck or
#               synccheck. It is looked for in PATH, among python3's packages and where toolkits
#               usually are; where there is none all is skipped, or with --require_gpu a failure
# Comparisons with PyTorch are run where python3 has what they need, or finds it in the FOLDER of
# --python_packages. For a machine that has PyTorch, transformers and safetensors, but no diffusers:
#   pip download --no-deps diffusers                                  # where there is a network
#   pip install --no-deps --target=FOLDER diffusers-*.whl             # there
# Single programs are started by ./start.
set -uo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
results=$root/results archive='' baseline='' only='' limit=1200 test_limit='' total=0 packages=''
require_gpu=false sanitize='' case='' every=${DPIPE_PACK_EVERY:-60}
for argument in "$@"; do
  case $argument in
    --results=*) results=${argument#*=} ;;
    --archive=*) archive=${argument#*=} ;;
    --baseline=*) baseline=${argument#*=} ;;
    --only=*) only=${argument#*=} ;;
    --case=*) case=${argument#*=} ;;
    --timeout=*) limit=${argument#*=} ;;
    --test_timeout=*) test_limit=${argument#*=} ;;
    --total=*) total=${argument#*=} ;;
    --python_packages=*) packages=${argument#*=} ;;
    --require_gpu) require_gpu=true ;;
    --sanitize=*) sanitize=${argument#*=} ;;
    *) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 2 ;;
  esac
done
refuse() { printf '%s\n' "$*" >&2; exit 2; }

[ -n "$test_limit" ] || { [ -n "$sanitize" ] && test_limit=$limit || test_limit=300; }
for seconds in "--timeout=$limit" "--test_timeout=$test_limit" "--total=$total" \
  "DPIPE_PACK_EVERY=$every"; do
  [[ ${seconds#*=} =~ ^[0-9]+$ ]] || refuse "$seconds: that is no number of seconds"
done
[[ '' =~ $only ]]
[ $? -ne 2 ] || refuse "--only=$only: that is no regular expression"
if [ -n "$baseline" ]; then
  [ -d "$baseline" ] || refuse "--baseline=$baseline: there is no such folder"
  baseline=$(cd "$baseline" && pwd)
fi
if [ -n "$packages" ]; then
  [ -d "$packages" ] || refuse "--python_packages=$packages: there is no such folder"
  PYTHONPATH=$(cd "$packages" && pwd)${PYTHONPATH:+:$PYTHONPATH}
  export PYTHONPATH
fi
# Results of an earlier run would be taken for this one's.
mkdir -p "$results" && results=$(cd "$results" && pwd) || exit 2
[ "$results" != "$baseline" ] || refuse "--results and --baseline are the same folder: $results"
if [ -n "$(ls -A "$results")" ]; then
  [ -e "$results/.gpu_bundle" ] || refuse "--results=$results: it has files that no run left"
  find "$results" -mindepth 1 -delete || exit 2
fi
: >"$results/.gpu_bundle"
archive=${archive:-$results.tar.gz}
rm -f "$archive"

workspace=$(cat "$root/workspace")
DPIPE_REVISION=$(cat "$root/revision")
export DPIPE_REVISION PYTHONDONTWRITEBYTECODE=1
readonly root results archive baseline only limit test_limit total require_gpu sanitize workspace
readonly case every
# What is kept of --total for a program that does not end at once, and for the archive.
readonly reserve=15

passed=0 failed=0 skipped=0 child=''
say() { printf '%s\n' "$*" | tee -a "$results/summary.txt"; }

# Of tar's codes 1 says that something was written meanwhile.
pack() {  # what the file is called until it is whole
  local part=$archive.${1:-part}
  tar -C "$(dirname "$results")" -czf "$part" "$(basename "$results")" 2>/dev/null
  [ $? -le 1 ] && mv "$part" "$archive"
}

pack_again_and_again() {
  local sleeper=''
  trap '[ -z "$sleeper" ] || kill "$sleeper" 2>/dev/null; exit' TERM
  while kill -0 "$$" 2>/dev/null; do  # this script, which may be killed
    sleep "$every" &
    sleeper=$!
    wait "$sleeper"
    pack meanwhile
  done
}

scratch=$(mktemp -d)
packer=''
finish() {
  [ -z "$packer" ] || { kill "$packer" && wait "$packer"; } 2>/dev/null
  rm -f "$archive.meanwhile"
  pack
  rm -rf "$scratch"
}
trap finish EXIT
if [ "$every" -gt 0 ]; then
  (trap - EXIT; pack_again_and_again) </dev/null >/dev/null 2>&1 &
  packer=$!
fi

stop() {  # signal
  trap '' INT TERM
  [ -z "$child" ] || { kill "$child" && wait "$child"; } 2>/dev/null
  say "ended by SIG$1: $passed passed, $failed failed, $skipped skipped"
  exit $((128 + $(kill -l "$1")))
}
trap 'stop INT' INT
trap 'stop TERM' TERM

finish_with_counts() {
  say "$passed passed, $failed failed, $skipped skipped"
  exit $((failed > 0))
}

# Sets `allowed`, the seconds that the next program may take; false where none are left.
allow() {  # seconds, where enough are left
  asked=$1 allowed=$1
  [ "$total" -gt 0 ] || return 0
  local left=$((total - SECONDS - reserve))
  [ "$left" -ge "$allowed" ] || allowed=$left
  [ "$left" -gt 0 ]
}

# Whether a program was ended because --total is over, and not its own time.
out_of_time() {  # exit code
  [ "$allowed" -lt "$asked" ] && { [ "$1" -eq 124 ] || [ "$1" -eq 137 ]; }
}

# Beside this shell, which can then be told to stop.
await() {  # command...
  TEST_TMPDIR=$scratch BUILD_WORKSPACE_DIRECTORY=$scratch DPIPE_PARITY_DEVICE=gpu \
    timeout --kill-after=10 "$allowed" "$@" </dev/null &
  child=$!
  wait "$child"
  local status=$?
  child=''
  return "$status"
}

start() {  # path, arguments...
  await "${under[@]}" "$root/start" "$@"
}

# A script that python3 runs; our programs it starts by ./start.
start_script() {  # path, arguments...
  await python3 "$root/files/$workspace/$1" "${@:2}"
}

# What starts the programs of tests: nothing, or the sanitizer, whose findings are failures.
under=()
sanitized=()

find_sanitizer() {
  command -v compute-sanitizer && return
  local -a folders
  readarray -t folders < <(python3 -c 'import nvidia; print(*nvidia.__path__, sep="\n")' 2>/dev/null)
  find -L "${folders[@]}" "${CUDA_HOME:-/usr/local/cuda}" /usr/local/cuda* /opt/cuda \
    -maxdepth 4 -name compute-sanitizer -type f -perm -u+x 2>/dev/null | head -n 1
}

# One of a googletest program's outcomes, from its log: the lines that end with a time.
count() { grep -cE "^\[ *$1 *\] .* \([0-9]+ ms\)$" "$2" || true; }

run_test() {  # path
  local log=$results/${1//\//.}.log status ok bad skip
  local -a under=("${sanitized[@]}")
  start "$1" --gtest_color=no ${case:+"--gtest_filter=$case"} >"$log" 2>&1
  status=$?
  ok=$(count OK "$log") bad=$(count FAILED "$log") skip=$(count SKIPPED "$log")
  if [ "$bad" -eq 0 ] && out_of_time "$status"; then
    passed=$((passed + ok)) skipped=$((skipped + skip + 1))
    say "skipped  $1: no time left after $ok passed; ended after $allowed s"
    return
  fi
  # A program that ends early has not said what failed.
  [ "$status" -ne 0 ] && [ "$bad" -eq 0 ] && bad=1
  passed=$((passed + ok)) failed=$((failed + bad)) skipped=$((skipped + skip))
  [ -n "$case" ] && [ "$((ok + bad + skip))" -eq 0 ] && return  # it has none of that name
  if [ "$bad" -gt 0 ]; then
    say "FAILED   $1: $ok passed, $bad failed, $skip skipped; exit code $status, see $log"
  else
    say "ok       $1: $ok passed, $skip skipped"
  fi
  [ "$skip" -gt 0 ] && grep -A1 -E '^.*: Skipped$' "$log" | grep -vE ': Skipped$|^--$' |
    sort -u | sed 's/^/           /' | tee -a "$results/summary.txt"
  return 0
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
  local -A values=([results]=$results [baseline]=$baseline [start]=$root/start [scratch]=$scratch
    [seconds]=$allowed)
  for name in "${!values[@]}"; do
    text=${text//"{$name}"/$(printf %q "${values[$name]}")}
  done
  eval "arguments=($text)"
  "$how" "$1" "${arguments[@]}" >"$log" 2>&1
  status=$?
  if [ "$status" -eq 0 ]; then
    passed=$((passed + 1))
    say "ok       $1 ${arguments[*]}"
  elif out_of_time "$status"; then
    skipped=$((skipped + 1))
    say "skipped  $1 ${arguments[*]}: no time left; ended after $allowed s, see $log"
  else
    failed=$((failed + 1))
    say "FAILED   $1 ${arguments[*]}: exit code $status, $(tail -n 1 "$log")"
  fi
}

declare -A lacks  # what python3 lacks for a script; empty: nothing

check_script() {  # path
  [ -z "${lacks[$1]+set}" ] || return 0
  local said=$scratch/check
  # Libraries warn of much on the other stream.
  if start_script "$1" --check >"$said" 2>"$said.log"; then
    lacks[$1]=''
  else
    lacks[$1]=$(cat "$said" "$said.log" | grep -v '^$' | head -n 1)
    [ -n "${lacks[$1]}" ] || lacks[$1]="python3 cannot run it"
  fi
}

: >"$results/summary.txt"
gpu_info=$(awk -F'\t' '$1 == "gpu_info" {print $2}' "$root/programs")
{
  echo "revision $DPIPE_REVISION"
  uname -a
  grep -m1 'model name' /proc/cpuinfo
  timeout 60 nvidia-smi
} >"$results/machine.txt" 2>&1
allow "$test_limit"
[ "$allowed" -gt 0 ] || allowed=1
start "$gpu_info" >"$scratch/gpus" 2>&1
has_gpu=$?
gpus=$(cat "$scratch/gpus")
gpus=${gpus:-$gpu_info ended with code $has_gpu}
printf '%s\n' "$gpus" >>"$results/machine.txt"
say "Revision $DPIPE_REVISION"
say "GPU      $gpus"
if [ "$has_gpu" -ne 0 ] && $require_gpu; then
  failed=1
  say "FAILED   --require_gpu: $gpus"
  finish_with_counts
fi
if [ -n "$sanitize" ]; then
  sanitizer=$(find_sanitizer)
  reason="--sanitize=$sanitize: there is no compute-sanitizer in PATH, python3's packages or a toolkit"
  if [ -n "$sanitizer" ]; then
    sanitized=("$sanitizer" "--tool=$sanitize" --error-exitcode=86 --target-processes=all)
    say "Under    $sanitizer"
  elif $require_gpu; then
    failed=1
    say "FAILED   $reason"
    finish_with_counts
  else
    skipped=1
    say "skipped  $reason"
    finish_with_counts
  fi
fi

while IFS=$'\t' read -r kind path arguments <&3; do
  [[ "$path $arguments" =~ $only ]] || continue
  case $kind in
    test)
      if allow "$test_limit"; then
        run_test "$path"
      else
        skipped=$((skipped + 1))
        say "skipped  $path: no time left"
      fi
      ;;
    benchmark | comparison)
      how=start reason='' is_lacking=false
      [ -z "$sanitize$case" ] || continue
      if [ "$has_gpu" -ne 0 ]; then
        reason=$gpus
      elif [[ -z $baseline && $arguments == *'{baseline}'* ]]; then
        reason="no --baseline"
      elif ! allow "$limit"; then
        reason="no time left"
      elif [ "$kind" = comparison ]; then
        how=start_script
        check_script "$path"
        reason=${lacks[$path]}
        [ -z "$reason" ] || is_lacking=true
        allow "$limit" || reason=${reason:-no time left}
      fi
      if [ -z "$reason" ]; then
        run_benchmark "$how" "$path" "$arguments"
      elif $is_lacking && $require_gpu; then
        failed=$((failed + 1))
        say "FAILED   --require_gpu: $path $arguments: $reason"
      else
        skipped=$((skipped + 1))
        say "skipped  $path $arguments: $reason"
      fi
      ;;
    *) continue ;;
  esac
  pack
done 3<"$root/programs"

if [ -n "$case" ] && [ "$((passed + failed + skipped))" -eq 0 ]; then
  failed=1
  say "FAILED   --case=$case: no test has a case of that name"
fi
finish_with_counts
