// Runs the communication benchmark as a user does: with processes, threads, and the available GPUs.
#include <string>

#include "core/base/files/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/testlib/process_job.h"
#include "tests/testlib/run_program.h"

namespace dpipe {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

TEST(CommunicationTest, EveryTransportHasItsRowsOrAReason) {
  const std::string out = ::testing::TempDir() + "/out";
  const auto run = testlib::RunProgram(
      "bench/communication",
      {"--ranks=2,3", "--min_bytes=1024", "--max_bytes=4096", "--milliseconds=1", "--out=" + out});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  for (const char* row : {"| gloo | 2 | 1.0 KiB |", "| gloo | 3 | 4.0 KiB |",
                          "| in_process | 2 | 4.0 KiB |", "| in_process | 3 | 1.0 KiB |"}) {
    EXPECT_THAT(run.out, HasSubstr(row));
  }
  EXPECT_THAT(run.out, AnyOf(HasSubstr("| nccl | 2 | 1.0 KiB |"), HasSubstr("skipping nccl: ")));
  EXPECT_THAT(run.out, HasSubstr(*ReadFile(out + "/table.md")));
  const auto results = nlohmann::json::parse(*ReadFile(out + "/results.json"));
  ASSERT_GE(results["measured"].size(), 4u);
  for (const auto& measured : results["measured"]) {
    ASSERT_EQ(measured["times"].size(), 10u) << measured["transport"];  // 5 kinds, 2 sizes
    for (const auto& time : measured["times"]) EXPECT_GT(time["median_ns"], 0);
  }
}

TEST(CommunicationTest, ProcessesOfAJobAreItsRanks) {
  const std::string out = testlib::FreshPath("job");
  testlib::ProcessJobOptions options;
  options.program = "bench/communication";
  options.num_processes = 3;
  options.by_environment = true;
  options.consoles = out + ".console";
  options.deadline_s = 60;
  options.flags = {"--transports=gloo", "--max_bytes=4096", "--milliseconds=1", "--out=" + out};
  const auto job = testlib::ProcessJob::Create(options);
  ASSERT_TRUE(job.ok()) << job.status();
  (*job)->StartAll();
  for (int i = 0; i < options.num_processes; ++i) {
    EXPECT_EQ((*job)->ExitCode(i), 0) << (*job)->Output(i);
  }
  EXPECT_THAT((*job)->Output(0), HasSubstr("| gloo | 3 | 4.0 KiB |"));
  EXPECT_EQ((*job)->Output(1), "");
  const auto results = nlohmann::json::parse(*ReadFile(out + "/results.json"));
  ASSERT_EQ(results["measured"].size(), 1u);
  EXPECT_EQ(results["measured"][0]["ranks"], 3);
  EXPECT_EQ(results["measured"][0]["times"].size(), 10u);
  EXPECT_THAT(std::string(results["command_line"]),
              HasSubstr("3 processes by torchrun's environment: "));
}

TEST(CommunicationTest, ProcessesOfAJobAreNotThreads) {
  const std::string out = testlib::FreshPath("threads");
  testlib::ProcessJobOptions options;
  options.program = "bench/communication";
  options.by_environment = true;
  options.consoles = out + ".console";
  options.deadline_s = 60;
  options.flags = {"--transports=in_process", "--out=" + out};
  const auto job = testlib::ProcessJob::Create(options);
  ASSERT_TRUE(job.ok()) << job.status();
  (*job)->Start(0);
  EXPECT_EQ((*job)->ExitCode(0), 2);
  EXPECT_THAT((*job)->Output(0), HasSubstr("--transports=in_process: processes of a job need gloo "
                                           "or nccl"));
}

TEST(CommunicationTest, WrongFlagsAreNamed) {
  const auto ranks = testlib::RunProgram("bench/communication", {"--ranks=2,one"});
  EXPECT_EQ(ranks.exit_code, 2);
  EXPECT_THAT(ranks.err, HasSubstr("--ranks=2,one must be numbers, at least 2"));
  const auto transport = testlib::RunProgram("bench/communication", {"--transports=mpi"});
  EXPECT_EQ(transport.exit_code, 2);
  EXPECT_THAT(transport.err,
              HasSubstr("unknown --transports=mpi; expected gloo, in_process or nccl"));
}

}  // namespace
}  // namespace dpipe
