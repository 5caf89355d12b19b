#include <algorithm>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "core/base/bytes.h"
#include "core/base/count.h"
#include "core/base/median.h"
#include "core/base/time.h"
#include "core/comm/gloo/gloo.h"
#include "core/comm/in_process.h"
#include "core/tensor/cuda/cuda_device.h"
#include "core/train/job.h"

namespace dpipe {
namespace {

constexpr int kRepeats = 15;
constexpr int64_t kLargeBytes = 8 * kMiB;  // about the gradients of a small U-Net
// Between GPUs, 8 MiB take no longer than the host's part: enqueuing and waiting.
constexpr int64_t kMaxGpuBytes = 128 * kMiB;
constexpr int kTimesSmaller = 8;
constexpr int kGpuRoundTrips = 16;  // enqueued before the host waits
constexpr int kGpuReduces = 5;

std::vector<std::shared_ptr<Device>> DevicesOf(const TrainingJob& job) {
  std::vector<std::shared_ptr<Device>> devices;
  for (DeviceWorker* worker : job.workers) devices.push_back(worker->device());
  return devices;
}

using Communicators = std::vector<std::unique_ptr<Communicator>>;

// Connects one communicator per worker of this process.
absl::StatusOr<Communicators> Connect(const TrainingJob& job) {
  const std::vector<std::shared_ptr<Device>> devices = DevicesOf(job);
  if (job.processes == nullptr) {
    if (job.connect) return job.connect(devices, job.deadline);
    if (devices[0]->has_host_memory()) {
      InProcessOptions options;
      options.deadline = job.deadline;
      return CreateInProcessCommunicators(static_cast<int>(devices.size()), options);
    }
    return absl::FailedPreconditionError(absl::StrCat("no communicator is known for devices like ",
                                                      devices[0]->name(),
                                                      "; set TrainingJob::connect"));
  }
  Communicators communicators(devices.size());
  const std::vector<Rank> ranks = job.processes->local_ranks();
  const std::string name = absl::StrCat("probe ", job.processes->NextNumber());
  const ConnectJobRankFn connect =
      job.connect_in_job ? job.connect_in_job : ConnectJobRankFn(ConnectGloo);
  DPIPE_RETURN_IF_ERROR(FirstError(RunOnAll(job.workers, [&](int local) -> absl::Status {
    const JobRank rank{name, ranks[local], job.processes->num_ranks(), devices[local],
                       job.deadline};
    DPIPE_ASSIGN_OR_RETURN(communicators[local], connect(&job.processes->store(), rank));
    return absl::OkStatus();
  })));
  return communicators;
}

// Results are valid on rank 0 only.
class LinkProbe {
 public:
  LinkProbe(const std::vector<DeviceWorker*>& workers, Communicators communicators)
      : workers_(workers), communicators_(std::move(communicators)) {}
  // Each waits for all others to finish.
  ~LinkProbe() {
    RunOnAll(workers_, [&](int local) {
      communicators_[local] = nullptr;
      return absl::OkStatus();
    });
  }

  // Returns half of a round trip between rank 0 and `last`, averaged over several in sequence.
  absl::StatusOr<Nanos> Message(int last, int round_trips) {
    const auto round_trip = [last](Communicator& comm, const Tensor& ball) -> absl::Status {
      const int rank = comm.rank().value();
      if (rank != 0 && rank != last) return absl::OkStatus();
      const Rank peer(last - rank);
      if (rank == 0) DPIPE_RETURN_IF_ERROR(comm.Send(peer, 0, {ball}, "probe"));
      DPIPE_ASSIGN_OR_RETURN(auto recv, comm.PostRecv(peer, 0, {{{1}, DType::kF32}}, "probe"));
      DPIPE_RETURN_IF_ERROR(recv->Wait().status());
      return rank == 0 ? absl::OkStatus() : comm.Send(peer, 0, {ball}, "probe");
    };
    return Measure(
        [&](Communicator& comm, const Tensor& ball) -> absl::Status {
          for (int i = 0; i < round_trips; ++i) DPIPE_RETURN_IF_ERROR(round_trip(comm, ball));
          return absl::OkStatus();
        },
        1, 2 * round_trips, kRepeats);
  }

  // `group` includes rank 0.
  absl::StatusOr<Nanos> AllReduce(const std::vector<Rank>& group, int64_t size_bytes, int repeats) {
    return Measure(
        [&group](Communicator& comm, const Tensor& tensor) -> absl::Status {
          if (std::find(group.begin(), group.end(), comm.rank()) == group.end()) {
            return absl::OkStatus();
          }
          std::vector<Tensor> tensors = {tensor};
          return comm.AllReduceSum(group, absl::MakeSpan(tensors), "probe");
        },
        size_bytes / 4, 1, repeats);
  }

