#include "core/backend/choose_devices.h"

#include <cstdlib>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/files/scratch_folder.h"
#include "core/base/host/usable_cpus.h"
#include "core/ops/cuda/engine_choices.h"
#include "core/tensor/cuda/testing/fake_driver.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

absl::StatusOr<cuda::Driver*> NoGpu() {
  return absl::FailedPreconditionError("no GPU: the driver shows none");
}

DeviceRequest Request(const std::string& backend, int count = 0, int virtual_devices = 0) {
  DeviceRequest request;
  request.backend = backend;
  request.count = count;
  request.virtual_devices = virtual_devices;
  return request;
}

class ChooseDevicesTest : public ::testing::Test {
 protected:
  absl::StatusOr<ChosenDevices> Choose(const DeviceRequest& request) {
    return internal::ChooseDevices(request,
                                   [this]() -> absl::StatusOr<cuda::Driver*> { return &driver_; });
  }
  std::string Refusal(const DeviceRequest& request) {
    return std::string(Choose(request).status().message());
  }
  // Adds copies of the first GPU.
  void AddGpus(int count) {
    for (int i = 1; i <= count; ++i) {
      driver_.gpus().push_back(driver_.gpus()[0]);
      driver_.gpus().back().index = i;
    }
  }
  cuda::FakeDriver driver_;
};

TEST_F(ChooseDevicesTest, AutoTakesTheGpuWhereThereIsOne) {
  const auto chosen = Choose(Request("auto"));
  ASSERT_TRUE(chosen.ok()) << chosen.status();
  ASSERT_EQ(chosen->devices.size(), 1);
  EXPECT_EQ(chosen->devices[0]->kind(), DeviceKind::kCuda);
  EXPECT_EQ(chosen->note, "");
  EXPECT_EQ(DescribeDevices(*chosen), "1 GPU, cuda:0, Fake GPU (--backend=auto found a GPU)");
  AddGpus(1);
  EXPECT_EQ(DescribeDevices(*Choose(Request("cuda"))),
            "2 GPUs, the first cuda:0, Fake GPU (--backend=cuda)");
}

TEST_F(ChooseDevicesTest, AutoTakesTheCpuElsewhereAndSaysWhy) {
  const auto chosen = internal::ChooseDevices(Request("auto", 1), NoGpu);
  ASSERT_TRUE(chosen.ok()) << chosen.status();
  EXPECT_EQ(chosen->devices[0]->kind(), DeviceKind::kCpu);
  EXPECT_EQ(chosen->reason, "no GPU can be used: the driver shows none");
  const int cores = FindUsableCpus().count;
  EXPECT_THAT(DescribeDevices(*chosen),
              StartsWith(absl::StrCat("1 CPU device of ", cores, cores == 1 ? " core" : " cores",
                                      " (no GPU can be used: the driver shows none)")));
}

// Where auto would fail, so would cpu, whatever the machine's GPUs are like.
TEST_F(ChooseDevicesTest, AutoTakesTheCpuIfThereAreTooFewGpus) {
  const int cores = FindUsableCpus().count;
  if (cores < 2) GTEST_SKIP() << "one core is only one CPU device";
  const auto chosen = Choose(Request("auto", 2));
  ASSERT_TRUE(chosen.ok()) << chosen.status();
  EXPECT_EQ(chosen->devices.size(), 2);
  EXPECT_EQ(chosen->devices[1]->kind(), DeviceKind::kCpu);
  EXPECT_THAT(chosen->reason, HasSubstr("no GPU can be used: requested 2 GPUs, but there is 1: "));
  EXPECT_THAT(chosen->reason, HasSubstr("; --devices=1 would use what there is, and "
                                        "--virtual_devices=2 as many shares of one GPU"));
  const std::string neither = Refusal(Request("auto", cores + 1));
  EXPECT_THAT(neither, HasSubstr(absl::StrCat("requested ", cores + 1, " CPU devices")));
  EXPECT_THAT(neither, HasSubstr(absl::StrCat("requested ", cores + 1, " GPUs")));
  AddGpus(2);
  DeviceRequest of_four = Request("auto", 2);
  of_four.num_local = 2;
  const auto shared = Choose(of_four);
  ASSERT_TRUE(shared.ok()) << shared.status();
  EXPECT_EQ(shared->devices[0]->kind(), DeviceKind::kCpu);
  EXPECT_THAT(shared->reason, HasSubstr("2 processes of this host with 2 GPU(s) each need 4"));
}

