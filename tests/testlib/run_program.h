// Runs one of the project's programs as a user would, and catches what it says.
#ifndef DPIPE_TESTS_TESTLIB_RUN_PROGRAM_H_
#define DPIPE_TESTS_TESTLIB_RUN_PROGRAM_H_

#include <string>
#include <vector>

namespace dpipe::testlib {

struct ProgramOutcome {
  int exit_code = -1;  // 128 + signal where a signal ended it
  std::string out, err;
};

// `program` is a path below the runfiles, e.g. "bench/sd_pipeline". The test fails if it runs
// longer than `deadline_s` seconds, and the program is killed then.
ProgramOutcome RunProgram(const std::string& program, const std::vector<std::string>& arguments,
                          int deadline_s = 60);

// In the test's folder, with nothing left there of an earlier test, and not made yet.
std::string FreshPath(const std::string& name);

}  // namespace dpipe::testlib

#endif  // DPIPE_TESTS_TESTLIB_RUN_PROGRAM_H_
