// Runs one of the project's programs as a user would, and captures its output.
#ifndef DPIPE_TESTS_TESTLIB_RUN_PROGRAM_H_
#define DPIPE_TESTS_TESTLIB_RUN_PROGRAM_H_

#include <string>
#include <vector>

namespace dpipe::testlib {

struct ProgramOutcome {
  int exit_code = -1;  // 128 + signal if a signal ended it
  std::string out, err;
};

// Runs `program`, a path below the runfiles such as "bench/sd_pipeline". If it runs longer than
// `deadline_s` seconds, it is killed and the test fails.
ProgramOutcome RunProgram(const std::string& program, const std::vector<std::string>& arguments,
                          int deadline_s = 60);

// Returns a path in the test's folder. Removes what an earlier test left there, and creates
// nothing.
std::string FreshPath(const std::string& name);

}  // namespace dpipe::testlib

#endif  // DPIPE_TESTS_TESTLIB_RUN_PROGRAM_H_
