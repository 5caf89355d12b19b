#include "core/comm/rendezvous/job_address.h"

#include <map>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

using ::testing::HasSubstr;

absl::StatusOr<std::optional<JobAddress>> From(const std::map<std::string, std::string>& set) {
  return JobAddressFromEnvironment([&](const char* name) -> const char* {
    const auto found = set.find(name);
    return found == set.end() ? nullptr : found->second.c_str();
  });
}

TEST(JobAddressTest, NothingIsNoJob) {
  const auto address = From({});
  ASSERT_TRUE(address.ok());
  EXPECT_FALSE(address->has_value());
}

TEST(JobAddressTest, Torchrun) {
  const auto address = From({{"RANK", "5"},
                             {"WORLD_SIZE", "8"},
                             {"LOCAL_RANK", "1"},
                             {"LOCAL_WORLD_SIZE", "4"},
                             {"MASTER_ADDR", "fd00::7"},
                             {"MASTER_PORT", "29500"},
                             {"TORCHELASTIC_RUN_ID", "abc"},
                             {"TORCHELASTIC_RESTART_COUNT", "2"}});
  ASSERT_TRUE(address.ok()) << address.status();
  const JobAddress& job = **address;
  EXPECT_EQ(job.process, 5);
  EXPECT_EQ(job.num_processes, 8);
  EXPECT_EQ(job.local_process, 1);
  EXPECT_EQ(job.num_local, 4);
  EXPECT_EQ(job.host, "fd00::7");
  EXPECT_EQ(job.port, 29500);
  EXPECT_EQ(job.job, "abc restart 2");
}

TEST(JobAddressTest, TheAgentOfTorchrunKeepsItsPort) {
  const auto address = From({{"RANK", "0"},
                             {"WORLD_SIZE", "1"},
                             {"MASTER_ADDR", "localhost"},
                             {"MASTER_PORT", "29500"},
                             {"TORCHELASTIC_USE_AGENT_STORE", "True"}});
  ASSERT_TRUE(address.ok()) << address.status();
  EXPECT_EQ((*address)->port, 29501);
}

TEST(JobAddressTest, ErrorsNameTheMissingOrWrongVariable) {
  EXPECT_THAT(std::string(From({{"RANK", "0"}, {"WORLD_SIZE", "2"}}).status().message()),
              HasSubstr("in torchrun's environment, MASTER_ADDR is not set"));
  EXPECT_THAT(std::string(From({{"WORLD_SIZE", "2"}}).status().message()),
              HasSubstr("RANK is not set"));
  EXPECT_THAT(
      std::string(
          From({{"RANK", "2"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "h"}, {"MASTER_PORT", "1"}})
              .status()
              .message()),
      HasSubstr("RANK is '2'; it must be from 0 to 1"));
  EXPECT_THAT(
      std::string(
          From({{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "h"}, {"MASTER_PORT", "http"}})
              .status()
              .message()),
      HasSubstr("MASTER_PORT is 'http'; it must be from 1 to 65535"));
}

TEST(JobAddressTest, Slurm) {
  const auto address = From({{"SLURM_PROCID", "3"},
                             {"SLURM_NTASKS", "6"},
                             {"SLURM_LOCALID", "1"},
                             {"SLURM_TASKS_PER_NODE", "2(x3)"},
                             {"SLURM_JOB_ID", "12345"},
                             {"SLURM_STEP_ID", "0"},
                             {"SLURM_JOB_NODELIST", "node[03-05]"}});
  ASSERT_TRUE(address.ok()) << address.status();
  const JobAddress& job = **address;
  EXPECT_EQ(job.process, 3);
  EXPECT_EQ(job.num_processes, 6);
  EXPECT_EQ(job.num_local, 2);
  EXPECT_EQ(job.host, "node03");
  EXPECT_EQ(job.port, 22345);
  EXPECT_EQ(job.job, "slurm 12345.0 restart 0");
}

