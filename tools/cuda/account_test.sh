#!/usr/bin/env bash
# account.sh on a bundle of shell scripts, which stand for what a machine with a GPU has.
set -uo pipefail
fail() { echo "FAILED: $*" >&2; exit 1; }

bundle=$TEST_TMPDIR/bundle
mkdir -p "$bundle" && cd "$bundle" || fail "no folder"
cp "$TEST_SRCDIR/$TEST_WORKSPACE/tools/cuda/account.sh" account
write() { cat >"$1" && chmod +x "$1"; }  # path; what it has comes in
write run <<'END_OF_FILE'
#!/bin/bash
echo "run $*" >>"$(dirname "$0")/calls"
echo "GPU      GPU 0: a fake"
echo "ok       some_test: 3 passed, 0 skipped"
echo "3 passed, 0 failed, 0 skipped"
END_OF_FILE
# A program that lacks memory for more than 32 images at once, if the file `lacks` is there.
write start <<'END_OF_FILE'
#!/bin/bash
here=$(dirname "$0")
echo "start $*" >>"$here/calls"
for argument in "$@"; do
  case $argument in
    --export_folder=*) mkdir -p "${argument#*=}" && exit ;;
    --account=*) account=${argument#*=} ;;
  esac
done
if [ "$1" = bench/suite ]; then
  for argument in "$@"; do [[ $argument == --suite=* ]] && cp "${argument#*=}" "$here/suite"; done
  echo "planned data_parallel in 1.73 ms"
  printf '%s\n' 'strategy   img/s' -------- 'data_parallel   99' 'diffusionpipe   101' 'opendiffusionpipe   102' ''
  echo "diffusionpipe: step -1.3 %; most off: a layer"
  exit
fi
if [ -e "$here/lacks" ] && [[ "$*" == *--batch=64* && "$*" != *--micro_batches=2* ]]; then
  echo "train_step: out of memory: 80 GB" >&2
  exit 1
fi
echo '{"ready":"a model"}'
while read -r steps; do
  echo "{\"cpu_seconds\":1.0,\"grad_norms\":[5.1],\"losses\":[0.46],\"parts\":{},\"peak_device_bytes\":68,\"seconds\":0.37,\"step_seconds\":[0.37,0.38],\"steps\":$steps}"
done
{ echo "All took:"; for i in {1..40}; do echo "    1.00 s     2.00 s  to     3.00 s      4 x      phase $i of which much is said"; done; } >&2
[ -n "${account:-}" ] || exit 0
echo "steps: 3" >"$account"
{ echo "GPU time of a step: 370 ms"; for i in {1..100}; do printf '%05d %s\n' "$i" "$(printf 'k%.0s' {1..200})"; done; } >&2
END_OF_FILE
expect() { grep -qE -- "$1" "${2:-out.txt}" || fail "no '$1' in $(cat "${2:-out.txt}")"; }

./account >out.txt 2>&1 || fail "exit code $?: $(cat out.txt)"
[ "$(wc -c <out.txt)" -le 12000 ] || fail "$(wc -c <out.txt) characters"
expect '^3 passed, 0 failed, 0 skipped$'
expect '^5 steps: 0.37 s \(0.37,0.38\); first loss 0.46, norm of gradients 5.1; 68 bytes$'
expect '^1.00 s, 2.00 to 3.00, 4 x +phase 20 '
expect '^00060 k+$'
[ "$(grep -c '^GPU time' out.txt)" -eq 3 ] || fail "accounts: $(grep '^GPU time' out.txt)"
for name in ours any_order folder small; do expect "^== $name, .*exit code 0" ; done
expect 'deterministic=false' calls
expect '--model=/.*/logs/model --batch=64' calls
cmp out.txt accounts/report.txt || fail "report.txt is not what was printed"
tar tzf accounts/account.tar.gz | grep -q logs/ours.textproto || fail "no account in the archive"
! tar tzf accounts/account.tar.gz | grep -q logs/model || fail "the model is in the archive"

# Half the images at once where memory lacks, then and afterwards.
touch lacks && : >calls
./account --tests=0 >out.txt 2>&1
expect '^train_step: out of memory: 80 GB$'
[ "$(grep -c 'batch=64 --micro_batches=2' calls)" -eq 3 ] || fail "$(cat calls)"
grep -q '^run' calls && fail "tests were run"
rm lacks

# Strategies on virtual GPUs instead of starts.
: >calls
./account --virtual=2 --only=parity --batch=32 >out.txt 2>&1 || fail "exit code $?: $(cat out.txt)"
[ "$(wc -c <out.txt)" -le 12000 ] || fail "$(wc -c <out.txt) characters"
expect '^run .*--only=parity' calls
for line in 'planned data_parallel' 'opendiffusionpipe  102$' 'diffusionpipe: step -1.3 %'; do
  expect "^$line"
done
expect 'devices: 2' suite
expect 'global_batches: 32' suite
! grep -q export_folder calls || fail "a model was exported"
[ "$(grep -c '^GPU time' out.txt)" -eq 2 ] || fail "accounts: $(grep '^GPU time' out.txt)"

# Without time, nothing but reasons.
./account --tests=0 --total=5 >out.txt 2>&1
expect '^== ours: skipped, [0-9]+ s left$'
./account --no_such_flag >out.txt 2>&1
[ $? -eq 2 ] || fail "unknown flags are to be refused"
expect '--out=FOLDER'
echo PASSED
