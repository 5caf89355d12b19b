#include <string>
#include <vector>

#include "core/comm/rendezvous/process_group.h"
#include "core/comm/rendezvous/testing/local_job.h"
#include "core/tensor/device_worker.h"
#include "core/train/job.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

absl::StatusOr<ClusterSpec> Measure(int num_workers, ProcessGroup* processes) {
  const std::vector<std::shared_ptr<Device>> devices(num_workers, Device::Cpu());
  const auto owned = StartWorkers(devices);
  TrainingJob job;
  for (const auto& worker : owned) job.workers.push_back(worker.get());
  job.processes = processes;
  return MeasureCluster(job);
}

// 3 of 4 ranks' shares go over each link twice: 100 MB at 150 GB/s are 1 ms.
TEST(RingBandwidthTest, ExcludesFixedTime) {
  constexpr int64_t kMb = 1000000;
  EXPECT_NEAR(internal::RingBandwidth(4, {10 * kMb, 50000 + 100000}, {100 * kMb, 50000 + 1000000}),
              150e9, 1e6);
}

TEST(RingBandwidthTest, IsAlwaysFinite) {
  EXPECT_NEAR(internal::RingBandwidth(2, {10, 900}, {100, 800}), 100 / 800e-9, 1);
  EXPECT_NEAR(internal::RingBandwidth(2, {10, 0}, {100, 0}), 100 / 1e-9, 1);
}

void ExpectMeasured(const ClusterSpec& cluster, int num_devices) {
  EXPECT_EQ(cluster.num_nodes(), 1);
  EXPECT_EQ(cluster.devices_per_node(), num_devices);
  EXPECT_EQ(cluster.memory_bytes_per_device(), 0) << "host memory is not reported";
  EXPECT_GT(cluster.intra_node().latency_ns(), 0);
  EXPECT_GT(cluster.intra_node().bandwidth_bytes_per_s(), 1e6);
}

TEST(MeasureClusterTest, DevicesOfOneProcess) {
  const auto cluster = Measure(2, nullptr);
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  ExpectMeasured(*cluster, 2);
}

TEST(MeasureClusterTest, AllProcessesGetTheSameCluster) {
  constexpr int kProcesses = 2, kWorkers = 2;
  std::vector<ClusterSpec> clusters(kProcesses);
  RunAsThreads(LocalJob(kProcesses, kWorkers), [&](const JobMember& member) {
    const auto processes = ProcessGroup::Join(member.address, member.options);
    ASSERT_TRUE(processes.ok()) << processes.status();
    const auto cluster = Measure(kWorkers, processes->get());
    ASSERT_TRUE(cluster.ok()) << cluster.status();
    clusters[member.address.process] = *cluster;
  });
  for (const ClusterSpec& cluster : clusters) {
    ExpectMeasured(cluster, kProcesses * kWorkers);
    EXPECT_EQ(cluster.SerializeAsString(), clusters[0].SerializeAsString());
  }
}

// Measures with two ranks per process and returns what all processes got.
ClusterSpec MeasureOnHosts(const std::vector<std::string>& hosts) {
  constexpr int kWorkers = 2;
  std::vector<JobMember> job = LocalJob(hosts);
  for (JobMember& member : job) member.options.ranks_per_process = kWorkers;
  std::vector<ClusterSpec> clusters(hosts.size());
  RunAsThreads(job, [&](const JobMember& member) {
    const auto processes = ProcessGroup::Join(member.address, member.options);
    ASSERT_TRUE(processes.ok()) << processes.status();
    const auto cluster = Measure(kWorkers, processes->get());
    ASSERT_TRUE(cluster.ok()) << cluster.status();
    clusters[member.address.process] = *cluster;
  });
  for (const ClusterSpec& cluster : clusters) {
    EXPECT_EQ(cluster.SerializeAsString(), clusters[0].SerializeAsString());
  }
  return clusters[0];
}

TEST(MeasureClusterTest, HostsAreNodesWithTwoKindsOfLink) {
  const ClusterSpec cluster = MeasureOnHosts({"a", "a", "b", "b"});
  EXPECT_EQ(cluster.num_nodes(), 2);
  EXPECT_EQ(cluster.devices_per_node(), 4);
  EXPECT_EQ(cluster.name(), "8 CPU devices of 4 processes on 2 hosts");
  EXPECT_GT(cluster.inter_node().bandwidth_bytes_per_s(), 1e6);
  EXPECT_GT(cluster.inter_node().latency_ns(), 0);
  // Measured separately.
  EXPECT_NE(cluster.inter_node().bandwidth_bytes_per_s(),
            cluster.intra_node().bandwidth_bytes_per_s());
}

TEST(MeasureClusterTest, HostsOfOneProcessEach) {
  const ClusterSpec cluster = MeasureOnHosts({"a", "b", "c"});
  EXPECT_EQ(cluster.num_nodes(), 3);
  EXPECT_EQ(cluster.devices_per_node(), 2);
}

// A ClusterSpec's nodes are equal and have consecutive ranks.
TEST(MeasureClusterTest, UnequalOrMixedHostsAreOneNode) {
  for (const std::vector<std::string>& hosts : {std::vector<std::string>{"a", "a", "b"},
                                                {"a", "b", "a"},
                                                {"a", "b", "b"},
                                                {"a", "b", "a", "b"}}) {
    const ClusterSpec cluster = MeasureOnHosts(hosts);
    EXPECT_EQ(cluster.num_nodes(), 1);
    EXPECT_EQ(cluster.devices_per_node(), 2 * static_cast<int>(hosts.size()));
  }
}

}  // namespace
}  // namespace dpipe