TEST(JobAddressTest, SlurmNodesNeedNotHaveEquallyManyTasks) {
  std::map<std::string, std::string> set = {{"SLURM_PROCID", "8"},
                                            {"SLURM_NTASKS", "10"},
                                            {"SLURM_LOCALID", "1"},
                                            {"SLURM_STEP_ID", "0"},
                                            {"SLURM_TASKS_PER_NODE", "2(x3),1,3"},
                                            {"SLURM_JOB_ID", "12345"},
                                            {"SLURM_JOB_NODELIST", "node[03-07]"}};
  const auto local = [&](const std::string& node) {
    set["SLURM_NODEID"] = node;
    const auto address = From(set);
    return address.ok() && address->has_value() ? (*address)->num_local : 0;
  };
  EXPECT_EQ(local("0"), 2);
  EXPECT_EQ(local("2"), 2);
  EXPECT_EQ(local("4"), 3);
  EXPECT_EQ(local("5"), 0);
  set["SLURM_NODEID"] = "3";
  EXPECT_THAT(std::string(From(set).status().message()),
              HasSubstr("SLURM_TASKS_PER_NODE is '2(x3),1,3', which has no task 1 (from 0) on "
                        "node 3"));
  // The step's own list takes precedence over the job's.
  set["SLURM_STEP_TASKS_PER_NODE"] = "4(x5)";
  EXPECT_EQ(local("3"), 4);
  set["SLURM_STEP_TASKS_PER_NODE"] = "many";
  EXPECT_THAT(std::string(From(set).status().message()),
              HasSubstr("SLURM_STEP_TASKS_PER_NODE is 'many'"));
}

TEST(JobAddressTest, AShellInASlurmAllocationIsNoJob) {
  const auto address = From({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}, {"SLURM_JOB_ID", "1"}});
  ASSERT_TRUE(address.ok()) << address.status();
  EXPECT_FALSE(address->has_value());
}

TEST(JobAddressTest, OpenMpi) {
  std::map<std::string, std::string> set = {{"OMPI_COMM_WORLD_RANK", "1"},
                                            {"OMPI_COMM_WORLD_SIZE", "4"},
                                            {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                                            {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}};
  const auto one_host = From(set);
  ASSERT_TRUE(one_host.ok()) << one_host.status();
  EXPECT_EQ((*one_host)->host, "127.0.0.1");
  EXPECT_EQ((*one_host)->port, kDefaultJobPort);
  set["OMPI_COMM_WORLD_LOCAL_SIZE"] = "2";
  EXPECT_THAT(std::string(From(set).status().message()),
              HasSubstr("MASTER_ADDR is not set, which processes on several hosts need"));
}

// No other host needs to reach them.
TEST(JobAddressTest, ProcessesOfOneHostMeetAtItsLoopbackAddress) {
  std::map<std::string, std::string> torchrun = {{"RANK", "1"},
                                                 {"WORLD_SIZE", "2"},
                                                 {"LOCAL_RANK", "1"},
                                                 {"MASTER_ADDR", "node0"},
                                                 {"MASTER_PORT", "29500"},
                                                 {"LOCAL_WORLD_SIZE", "2"}};
  std::map<std::string, std::string> slurm = {
      {"SLURM_PROCID", "1"},           {"SLURM_NTASKS", "2"},  {"SLURM_LOCALID", "1"},
      {"SLURM_TASKS_PER_NODE", "2"},   {"SLURM_STEP_ID", "0"}, {"SLURM_JOB_ID", "12345"},
      {"SLURM_JOB_NODELIST", "node03"}};
  EXPECT_EQ((*From(torchrun))->host, "127.0.0.1");
  EXPECT_EQ((*From(slurm))->host, "127.0.0.1");
  torchrun["WORLD_SIZE"] = slurm["SLURM_NTASKS"] = "4";
  slurm["SLURM_TASKS_PER_NODE"] = "2(x2)";
  EXPECT_EQ((*From(torchrun))->host, "node0");
  EXPECT_EQ((*From(slurm))->host, "node03");
}

TEST(JobAddressTest, FirstHostOfASlurmList) {
  EXPECT_EQ(*FirstSlurmHost("login"), "login");
  EXPECT_EQ(*FirstSlurmHost("a,b"), "a");
  EXPECT_EQ(*FirstSlurmHost("node[3-5,9],login"), "node3");
  EXPECT_EQ(*FirstSlurmHost("rack[1-2]node[03,08]x,y"), "rack1node03x");
  EXPECT_FALSE(FirstSlurmHost("").ok());
  EXPECT_FALSE(FirstSlurmHost("node[3").ok());
  EXPECT_FALSE(FirstSlurmHost("node[]").ok());
}

}  // namespace
}  // namespace dpipe
