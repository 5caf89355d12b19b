#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/backend/choose_devices.h"
#include "core/comm/rendezvous/testing/local_job.h"
#include "core/tensor/cuda/testing/fake_driver.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// A process: its host, its request and the GPUs that it sees.
struct Process {
  std::string host = "node1";
  DeviceRequest request;
  std::vector<std::string> gpus;  // PCI bus ids
};

struct Outcome {
  absl::Status status;
  std::vector<std::string> names;  // of the chosen devices
  std::string reason;
};

Process Asks(const std::string& backend, const std::vector<std::string>& gpus,
             const std::string& host = "node1") {
  Process process;
  process.host = host;
  process.request.backend = backend;
  process.gpus = gpus;
  return process;
}

Outcome ChooseAs(const JobMember& member, const Process& process) {
  const auto group = ProcessGroup::Join(member.address, member.options);
  if (!group.ok()) return {group.status(), {}, ""};
  cuda::FakeDriver driver;
  const cuda::Gpu model = driver.gpus()[0];
  driver.gpus().clear();
  for (const std::string& pci_bus_id : process.gpus) {
    driver.gpus().push_back(model);
    driver.gpus().back().index = static_cast<int>(driver.gpus().size()) - 1;
    driver.gpus().back().pci_bus_id = pci_bus_id;
  }
  const auto find = [&]() -> absl::StatusOr<cuda::Driver*> {
    DPIPE_RETURN_IF_ERROR(driver.Gpus().status());
    return &driver;
  };
  const auto chosen = internal::ChooseDevicesTogether(process.request, group->get(), find);
  Outcome outcome{chosen.status(), {}, chosen.ok() ? chosen->reason : ""};
  for (size_t i = 0; chosen.ok() && i < chosen->devices.size(); ++i) {
    outcome.names.push_back(chosen->devices[i]->name());
  }
  return outcome;
}

std::vector<Outcome> ChooseAll(const std::vector<Process>& processes) {
  std::vector<std::string> hosts;
  for (const Process& process : processes) hosts.push_back(process.host);
  std::vector<Outcome> outcomes(processes.size());
  RunAsThreads(LocalJob(hosts), [&](const JobMember& member) {
    const int i = member.address.process;
    outcomes[i] = ChooseAs(member, processes[i]);
  });
  return outcomes;
}

using Names = std::vector<std::string>;

TEST(ChooseTogetherTest, EachTakesTheNextOfItsHostsGpus) {
  const Names seen = {"0000:01:00.0", "0000:02:00.0"};
  const auto outcomes = ChooseAll({Asks("cuda", seen, "node1"), Asks("cuda", seen, "node2"),
                                   Asks("cuda", seen, "node1"), Asks("cuda", seen, "node2")});
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(outcomes[i].status.ok()) << outcomes[i].status;
    EXPECT_EQ(outcomes[i].names, Names({absl::StrCat("cuda:", i / 2)}));
  }
}

TEST(ChooseTogetherTest, AGpuHereAndNoneThereIsRefusedByAllIfOneInsists) {
  const auto outcomes =
      ChooseAll({Asks("cuda", {"0000:01:00.0"}, "node1"), Asks("cpu", {}, "node2")});
  for (const Outcome& outcome : outcomes) {
    const std::string message(outcome.status.message());
    EXPECT_THAT(message, HasSubstr("rank 0 (pid "));
    EXPECT_THAT(message, HasSubstr("on node1) has cuda:0 (Fake GPU), and rank 1 (pid "));
    EXPECT_THAT(message, HasSubstr("(--backend=cpu): all processes of a job train on GPUs, or "
                                   "all on CPUs"));
  }
}

