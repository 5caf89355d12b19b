// GPUs of several processes as a cluster: fake GPUs, over a fake NCCL.
#include <memory>
#include <string>
#include <vector>

#include "core/comm/nccl/connect_nccl.h"
#include "core/comm/nccl/testing/fake_nccl.h"
#include "core/comm/rendezvous/process_group.h"
#include "core/comm/rendezvous/testing/local_job.h"
#include "core/tensor/cuda/cuda_device.h"
#include "core/tensor/cuda/testing/fake_driver.h"
#include "core/tensor/device_worker.h"
#include "core/train/job.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int kProcesses = 2, kGpusEach = 2;

class MeasureGpuClusterTest : public ::testing::Test {
 protected:
  MeasureGpuClusterTest() : nccl_(&driver_) {
    driver_.gpus()[0].memory_bytes = int64_t{80} << 30;
    driver_.SetNumGpus(kProcesses * kGpusEach);
  }

  absl::StatusOr<ClusterSpec> Measure(ProcessGroup* processes) {
    DPIPE_ASSIGN_OR_RETURN(
        const auto devices,
        cuda::CreateCudaDevices(&driver_, kGpusEach, kGpusEach * processes->process()));
    const auto owned = StartWorkers(devices);
    TrainingJob job;
    for (const auto& worker : owned) job.workers.push_back(worker.get());
    job.processes = processes;
    job.connect_in_job = [this](StoreClient* store, const JobRank& rank) {
      return ConnectNccl(nccl_.api(), store, rank);
    };
    return MeasureCluster(job);
  }

  cuda::FakeDriver driver_;
  FakeNccl nccl_;
};

TEST_F(MeasureGpuClusterTest, AllProcessesGetTheSameCluster) {
  std::vector<ClusterSpec> clusters(kProcesses);
  RunAsThreads(LocalJob(kProcesses, kGpusEach), [&](const JobMember& member) {
    const auto processes = ProcessGroup::Join(member.address, member.options);
    ASSERT_TRUE(processes.ok()) << processes.status();
    const auto cluster = Measure(processes->get());
    ASSERT_TRUE(cluster.ok()) << cluster.status();
    clusters[member.address.process] = *cluster;
  });
  EXPECT_EQ(clusters[0].name(), "4 GPUs of 2 processes");
  EXPECT_EQ(clusters[0].devices_per_node(), 4);
  EXPECT_FALSE(clusters[0].collectives_use_compute());
  EXPECT_EQ(clusters[0].memory_bytes_per_device(), int64_t{70} << 30) << "7/8 of a GPU's";
  EXPECT_GT(clusters[0].intra_node().latency_ns(), 0);
  EXPECT_GT(clusters[0].intra_node().bandwidth_bytes_per_s(), 0);
  EXPECT_EQ(clusters[1].SerializeAsString(), clusters[0].SerializeAsString());
  EXPECT_EQ(nccl_.num_live_communicators(), 0);
  EXPECT_THAT(driver_.violations(), IsEmpty());
  EXPECT_THAT(nccl_.violations(), IsEmpty());
}

// The host cannot reach their memory, so it cannot sum for them.
TEST_F(MeasureGpuClusterTest, GpusThatNothingConnectsAreRefused) {
  const auto owned = StartWorkers(*cuda::CreateCudaDevices(&driver_, 2));
  TrainingJob job;
  job.workers = {owned[0].get(), owned[1].get()};
  EXPECT_THAT(std::string(MeasureCluster(job).status().message()),
              HasSubstr("no communicator is known for devices like cuda:0"));
}

}  // namespace
}  // namespace dpipe
