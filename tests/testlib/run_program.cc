#include "tests/testlib/run_program.h"

#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "gtest/gtest.h"
#include "tests/testlib/running_program.h"

namespace dpipe::testlib {
namespace {

std::string ReadAll(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream content;
  content << in.rdbuf();
  return content.str();
}

}  // namespace

ProgramOutcome RunProgram(const std::string& program, const std::vector<std::string>& arguments,
                          int deadline_s) {
  static int count = 0;
  const std::string base = ::testing::TempDir() + "/program_" + std::to_string(++count);
  ProgramOptions options;
  options.program = program;
  options.arguments = arguments;
  options.out = base + ".out";
  options.err = base + ".err";
  options.deadline_s = deadline_s;  // no clock is read here
  RunningProgram running(options);
  running.Wait();
  ProgramOutcome outcome;
  outcome.exit_code = running.exit_code();
  outcome.out = ReadAll(base + ".out");
  outcome.err = ReadAll(base + ".err");
  EXPECT_NE(outcome.exit_code, 128 + SIGALRM)
      << program << " ran longer than " << deadline_s << " s";
  EXPECT_NE(outcome.exit_code, 127) << program << " could not be started";
  return outcome;
}

std::string FreshPath(const std::string& name) {
  const std::string path = ::testing::TempDir() + "/" + name;
  std::filesystem::remove_all(path);
  return path;
}

}  // namespace dpipe::testlib