TEST_F(ChooseDevicesTest, AutoTakesTheCpuIfTheGpuCannotBeUsed) {
  driver_.FailNext("CreateStream");
  const auto chosen = Choose(Request("auto", 1));
  ASSERT_TRUE(chosen.ok()) << chosen.status();
  EXPECT_EQ(chosen->devices[0]->kind(), DeviceKind::kCpu);
  EXPECT_THAT(chosen->reason, StartsWith("no GPU can be used: "));
  EXPECT_THAT(chosen->reason, HasSubstr("CreateStream"));
}

TEST_F(ChooseDevicesTest, CudaWithoutAGpuIsRefused) {
  EXPECT_EQ(internal::ChooseDevices(Request("cuda"), NoGpu).status().message(),
            "no GPU: the driver shows none");
}

// Returns CUDA_MODULE_LOADING at the first call of the driver.
std::string LoadingSeenByDriver(const DeviceRequest& request) {
  unsetenv("CUDA_MODULE_LOADING");
  std::string seen = "the driver was not asked";
  cuda::FakeDriver driver;
  EXPECT_TRUE(internal::ChooseDevices(request, [&]() -> absl::StatusOr<cuda::Driver*> {
                const char* const value = std::getenv("CUDA_MODULE_LOADING");
                seen = value != nullptr ? value : "";
                return &driver;
              }).ok());
  return seen;
}

TEST_F(ChooseDevicesTest, KernelsAreLoadedAtOnceWhereRanksMayTalkOverNccl) {
  EXPECT_EQ(LoadingSeenByDriver(Request("cuda")), "EAGER");
  EXPECT_EQ(LoadingSeenByDriver(Request("auto")), "EAGER");
  EXPECT_EQ(LoadingSeenByDriver(Request("cuda", 1)), "");
  EXPECT_EQ(LoadingSeenByDriver(Request("cuda", 0, 2)), "");
  DeviceRequest of_two = Request("cuda", 1);
  of_two.num_local = 2;
  EXPECT_EQ(LoadingSeenByDriver(of_two), "EAGER");
}

TEST_F(ChooseDevicesTest, Tf32ForFp32IsRefusedOnGpusAlone) {
  setenv("NVIDIA_TF32_OVERRIDE", "1", 1);
  EXPECT_THAT(Refusal(Request("cuda")), HasSubstr("NVIDIA_TF32_OVERRIDE=1"));
  const auto chosen = Choose(Request("auto", 1));
  ASSERT_TRUE(chosen.ok()) << chosen.status();
  EXPECT_EQ(chosen->devices[0]->kind(), DeviceKind::kCpu);
  EXPECT_THAT(chosen->reason, HasSubstr("NVIDIA_TF32_OVERRIDE=1"));
  EXPECT_TRUE(Choose(Request("cpu", 1)).ok());
  EXPECT_TRUE(internal::ChooseDevices(Request("auto", 1), NoGpu).ok());
  unsetenv("NVIDIA_TF32_OVERRIDE");
}

TEST_F(ChooseDevicesTest, CpuNeverLooksForAGpu) {
  const auto chosen =
      internal::ChooseDevices(Request("cpu"), []() -> absl::StatusOr<cuda::Driver*> {
        ADD_FAILURE();
        return NoGpu();
      });
  ASSERT_TRUE(chosen.ok()) << chosen.status();
  EXPECT_EQ(chosen->devices.size(), FindUsableCpus().count);
}

