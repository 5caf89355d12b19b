#!/usr/bin/env bash
# Unpacks the bundle in an empty folder and runs it as on a machine that has nothing else: without
# a GPU everything passes or skips with a reason; a broken program is counted and told.
set -uo pipefail
fail() { echo "FAILED: $*" >&2; exit 1; }

archive=$TEST_SRCDIR/$TEST_WORKSPACE/tools/cuda/bundle.tar.xz
place=$TEST_TMPDIR/place
# What may be carried to some machines is 64 MiB, of which this repository's history takes 27.
size=$(stat -Lc %s "$archive")
echo "$((size / 1024)) KiB"
[ "$size" -le $((37 << 20)) ] || fail "$size bytes: over 37 MiB"
mkdir -p "$place" && cd "$place" && tar xJf "$archive" || fail "unpacking"
# Nothing of this machine's but the kernel and a shell.
run() { env -i PATH=/usr/bin:/bin HOME="$place" "$place/gpu_bundle/run" "$@"; }

# CUDA's libraries want these parts of the C library, which our programs may not.
for name in libdl.so.2 libpthread.so.0 librt.so.1; do
  [ -s "gpu_bundle/lib/$name" ] || fail "no $name"
done

grep -qE '^([0-9a-f]{12}(-dirty)?|unknown)$' gpu_bundle/revision || fail "revision: $(cat gpu_bundle/revision)"
[ -s gpu_bundle/README.md ] || fail "no README.md"
# As on a machine without xz.
if python3 -c 'import lzma, tarfile' 2>/dev/null; then
  mkdir by_python && (cd by_python && python3 -m tarfile -e "$archive" >/dev/null 2>&1) ||
    fail "unpacking by Python"
  diff -r gpu_bundle by_python/gpu_bundle || fail "Python unpacks something else"
  [ -x by_python/gpu_bundle/run ] || fail "Python does not make it executable"
  rm -rf by_python
fi

run >out.txt 2>&1
status=$?
cat out.txt
if [ "$status" -ne 0 ]; then
  grep -lE '^\[ *FAILED' gpu_bundle/results/*.log | xargs --no-run-if-empty cat
  fail "exit code $status"
fi
summary=$(tail -n 1 out.txt)
[[ $summary =~ ^([0-9]+)\ passed,\ 0\ failed,\ ([0-9]+)\ skipped$ ]] || fail "summary: $summary"
[ "${BASH_REMATCH[1]}" -ge 10 ] || fail "only ${BASH_REMATCH[1]} passed"
[ -s gpu_bundle/results/machine.txt ] || fail "no machine.txt"
# Not grep -q, which would end before tar has said everything.
tar tzf gpu_bundle/results.tar.gz | grep results/summary.txt >/dev/null || fail "no summary in results.tar.gz"
if ! gpu_bundle/files/*/tools/cuda/gpu_info >/dev/null 2>&1; then
  [ "${BASH_REMATCH[2]}" -ge 1 ] || fail "nothing was skipped"
  grep -qE 'no GPU: |built without CUDA' out.txt || fail "no reason for skipping"
fi

# A program that does not start is a failure, not nothing.
: >"$(echo gpu_bundle/files/*/core/backend/backend_test)"
run --only=backend_test --results=broken >broken.txt 2>&1 && fail "a broken bundle passed"
grep -q '^0 passed, 1 failed, 0 skipped$' broken.txt || fail "broken: $(tail -n 1 broken.txt)"

run --baseline=nowhere --only=none --results=no_baseline >baseline.txt 2>&1
[ $? -eq 2 ] || fail "a baseline that is not there is to be refused"
grep -q -- '--baseline=nowhere: there is no such folder' baseline.txt || fail "$(cat baseline.txt)"

if ! gpu_bundle/files/*/tools/cuda/gpu_info >/dev/null 2>&1; then
  run --require_gpu --only=none --results=required >required.txt 2>&1 && fail "--require_gpu passed"
  grep -q '^0 passed, 1 failed, 0 skipped$' required.txt || fail "required: $(cat required.txt)"
fi

# Programs start one at a time, too, from any folder.
(cd / && env -i PATH=/usr/bin:/bin "$place/gpu_bundle/start" bench/pytorch_comparison/train_step \
  --backend=none </dev/null >"$place/start.txt" 2>&1) && fail "a backend that is none was taken"
grep -q 'train_step: .*none' start.txt || fail "start: $(cat start.txt)"
gpu_bundle/start >programs.txt 2>&1
[ $? -eq 2 ] || fail "start without a program is to be refused"
grep -q '^  bench/pytorch_comparison/train_step$' programs.txt || fail "$(cat programs.txt)"

run --no_such_flag >usage.txt 2>&1
[ $? -eq 2 ] || fail "unknown flags are to be refused"
grep -q -- '--results=FOLDER' usage.txt || fail "usage is not said"
echo PASSED