 private:
  using Once = std::function<absl::Status(Communicator&, const Tensor&)>;

  // Returns the median of `repeats` times, divided by `parts`. Every rank calls `once`.
  absl::StatusOr<Nanos> Measure(const Once& once, int64_t num_elements, int parts, int repeats) {
    std::vector<Nanos> samples(1);
    absl::Mutex mutex;
    absl::Status cause;  // the first error; the other ranks wait for the one that failed
    RunOnAll(workers_, [&](int local) {
      Communicator& comm = *communicators_[local];
      absl::StatusOr<std::vector<Nanos>> own =
          Samples(once, num_elements, parts, repeats, &comm, workers_[local]->device());
      if (!own.ok()) {
        absl::MutexLock lock(&mutex);
        cause.Update(own.status());
        comm.Abort(own.status());
      } else if (comm.rank() == Rank(0)) {
        samples = *std::move(own);
      }
      return own.status();
    });
    if (!cause.ok()) return cause;
    return MedianSample(samples);
  }

  static absl::StatusOr<std::vector<Nanos>> Samples(const Once& once, int64_t num_elements,
                                                    int parts, int repeats, Communicator* comm,
                                                    const std::shared_ptr<Device>& device) {
    const Tensor tensor = Tensor::Zeros(device, {num_elements}, DType::kF32);
    DPIPE_RETURN_IF_ERROR(device->Synchronize());
    std::vector<Nanos> samples;
    for (int i = 0; i < repeats; ++i) {
      const Nanos start = MonotonicNow();
      DPIPE_RETURN_IF_ERROR(once(*comm, tensor));
      DPIPE_RETURN_IF_ERROR(device->Synchronize());
      samples.push_back((MonotonicNow() - start) / parts);
    }
    return samples;
  }