TEST_F(ChooseDevicesTest, VirtualDevicesDivideOneGpu) {
  const auto chosen = Choose(Request("cuda", 0, 4));
  ASSERT_TRUE(chosen.ok()) << chosen.status();
  ASSERT_EQ(chosen->devices.size(), 4);
  EXPECT_EQ(chosen->devices[3]->name(), "cuda:0/3 of 4");
  EXPECT_EQ(Choose(Request("auto", 0, 4))->devices[3]->name(), "cuda:0/3 of 4");
  EXPECT_EQ(internal::ChooseDevices(Request("auto", 0, 4), NoGpu).status().message(),
            "no GPU: the driver shows none");
}

// Each process has its own cores; together they have all cores that they may use.
TEST_F(ChooseDevicesTest, ProcessesShareTheCores) {
  const int cores = FindUsableCpus().count;
  DeviceRequest request = Request("cpu");
  request.num_local = cores;
  std::set<std::string> names;
  for (request.local_process = 0; request.local_process < cores; ++request.local_process) {
    const auto chosen = Choose(request);
    ASSERT_TRUE(chosen.ok()) << chosen.status();
    ASSERT_EQ(chosen->devices.size(), 1);
    EXPECT_EQ(chosen->note, FindUsableCpus().Note());
    names.insert(chosen->devices[0]->name());
  }
  EXPECT_EQ(names.size(), cores);
}

TEST_F(ChooseDevicesTest, MoreProcessesThanCoresAreToldSo) {
  const int cores = FindUsableCpus().count;
  DeviceRequest request = Request("cpu", 2);
  request.num_local = cores;
  const auto first = Choose(request);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->devices.size(), 2);
  EXPECT_EQ(first->devices[0]->num_threads(), 1);
  EXPECT_THAT(first->note, HasSubstr(absl::StrCat(2 * cores, " devices of ", cores,
                                                  " processes share ", cores, " cores")));
}

// torchrun's convention: process i of a host has the i-th of its GPUs.
TEST_F(ChooseDevicesTest, ProcessesShareTheGpus) {
  AddGpus(3);
  for (int count : {0, 1, 2}) {
    DeviceRequest request = Request("cuda", count);
    request.num_local = 2;
    std::vector<std::string> names;
    for (request.local_process = 0; request.local_process < 2; ++request.local_process) {
      const auto chosen = Choose(request);
      ASSERT_TRUE(chosen.ok()) << chosen.status();
      for (const auto& device : chosen->devices) names.push_back(device->name());
    }
    EXPECT_EQ(names, count == 2 ? std::vector<std::string>({"cuda:0", "cuda:1", "cuda:2", "cuda:3"})
                                : std::vector<std::string>({"cuda:0", "cuda:1"}));
  }
}

// As if CUDA_VISIBLE_DEVICES of each process named only its own GPUs.
TEST_F(ChooseDevicesTest, GpusThatASchedulerHasDealtOutAreAllTaken) {
  AddGpus(1);
  DeviceRequest request = Request("auto", 2);
  request.local_process = 3;
  request.num_local = 4;
  const auto chosen = Choose(request);
  ASSERT_TRUE(chosen.ok()) << chosen.status();
  ASSERT_EQ(chosen->devices.size(), 2);
  EXPECT_EQ(chosen->devices[0]->name(), "cuda:0");
}

