#!/usr/bin/env bash
# run.sh on a bundle of shell scripts, which stand for what a machine with a GPU has.
set -uo pipefail
fail() { echo "FAILED: $*" >&2; exit 1; }

place=$TEST_TMPDIR/place
bundle=$place/bundle files=$place/bundle/files/space
mkdir -p "$files" && cd "$place" || fail "no folder"
cp "$TEST_SRCDIR/$TEST_WORKSPACE/tools/cuda/run.sh" "$bundle/run"
echo space >"$bundle/workspace"
echo 0123456789ab >"$bundle/revision"
write() { cat >"$1" && chmod +x "$1"; }  # path; what it has comes in

write "$bundle/start" <<'END_OF_FILE'
#!/bin/bash
folder=$(dirname "$0")/files/space
path=$1
shift
exec "$folder/$path" "$@"
END_OF_FILE
write "$files/gpu_info" <<'END_OF_FILE'
#!/bin/bash
echo "GPU 0: a fake"
END_OF_FILE
write "$files/some_test" <<'END_OF_FILE'
#!/bin/bash
echo '[       OK ] Some.Thing (1 ms)'
END_OF_FILE
write "$files/profile" <<'END_OF_FILE'
#!/bin/bash
echo "$DPIPE_REVISION" >"$1"
END_OF_FILE
# python3 is this: a script that lacks what the file `lacks` says.
mkdir bin
write bin/python3 <<'END_OF_FILE'
#!/bin/bash
if [ "$1" = -c ]; then [ -d site/nvidia ] && echo "$PWD/site/nvidia"; exit 0; fi
echo "python3 ${PYTHONPATH:-}" "${@:2}"
[ "${2:-}" = --check ] || exit 0
if [ -e lacks ]; then cat lacks; exit 1; fi
END_OF_FILE
printf '%s\t%s\t%s\n' \
  test some_test '' \
  comparison compare '--seconds={seconds} --folder={scratch}/model --json={results}/first.json' \
  benchmark profile '{results}/profile.txt' \
  benchmark profile '{baseline}/none' \
  program profile '' \
  gpu_info gpu_info '' >"$bundle/programs"
export PATH=$place/bin:$PATH
run() { "$bundle/run" "$@" >out.txt 2>&1; }
expect() { grep -qE -- "$1" "${2:-out.txt}" || fail "no '$1' in $(cat "${2:-out.txt}")"; }

# In the order of the list; what is asked for is filled in; all is in the archive.
run || fail "exit code $?: $(cat out.txt)"
[ "$(sed 's/ .*//' out.txt | tr '\n' ' ')" = 'Revision GPU ok ok ok skipped 3 ' ] || fail "$(cat out.txt)"
expect '^3 passed, 0 failed, 1 skipped$'
expect '^GPU      GPU 0: a fake$'
expect "^ok +compare --seconds=1200 --folder=/[^ ]+/model --json=$bundle/results/first.json$"
expect '^skipped +profile .*no --baseline$'
expect '^0123456789ab$' "$bundle/results/profile.txt"
expect '^revision 0123456789ab$' "$bundle/results/machine.txt"
for name in summary.txt machine.txt some_test.log compare.log profile.log profile.txt; do
  tar tzf "$bundle/results.tar.gz" >list.txt || fail "no archive"
  expect "^results/$name\$" list.txt
done

# Of an earlier run nothing is left; what is no run's is not touched, and not mixed with.
touch "$bundle/results/stale.json"
run --only='^some' || fail "exit code $?: $(cat out.txt)"
expect '^1 passed, 0 failed, 0 skipped$'
if ls "$bundle/results" | grep -E 'stale|profile|compare'; then fail "stale results"; fi
mkdir mine && touch mine/thesis.txt
run --results=mine
[ $? -eq 2 ] && [ -e mine/thesis.txt ] || fail "a folder of other files was used"
expect '^--results=.*/mine: it has files that no run left$'

# What a comparison lacks is told; it is a failure where everything has to be there.
echo 'python3 cannot import diffusers: it is broken' >lacks
run --only=compare || fail "exit code $?: $(cat out.txt)"
expect '^0 passed, 0 failed, 1 skipped$'
run --only=compare --require_gpu && fail "a comparison that could not be run passed"
expect '^FAILED +--require_gpu: compare .*: python3 '
rm lacks
mkdir packages
run --only=compare --python_packages=packages --require_gpu || fail "$(cat out.txt)"
expect "^python3 $place/packages(:| ).*--seconds=1200" "$bundle/results/compare.log"
run --python_packages=nowhere
[ $? -eq 2 ] || fail "packages that are not there are to be refused"

# Time: what none is left for is skipped, and a program gets no more than is left.
run --total=1 || fail "exit code $?: $(cat out.txt)"
expect '^0 passed, 0 failed, 4 skipped$'
[ "$(grep -c 'no time left$' out.txt)" -eq 3 ] || fail "$(cat out.txt)"
run --total=600 --only=compare --archive=elsewhere.tgz || fail "exit code $?: $(cat out.txt)"
expect '--seconds=5[0-9][0-9] '
tar tzf elsewhere.tgz >list.txt || fail "no archive elsewhere"
# What is ended by it has not failed; what is ended by its own limit has.
mkfifo never
write "$files/profile" <<'END_OF_FILE'
#!/bin/bash
read -r line <never
END_OF_FILE
run --total=17 --only=txt || fail "exit code $?: $(cat out.txt)"
expect '^skipped +profile .*: no time left'
run --timeout=1 --only=txt && fail "what took longer than it may passed"
expect '^FAILED +profile .*: exit code 124'