// Their GPUs do not go together, but their CPUs do.
TEST(ChooseTogetherTest, AutoTakesTheCpuInAllProcesses) {
  const auto elsewhere =
      ChooseAll({Asks("auto", {"0000:01:00.0"}, "node1"), Asks("auto", {}, "node2")});
  const Process process = Asks("auto", {"0000:01:00.0"});
  const auto same_gpu = ChooseAll({process, process});
  for (const auto* outcomes : {&elsewhere, &same_gpu}) {
    for (const Outcome& outcome : *outcomes) {
      ASSERT_TRUE(outcome.status.ok()) << outcome.status;
      EXPECT_THAT(outcome.names[0], StartsWith("cpu"));
    }
  }
  EXPECT_THAT(elsewhere[1].reason, HasSubstr("no GPU can be used: rank 0 (pid "));
  EXPECT_THAT(elsewhere[1].reason, HasSubstr("all processes of a job train on GPUs, or all on"));
  EXPECT_THAT(same_gpu[0].reason, HasSubstr("both are GPU 0000:01:00.0 of node1"));
}

TEST(ChooseTogetherTest, WhoHasNoneWhereGpusWereAskedForIsNamedToAll) {
  const auto outcomes =
      ChooseAll({Asks("cuda", {"0000:01:00.0"}, "node1"), Asks("cuda", {}, "node2")});
  EXPECT_THAT(std::string(outcomes[1].status.message()), StartsWith("rank 1 (pid "));
  for (const Outcome& outcome : outcomes) {
    EXPECT_THAT(std::string(outcome.status.message()),
                HasSubstr("on node2): no GPU: the fake driver has none"));
  }
}

// A scheduler may assign one GPU to each process; here both got the same one.
TEST(ChooseTogetherTest, OneGpuOfTwoProcessesIsRefused) {
  const Process process = Asks("cuda", {"0000:01:00.0"});
  for (const Outcome& outcome : ChooseAll({process, process})) {
    EXPECT_THAT(std::string(outcome.status.message()),
                HasSubstr("has cuda:0 (Fake GPU): both are GPU 0000:01:00.0 of node1, whose "
                          "processes need a GPU each"));
  }
  for (const Outcome& outcome : ChooseAll({process, Asks("cuda", {"0000:02:00.0"})})) {
    EXPECT_TRUE(outcome.status.ok()) << outcome.status;
  }
}

// Each process requests only one GPU of its host, yet they talk over NCCL.
TEST(ChooseTogetherTest, KernelsAreLoadedAtOnce) {
  unsetenv("CUDA_MODULE_LOADING");
  for (const Outcome& outcome : ChooseAll(
           {Asks("cuda", {"0000:01:00.0"}, "node1"), Asks("cuda", {"0000:01:00.0"}, "node2")})) {
    EXPECT_TRUE(outcome.status.ok()) << outcome.status;
  }
  EXPECT_STREQ(std::getenv("CUDA_MODULE_LOADING"), "EAGER");
}

TEST(ChooseTogetherTest, SeveralProcessesDoNotTimeEngines) {
  Process timing = Asks("cuda", {"0000:01:00.0"});
  timing.request.engines = "engines.json";
  timing.request.time_engines = true;
  Process other = Asks("cuda", {"0000:02:00.0"}, "node2");
  other.request = timing.request;
  for (const Outcome& outcome : ChooseAll({timing, other})) {
    EXPECT_THAT(std::string(outcome.status.message()),
                HasSubstr("engines are to be timed by 2 processes"));
  }
}

TEST(ChooseTogetherTest, UnlikeNumbersOfDevicesAndSharesOfAGpuAreRefused) {
  Process two = Asks("cuda", {"0000:01:00.0", "0000:02:00.0"}, "node2");
  two.request.count = 2;
  Process shares = Asks("cuda", {"0000:01:00.0"}, "node2");
  shares.request.virtual_devices = 2;
  for (const Outcome& outcome : ChooseAll({Asks("cuda", {"0000:01:00.0"}), two})) {
    EXPECT_THAT(std::string(outcome.status.message()),
                HasSubstr("has cuda:0 (Fake GPU), cuda:1 (Fake GPU): all processes of a job have "
                          "as many devices"));
  }
  Process others = shares;
  others.host = "node1";
  for (const Outcome& outcome : ChooseAll({others, shares})) {
    EXPECT_THAT(std::string(outcome.status.message()),
                HasSubstr("cuda:0/1 of 2 (Fake GPU): only a process that trains alone can have "
                          "shares of a GPU"));
  }
}

}  // namespace
}  // namespace dpipe
