#include "tools/train_flags/train_processes.h"

#include <map>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe::tools {
namespace {

using ::testing::HasSubstr;

absl::StatusOr<std::optional<JobAddress>> Find(const JobConfig& config,
                                               const std::map<std::string, std::string>& set = {}) {
  return FindJob(config, [&](const char* name) -> const char* {
    const auto found = set.find(name);
    return found == set.end() ? nullptr : found->second.c_str();
  });
}

const std::map<std::string, std::string>& Torchrun() {
  static const auto* const kVariables = new std::map<std::string, std::string>{
      {"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "node0"}, {"MASTER_PORT", "29500"}};
  return *kVariables;
}

TEST(TrainProcessesTest, DefaultsToASingleProcess) {
  const auto job = Find(JobConfig());
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_FALSE(job->has_value());
}

TEST(TrainProcessesTest, EnvironmentSetsTheJob) {
  const auto job = Find(JobConfig(), Torchrun());
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ((*job)->process, 1);
  EXPECT_EQ((*job)->host, "node0");
}

TEST(TrainProcessesTest, FlagsSetTheJob) {
  JobConfig config;
  config.set_processes(8);
  config.set_process(6);
  config.set_per_host(4);
  config.set_master("[fd00::1]:29401");
  const auto job = Find(config);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ((*job)->host, "fd00::1");
  EXPECT_EQ((*job)->port, 29401);
  EXPECT_EQ((*job)->process, 6);
  EXPECT_EQ((*job)->num_processes, 8);
  EXPECT_EQ((*job)->local_process, 2);
  EXPECT_EQ((*job)->num_local, 4);
}

std::string Refusal(const JobConfig& config, const std::map<std::string, std::string>& set = {}) {
  return std::string(Find(config, set).status().message());
}

TEST(TrainProcessesTest, InvalidSettingsAreRefused) {
  JobConfig config;
  config.set_process(1);
  EXPECT_THAT(Refusal(config), HasSubstr("--job.process=1 needs --job.processes"));
  config.set_processes(1);
  EXPECT_THAT(Refusal(config), HasSubstr("process 1 does not exist: there are 1 processes"));
  config.set_processes(3);
  EXPECT_THAT(
      Refusal(config, Torchrun()),
      HasSubstr("--job.processes=3, but this is already process 1 of 2 by torchrun's environment"));
  config.set_per_host(2);
  EXPECT_THAT(Refusal(config), HasSubstr("3 processes are not a multiple of 2"));
  config.set_per_host(1);
  for (const char* master : {"node0", ":29400", "node0:0", "node0:port"}) {
    config.set_master(master);
    EXPECT_THAT(Refusal(config), HasSubstr(master));
  }
}

}  // namespace
}  // namespace dpipe::tools