  const std::vector<DeviceWorker*>& workers_;
  Communicators communicators_;
};

// Returns the bandwidth between the probe's ranks on CPUs, derived from one all-reduce. A ring
// moves 2 (n-1)/n of the bytes over each link, in 2 (n-1) hops.
absl::StatusOr<double> BandwidthOfCpus(const std::vector<Rank>& group, Nanos latency_ns,
                                       LinkProbe* probe) {
  const int n = static_cast<int>(group.size());
  DPIPE_ASSIGN_OR_RETURN(const Nanos reduce_ns, probe->AllReduce(group, kLargeBytes, kRepeats));
  const double transfer_ns = std::max<double>(1, reduce_ns - 2.0 * (n - 1) * latency_ns);
  return 2.0 * (n - 1) / n * kLargeBytes / transfer_ns * kNanosPerSecond;
}

// Uses tensors of at most `large` bytes, the same on all ranks.
absl::StatusOr<double> BandwidthOfGpus(const std::vector<Rank>& group, int64_t large,
                                       LinkProbe* probe) {
  const int64_t small = large / kTimesSmaller;
  DPIPE_ASSIGN_OR_RETURN(const Nanos small_ns, probe->AllReduce(group, small, kGpuReduces));
  DPIPE_ASSIGN_OR_RETURN(const Nanos large_ns, probe->AllReduce(group, large, kGpuReduces));
  return internal::RingBandwidth(static_cast<int>(group.size()), {small, small_ns},
                                 {large, large_ns});
}

// Returns a small share of the memory of this process's GPUs. GPUs of several processes are assumed
// to have enough for the maximum.
int64_t ProbeBytes(const TrainingJob& job, int64_t memory_bytes) {
  constexpr int kPart = 16;
  if (job.processes != nullptr) return kMaxGpuBytes;
  if (memory_bytes == 0) return kMaxGpuBytes / kTimesSmaller;  // it is unknown
  return std::clamp<int64_t>(memory_bytes / kPart / kMiB * kMiB, kMiB, kMaxGpuBytes);
}

// Returns the number of hosts if every host has equally many processes, with consecutive numbers,
// as a ClusterSpec needs; otherwise 1.
int NumNodes(ProcessGroup* processes) {
  if (processes == nullptr) return 1;
  const auto host_of = [&](int process) { return processes->store().HostOf(process); };
  const int count = processes->num_processes();
  int per_host = 1;
  while (per_host < count && host_of(per_host) == host_of(0)) ++per_host;
  if (count % per_host != 0) return 1;
  std::set<std::string> hosts;
  for (int i = 0; i < count; ++i) {
    const bool begins = i % per_host == 0;
    if (begins ? !hosts.insert(host_of(i)).second : host_of(i) != host_of(i - 1)) return 1;
  }
  return count / per_host;
}

// Returns ranks 0, step, 2 step and so on below `end`.
std::vector<Rank> EveryRank(int step, int end) {
  std::vector<Rank> ranks;
  for (int i = 0; i < end; i += step) ranks.push_back(Rank(i));
  return ranks;
}

// Distributes the measurements of the first process, which has rank 0.
absl::StatusOr<ClusterSpec> LeadersCluster(ProcessGroup* processes, const ClusterSpec& own) {
  DPIPE_ASSIGN_OR_RETURN(const std::string text,
                         processes->FromLeader("the cluster", own.SerializeAsString()));
  ClusterSpec cluster;
  if (cluster.ParseFromString(text)) return cluster;
  return absl::InternalError(absl::StrCat("the cluster that ", processes->store().NameOf(0),
                                          " has measured is not a ClusterSpec"));
}

}  // namespace

namespace internal {

double RingBandwidth(int n, const TimedReduce& small, const TimedReduce& large) {
  const double share = 2.0 * (n - 1) / n;
  const Nanos more_ns = large.time_ns - small.time_ns;
  const bool is_slope = more_ns > 0;
  const double moved = share * (is_slope ? large.size_bytes - small.size_bytes : large.size_bytes);
  return moved / std::max<Nanos>(1, is_slope ? more_ns : large.time_ns) * kNanosPerSecond;
}

}  // namespace internal

absl::StatusOr<ClusterSpec> MeasureCluster(const TrainingJob& job) {
  ClusterSpec cluster;
  const int own = static_cast<int>(job.workers.size());
  const int num_processes = job.processes == nullptr ? 1 : job.processes->num_processes();
  const int n = job.processes == nullptr ? own : job.processes->num_ranks();
  const bool on_cpus = job.workers[0]->device()->has_host_memory();
  const std::string devices = Count(n, on_cpus ? "CPU device" : "GPU");
  const int num_nodes = NumNodes(job.processes), per_node = n / num_nodes;
  const std::string on_hosts = num_nodes == 1 ? "" : absl::StrCat(" on ", num_nodes, " hosts");
  cluster.set_name(num_processes == 1
                       ? absl::StrCat("this machine: ", devices, " of one process")
                       : absl::StrCat(devices, " of ", num_processes, " processes", on_hosts));
  cluster.set_num_nodes(num_nodes);
  cluster.set_devices_per_node(per_node);
  cluster.set_collectives_use_compute(on_cpus);
  cluster.set_devices_share_memory(num_processes == 1 && cuda::ShareOneGpu(DevicesOf(job)));
  const std::vector<int64_t> usable = cuda::UsableBytes(DevicesOf(job));
  cluster.set_memory_bytes_per_device(*std::min_element(usable.begin(), usable.end()));
  Link link;  // of a single device, which uses none
  link.set_latency_ns(kNanosPerMicro);
  link.set_bandwidth_bytes_per_s(1e10);
  *cluster.mutable_intra_node() = *cluster.mutable_inter_node() = link;
  if (n > 1) {
    DPIPE_ASSIGN_OR_RETURN(Communicators communicators, Connect(job));
    LinkProbe probe(job.workers, std::move(communicators));
    const int64_t gpu_bytes = ProbeBytes(job, cluster.memory_bytes_per_device());
    // Measures between rank 0 and `last`, and in `group`.
    const auto measure = [&](int last, const std::vector<Rank>& group) -> absl::StatusOr<Link> {
      DPIPE_ASSIGN_OR_RETURN(const Nanos latency_ns,
                             probe.Message(last, on_cpus ? 1 : kGpuRoundTrips));
      DPIPE_ASSIGN_OR_RETURN(const double bandwidth,
                             on_cpus ? BandwidthOfCpus(group, latency_ns, &probe)
                                     : BandwidthOfGpus(group, gpu_bytes, &probe));
      Link measured;
      measured.set_latency_ns(latency_ns);
      measured.set_bandwidth_bytes_per_s(bandwidth);
      return measured;
    };
    if (per_node > 1) {
      DPIPE_ASSIGN_OR_RETURN(link, measure(per_node - 1, EveryRank(1, per_node)));
      *cluster.mutable_intra_node() = *cluster.mutable_inter_node() = link;
    }
    // One rank per node, so that the nodes' interfaces are not shared.
    if (num_nodes > 1) {
      DPIPE_ASSIGN_OR_RETURN(link, measure(n - 1, EveryRank(per_node, n)));
      *cluster.mutable_inter_node() = link;
      if (per_node == 1) *cluster.mutable_intra_node() = link;
    }
  }
  return job.processes == nullptr ? cluster : LeadersCluster(job.processes, cluster);
}

}  // namespace dpipe