TEST_F(ChooseDevicesTest, MoreProcessesThanGpusAreRefused) {
  AddGpus(2);
  DeviceRequest request = Request("cuda", 2);
  request.num_local = 2;
  EXPECT_THAT(Refusal(request),
              HasSubstr("2 processes of this host with 2 GPU(s) each need 4, but there are 3: "
                        "GPU 0 (Fake GPU"));
  request.count = 0;
  request.num_local = 4;
  EXPECT_THAT(Refusal(request), HasSubstr("4 processes of this host with 1 GPU(s) each need 4, "
                                          "but there are 3: GPU 0 (Fake GPU"));
  request.virtual_devices = 4;
  EXPECT_THAT(Refusal(request), HasSubstr("4 virtual devices of each of 4 processes: a GPU's "
                                          "shares belong to one process"));
}

TEST_F(ChooseDevicesTest, AnOldGpuIsNamedAndAutoTakesTheCpu) {
  AddGpus(1);
  driver_.gpus()[1].name = "Tesla T4";
  driver_.gpus()[1].capability_major = 7;
  driver_.gpus()[1].capability_minor = 5;
  EXPECT_THAT(Refusal(Request("cuda", 1)),
              HasSubstr("GPU 1 (Tesla T4) has compute capability 7.5, and 8.0 or newer is needed"));
  const auto chosen = Choose(Request("auto", 1));
  ASSERT_TRUE(chosen.ok()) << chosen.status();
  EXPECT_EQ(chosen->devices[0]->kind(), DeviceKind::kCpu);
  EXPECT_THAT(chosen->reason, HasSubstr("7.5"));
}

TEST_F(ChooseDevicesTest, EnginesComeFromAFile) {
  const ScratchFolder folder;
  DeviceRequest request = Request("cuda", 1);
  request.engines = folder.File("engines.json");
  EXPECT_THAT(Refusal(request), HasSubstr("the file of engine choices: "));
  EXPECT_FALSE(ops::cuda::EngineChoices::OfProcess().in_use());
  request.backend = "cpu";
  EXPECT_TRUE(Choose(request).ok()) << "a CPU has none";

  request.backend = "cuda";
  request.time_engines = true;
  EXPECT_TRUE(Choose(request).ok());
  EXPECT_TRUE(ops::cuda::EngineChoices::OfProcess().in_use());
  EXPECT_TRUE(ops::cuda::EngineChoices::OfProcess().deterministic());
  request.deterministic = false;
  EXPECT_TRUE(Choose(request).ok());
  EXPECT_FALSE(ops::cuda::EngineChoices::OfProcess().deterministic());
}

TEST_F(ChooseDevicesTest, RequestsThatMakeNoSenseAreRefused) {
  EXPECT_EQ(Refusal(Request("tpu")), "unknown --backend=tpu; expected auto, cpu or cuda");
  EXPECT_THAT(Refusal(Request("cpu", 0, 4)), HasSubstr("need --backend=cuda, not cpu"));
  EXPECT_EQ(Refusal(Request("cuda", 2, 4)),
            "requested 2 devices and 4 virtual ones; they must be equal");
  DeviceRequest stranger = Request("cpu", 1);
  for (const auto& [number, count] :
       std::vector<std::pair<int, int>>{{2, 2}, {-1, 2}, {1, 1}, {0, 0}}) {
    stranger.local_process = number;
    stranger.num_local = count;
    EXPECT_EQ(Refusal(stranger), absl::StrCat("there is no process ", number, " among the ", count,
                                              " of this host, which count from 0"));
  }
  DeviceRequest timing = Request("cuda", 1);
  timing.time_engines = true;
  EXPECT_THAT(Refusal(timing), HasSubstr("timed, but there is no file for what is chosen"));
  AddGpus(1);
  timing.engines = "engines.json";
  timing.count = 2;
  EXPECT_THAT(Refusal(timing), HasSubstr("timed on 2 GPUs, which wait for each other"));
  driver_.gpus().pop_back();
  EXPECT_THAT(Refusal(Request("cuda", -1)), HasSubstr("must not be negative"));
  EXPECT_THAT(Refusal(Request("cuda", 3)), HasSubstr("requested 3 GPUs, but there is 1: GPU 0"));
}

}  // namespace
}  // namespace dpipe