# What a program has written so far is in the archive while it runs: it ends when it sees that.
write "$files/profile" <<'END_OF_FILE'
#!/bin/bash
echo half >"$(dirname "$1")/half.txt"
until tar tzf results.tar.gz 2>/dev/null | grep half.txt >/dev/null; do read -r -t 0.1 line <>never; done
exit 0
END_OF_FILE
rm -f results.tar.gz
DPIPE_PACK_EVERY=1 run --only=txt --timeout=60 --results=results || fail "$(cat out.txt)"
expect '^ok +profile '
ls | grep -E 'meanwhile|part$' && fail "parts of archives are left"
rm -r results results.tar.gz
DPIPE_PACK_EVERY=often run
[ $? -eq 2 ] || fail "DPIPE_PACK_EVERY is to be a number"

# Told to stop, it stops what is running, and what was done is in the archive.
write "$files/profile" <<'END_OF_FILE'
#!/bin/bash
trap 'echo told to stop; exit 1' TERM
echo running >started
read -r line <>never
END_OF_FILE
mkfifo started
rm -f "$bundle/results.tar.gz"
"$bundle/run" >out.txt 2>&1 &
run_pid=$!
read -r line <started
tar xzf "$bundle/results.tar.gz" || fail "no archive before the end"
expect '^ok +some_test' results/summary.txt
kill -TERM "$run_pid"
wait "$run_pid"
[ $? -eq 143 ] || fail "not ended by SIGTERM: $(cat out.txt)"
rm -r results && tar xzf "$bundle/results.tar.gz" || fail "no archive at the end"
expect '^ended by SIGTERM: 2 passed, 0 failed, 0 skipped$' results/summary.txt
expect '^told to stop$' results/profile.log

# A test has less time than a benchmark.
write "$files/some_test" <<'END_OF_FILE'
#!/bin/bash
read -r line <>never
END_OF_FILE
run --test_timeout=1 --only='^some' && fail "a test that took longer than it may passed"
expect '^FAILED +some_test: 0 passed, 1 failed, 0 skipped; exit code 124'

# One case again, by name: of tests alone.
write "$files/some_test" <<'END_OF_FILE'
#!/bin/bash
for argument in "$@"; do
  [ "$argument" = '--gtest_filter=Some.Thing/*' ] && echo '[       OK ] Some.Thing/1 (1 ms)'
done
exit 0
END_OF_FILE
run --case='Some.Thing/*' || fail "exit code $?: $(cat out.txt)"
expect '^1 passed, 0 failed, 0 skipped$'
run --case=Nothing && fail "a case that nobody has passed"
expect '^FAILED +--case=Nothing: no test has a case of that name$'

# Where the sanitizer is among python3's packages; and where it is not.
mkdir -p site/nvidia/cu13/bin
write site/nvidia/cu13/bin/compute-sanitizer <<'END_OF_FILE'
#!/bin/bash
echo "[       OK ] Under.$1 (1 ms)"
END_OF_FILE
if ! command -v compute-sanitizer; then
  run --sanitize=memcheck || fail "exit code $?: $(cat out.txt)"
  expect '^Under +/.*/site/nvidia/cu13/bin/compute-sanitizer$'
  expect '^\[ +OK \] Under.--tool=memcheck' "$bundle/results/some_test.log"
  expect '^1 passed, 0 failed, 0 skipped$'
fi
rm -r site
if ! ls /usr/local/cuda*/*/compute-sanitizer /opt/cuda/*/compute-sanitizer 2>/dev/null &&
  ! command -v compute-sanitizer; then
  run --sanitize=memcheck || fail "exit code $?: $(cat out.txt)"
  expect '^skipped +--sanitize=memcheck: there is no compute-sanitizer in PATH'
  expect '^0 passed, 0 failed, 1 skipped$'
  run --sanitize=memcheck --require_gpu && fail "--require_gpu passed without the sanitizer"
  expect '^0 passed, 1 failed, 0 skipped$'
fi

# Without a GPU nothing else is begun, where one is required.
write "$files/gpu_info" <<'END_OF_FILE'
#!/bin/bash
echo "no GPU: a fake"
exit 1
END_OF_FILE
run --require_gpu
[ $? -eq 1 ] || fail "--require_gpu passed without a GPU"
expect '^FAILED +--require_gpu: no GPU: a fake$'
expect '^0 passed, 1 failed, 0 skipped$'
[ ! -e "$bundle/results/some_test.log" ] || fail "tests were run"
tar tzf "$bundle/results.tar.gz" | grep results/summary.txt >/dev/null || fail "no summary in the archive"

run --total=soon
[ $? -eq 2 ] || fail "what is no number of seconds is to be refused"
run --only='('
[ $? -eq 2 ] || fail "what is no regular expression is to be refused"
run --help
[ $? -eq 2 ] || fail "usage"
expect '^  --total '
expect 'pip install --no-deps --target=FOLDER'
grep -q 'set -uo' out.txt && fail "usage has code"
echo PASSED
