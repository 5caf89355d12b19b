#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/bytes.h"
#include "core/base/time.h"
#include "core/comm/in_process.h"
#include "core/train/job.h"

namespace dpipe {
namespace {

constexpr int kRepeats = 15;
constexpr int64_t kLargeBytes = 8 * kMiB;  // about the gradients of a small U-Net

Nanos Median(std::vector<Nanos> samples) {
  const auto middle = samples.begin() + samples.size() / 2;
  std::nth_element(samples.begin(), middle, samples.end());
  return *middle;
}

class LinkProbe {
 public:
  explicit LinkProbe(const std::vector<DeviceWorker*>& workers)
      : workers_(workers),
        communicators_(CreateInProcessCommunicators(static_cast<int>(workers.size()))) {}

  // Half of a round trip between ranks 0 and 1.
  absl::StatusOr<Nanos> Message() {
    std::vector<Nanos> samples;
    DPIPE_RETURN_IF_ERROR(FirstError(RunOnAll(workers_, [&](int rank) -> absl::Status {
      if (rank > 1) return absl::OkStatus();
      Communicator& comm = *communicators_[rank];
      const Rank peer(1 - rank);
      const Tensor ball = Tensor::Zeros(workers_[rank]->device(), {1}, DType::kF32);
      for (int i = 0; i < kRepeats; ++i) {
        const Nanos start = MonotonicNow();
        if (rank == 0) DPIPE_RETURN_IF_ERROR(comm.Send(peer, 0, {ball}, "probe"));
        DPIPE_ASSIGN_OR_RETURN(auto recv, comm.PostRecv(peer, 0, {{{1}, DType::kF32}}, "probe"));
        DPIPE_RETURN_IF_ERROR(recv->Wait().status());
        if (rank == 1) DPIPE_RETURN_IF_ERROR(comm.Send(peer, 0, {ball}, "probe"));
        if (rank == 0) samples.push_back((MonotonicNow() - start) / 2);
      }
      return absl::OkStatus();
    })));
    return Median(samples);
  }

  absl::StatusOr<Nanos> AllReduce(int64_t size_bytes) {
    std::vector<Nanos> samples;
    std::vector<Rank> group;
    for (size_t i = 0; i < workers_.size(); ++i) group.push_back(Rank(static_cast<int>(i)));
    DPIPE_RETURN_IF_ERROR(FirstError(RunOnAll(workers_, [&](int rank) -> absl::Status {
      std::vector<Tensor> tensors = {
          Tensor::Zeros(workers_[rank]->device(), {size_bytes / 4}, DType::kF32)};
      for (int i = 0; i < kRepeats; ++i) {
        const Nanos start = MonotonicNow();
        DPIPE_RETURN_IF_ERROR(
            communicators_[rank]->AllReduceSum(group, absl::MakeSpan(tensors), "probe"));
        if (rank == 0) samples.push_back(MonotonicNow() - start);
      }
      return absl::OkStatus();
    })));
    return Median(samples);
  }

 private:
  const std::vector<DeviceWorker*>& workers_;
  std::vector<std::unique_ptr<Communicator>> communicators_;
};

}  // namespace

absl::StatusOr<ClusterSpec> MeasureCluster(const std::vector<DeviceWorker*>& workers) {
  ClusterSpec cluster;
  const int n = static_cast<int>(workers.size());
  cluster.set_name(absl::StrCat("this machine: ", n, " CPU device(s) of one process"));
  cluster.set_num_nodes(1);
  cluster.set_devices_per_node(n);
  cluster.set_collectives_use_compute(true);
  Nanos latency_ns = kNanosPerMicro;
  double bandwidth = 1e10;
  if (n > 1) {
    LinkProbe probe(workers);
    DPIPE_ASSIGN_OR_RETURN(latency_ns, probe.Message());
    DPIPE_ASSIGN_OR_RETURN(const Nanos reduce_ns, probe.AllReduce(kLargeBytes));
    // Solved for the bandwidth: a ring moves 2 (n-1)/n of the bytes over each link, in 2 (n-1)
    // hops.
    const double moved = 2.0 * (n - 1) / n * kLargeBytes;
    const double transfer_ns = std::max<double>(1, reduce_ns - 2.0 * (n - 1) * latency_ns);
    bandwidth = moved / transfer_ns * kNanosPerSecond;
  }
  for (Link* link : {cluster.mutable_intra_node(), cluster.mutable_inter_node()}) {
    link->set_latency_ns(latency_ns);
    link->set_bandwidth_bytes_per_s(bandwidth);
  }
  return cluster;
}

}  // namespace dpipe
