#include "bench/transports/communication_ranks.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "bench/transports/lossy_communicator.h"
#include "core/base/host/usable_cpus.h"
#include "core/comm/nccl/connect_nccl.h"
#include "core/comm/nccl/testing/fake_nccl.h"
#include "core/tensor/cuda/testing/fake_driver.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe::bench {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

// NCCL between fake GPUs.
class FakeGpus {
 public:
  explicit FakeGpus(int count) : nccl_(&driver_) { driver_.SetNumGpus(count); }

  absl::StatusOr<std::vector<std::shared_ptr<Device>>> ForNccl() {
    return GpusForNccl([this]() -> absl::StatusOr<cuda::Driver*> { return &driver_; });
  }
  absl::StatusOr<CommunicationTimes> Measure(bool lossy = false) {
    DPIPE_ASSIGN_OR_RETURN(const auto devices, ForNccl());
    DPIPE_ASSIGN_OR_RETURN(auto communicators,
                           CreateLocalNcclCommunicators(nccl_.api(), devices, absl::Seconds(60)));
    if (lossy) {
      for (auto& communicator : communicators) communicator = MakeLossy(std::move(communicator));
    }
    CommunicationOptions options;
    options.sizes_bytes = {1024, 4 * 1022};  // includes shards of different sizes
    options.probe.min_repeats = options.probe.max_repeats = 2;
    return MeasureThreads("nccl", devices, communicators, options);
  }
  std::vector<std::string> violations() const {
    std::vector<std::string> all = driver_.violations();
    for (const std::string& one : nccl_.violations()) all.push_back(one);
    return all;
  }

 private:
  cuda::FakeDriver driver_;
  FakeNccl nccl_;
};

// Streams run in any order; the measurement checks its results.
TEST(CommunicationRanksTest, AllTrafficIsMeasuredOverNccl) {
  for (int num_gpus : {2, 3}) {
    FakeGpus gpus(num_gpus);
    const auto measured = gpus.Measure();
    ASSERT_TRUE(measured.ok()) << measured.status();
    EXPECT_EQ(measured->transport, "nccl");
    EXPECT_EQ(measured->num_ranks, num_gpus);
    ASSERT_EQ(measured->times.size(), 2 * AllTraffic().size());
    for (size_t i = 0; i < measured->times.size(); ++i) {
      EXPECT_EQ(measured->times[i].traffic, AllTraffic()[i / 2]);
      EXPECT_EQ(measured->times[i].size_bytes, i % 2 == 0 ? 1024 : 4 * 1022);
      EXPECT_EQ(measured->times[i].num_ranks, num_gpus);
      EXPECT_EQ(measured->times[i].repeats, 2);
      EXPECT_GT(measured->times[i].median_ns, 0);
    }
    EXPECT_THAT(gpus.violations(), IsEmpty());
  }
}

TEST(CommunicationRanksTest, AWrongNumberFromAGpuEndsAllRanks) {
  FakeGpus gpus(2);
  const absl::Status status = gpus.Measure(/*lossy=*/true).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("send/receive of 256 numbers: element 255"));
}

TEST(CommunicationRanksTest, NcclIsSkippedWithoutTwoGpus) {
  FakeGpus one(1);
  EXPECT_EQ(one.ForNccl().status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(one.ForNccl().status().message()),
              HasSubstr("it refuses two ranks on one GPU, and there is"));
  const auto none = GpusForNccl([]() -> absl::StatusOr<cuda::Driver*> {
    return absl::FailedPreconditionError("no GPU: the driver shows none");
  });
  EXPECT_EQ(none.status(), absl::FailedPreconditionError("no GPU: the driver shows none"));
}

TEST(CommunicationRanksTest, RanksHaveCoresOfTheirOwnOrShareThem) {
  const int num_cores = FindUsableCpus().count;
  for (int num_ranks : {1, num_cores, num_cores + 1}) {
    const auto devices = CoresForRanks(num_ranks);
    ASSERT_TRUE(devices.ok()) << devices.status();
    EXPECT_EQ(devices->size(), num_ranks);
  }
}

}  // namespace
}  // namespace dpipe::bench
