#include "bench/transports/communication_probe.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "core/base/check.h"
#include "core/base/shard.h"
#include "core/tensor/tensor.h"

namespace dpipe::bench {
namespace {

// The data are small whole numbers, whose sums are exact in fp32 in any order. The period is prime,
// so that data in the wrong place are noticed.
constexpr int kPeriod = 1021;
constexpr int64_t kTag = 1, kBackTag = 2;

// Returns a rank's contribution to an element; `phase` is the element's index modulo kPeriod.
float Contribution(int rank, int phase) { return static_cast<float>(phase + rank); }
int PhaseOf(int64_t i) { return static_cast<int>(i % kPeriod); }
int NextPhase(int phase) { return phase + 1 == kPeriod ? 0 : phase + 1; }

// One rank's part in one kind of traffic.
class Probe {
 public:
  Probe(Communicator* communicator, const std::shared_ptr<Device>& device, Traffic traffic,
        int64_t count)
      : comm_(*communicator), device_(device), traffic_(traffic), count_(count) {
    for (int i = 0; i < comm_.size(); ++i) group_.push_back(Rank(i));
    own_ = {rank(), comm_.size()};
    if (!is_message()) full_ = Tensor::Empty(device, {count}, DType::kF32);
    if (traffic == Traffic::kReduceScatter || traffic == Traffic::kAllGather) {
      shard_ = Tensor::Empty(device, {own_.Size(count)}, DType::kF32);
    }
  }

  // Restores the initial state: collectives overwrite it, and sent tensors have been given away.
  void Fill() {
    if (is_message() && rank() == 0) full_ = Tensor::Empty(device_, {count_}, DType::kF32);
    const int own = rank();
    const auto brought = [own](int phase) { return Contribution(own, phase); };
    const auto nothing = [](int) { return 0.0f; };
    switch (traffic_) {
      case Traffic::kAllGather:
        FillBy(nothing, 0, &full_);
        FillBy(brought, own_.Begin(count_), &shard_);
        break;
      case Traffic::kReduceScatter:
        FillBy(nothing, 0, &shard_);
        FillBy(brought, 0, &full_);
        break;
      default:
        if (full_.defined()) FillBy(brought, 0, &full_);
    }
  }

  absl::Status Run() {
    switch (traffic_) {
      case Traffic::kSendReceive:
        return ThereAndBack();
      case Traffic::kBroadcast:
        return Broadcast();
      case Traffic::kAllReduce:
        return comm_.AllReduceSum(group_, absl::MakeSpan(&full_, 1), "probe");
      case Traffic::kReduceScatter:
        return comm_.ReduceScatterSum(group_, absl::MakeConstSpan(&full_, 1),
                                      absl::MakeSpan(&shard_, 1), "probe");
      case Traffic::kAllGather:
        return comm_.AllGather(group_, absl::MakeConstSpan(&shard_, 1), absl::MakeSpan(&full_, 1),
                               "probe");
    }
    return absl::InternalError("no such traffic");
  }

  absl::Status Check() const {
    const int n = comm_.size();
    const auto sum = [n](int phase) { return n * Contribution(0, phase) + n * (n - 1) / 2.0f; };
    switch (traffic_) {
      case Traffic::kSendReceive:
        return rank() > 1 ? absl::OkStatus()
                          : CheckBy([](int phase) { return Contribution(0, phase); }, 0, got_[0]);
      case Traffic::kBroadcast:
        return rank() == 0 ? absl::OkStatus()
                           : CheckBy([](int phase) { return Contribution(0, phase); }, 0, got_[0]);
      case Traffic::kAllReduce:
        return CheckBy(sum, 0, full_);
      case Traffic::kReduceScatter:
        return CheckBy(sum, own_.Begin(count_), shard_);
      case Traffic::kAllGather:
        for (int j = 0; j < n; ++j) {
          const Shard shard{j, n};
          DPIPE_RETURN_IF_ERROR(CheckBy([j](int phase) { return Contribution(j, phase); },
                                        shard.Begin(count_),
                                        full_.Slice(shard.Begin(count_), shard.End(count_))));
        }
    }
    return absl::OkStatus();
  }

  // Measures Run() until the last rank is done; all ranks return the same time.
  absl::StatusOr<Nanos> Time() {
    got_.clear();
    double together = 0;
    DPIPE_RETURN_IF_ERROR(device_->Synchronize());
    DPIPE_RETURN_IF_ERROR(comm_.AllReduceSum(absl::MakeSpan(&together, 1), "all are here"));
    const Nanos start = MonotonicNow();
    DPIPE_RETURN_IF_ERROR(Run());
    DPIPE_RETURN_IF_ERROR(device_->Synchronize());
    std::vector<double> times(comm_.size(), 0.0);
    times[rank()] = static_cast<double>(MonotonicNow() - start);
    DPIPE_RETURN_IF_ERROR(comm_.AllReduceSum(absl::MakeSpan(times), "all are done"));
    const double longest = *std::max_element(times.begin(), times.end());
    return static_cast<Nanos>(traffic_ == Traffic::kSendReceive ? longest / 2 : longest);
  }

 private:
  int rank() const { return comm_.rank().value(); }
  bool is_message() const {
    return traffic_ == Traffic::kSendReceive || traffic_ == Traffic::kBroadcast;
  }

  absl::Status Receive(int from, int64_t tag) {
    DPIPE_ASSIGN_OR_RETURN(auto recv,
                           comm_.PostRecv(Rank(from), tag, {{{count_}, DType::kF32}}, "probe"));
    DPIPE_ASSIGN_OR_RETURN(got_, recv->Wait());
    return absl::OkStatus();
  }

  absl::Status ThereAndBack() {
    if (rank() > 1) return absl::OkStatus();
    if (rank() == 0) {
      DPIPE_RETURN_IF_ERROR(comm_.Send(Rank(1), kTag, {full_}, "probe"));
      return Receive(1, kBackTag);
    }
    DPIPE_RETURN_IF_ERROR(Receive(0, kTag));
    return comm_.Send(Rank(0), kBackTag, got_, "probe");
  }

  absl::Status Broadcast() {
    if (rank() > 0) return Receive(0, kTag);
    for (int to = 1; to < comm_.size(); ++to) {
      DPIPE_RETURN_IF_ERROR(comm_.Send(Rank(to), kTag, {full_}, "probe"));
    }
    return absl::OkStatus();
  }

  // Sets element k of `tensor` to the value of index begin + k.
  template <typename Value>
  static void FillBy(const Value& value, int64_t begin, Tensor* tensor) {
    Tensor host = tensor->device()->has_host_memory()
                      ? *tensor
                      : Tensor::Empty(Device::Cpu(), tensor->shape(), DType::kF32);
    const absl::Span<float> numbers = host.span<float>();
    int phase = PhaseOf(begin);
    for (float& number : numbers) {
      number = value(phase);
      phase = NextPhase(phase);
    }
    if (!tensor->device()->has_host_memory()) tensor->CopyFrom(host);
  }

  template <typename Value>
  absl::Status CheckBy(const Value& value, int64_t begin, const Tensor& tensor) const {
    const Tensor host = tensor.ToHost();
    const absl::Span<const float> numbers = host.span<float>();
    int phase = PhaseOf(begin);
    for (size_t k = 0; k < numbers.size(); ++k, phase = NextPhase(phase)) {
      if (numbers[k] == value(phase)) continue;
      return absl::DataLossError(absl::StrCat("rank ", rank(), ", ", TrafficName(traffic_), " of ",
                                              count_, " numbers: element ", begin + k, " is ",
                                              numbers[k], ", must be ", value(phase)));
    }
    return absl::OkStatus();
  }

  Communicator& comm_;
  const std::shared_ptr<Device> device_;
  const Traffic traffic_;
  const int64_t count_;
  std::vector<Rank> group_;
  Shard own_;
  Tensor full_, shard_;
  std::vector<Tensor> got_;  // the last message received
};

}  // namespace

const std::vector<Traffic>& AllTraffic() {
  static const auto* const kAll =
      new std::vector<Traffic>{Traffic::kSendReceive, Traffic::kBroadcast, Traffic::kAllReduce,
                               Traffic::kReduceScatter, Traffic::kAllGather};
  return *kAll;
}

const char* TrafficName(Traffic traffic) {
  switch (traffic) {
    case Traffic::kSendReceive:
      return "send/receive";
    case Traffic::kBroadcast:
      return "broadcast";
    case Traffic::kAllReduce:
      return "all-reduce";
    case Traffic::kReduceScatter:
      return "reduce-scatter";
    case Traffic::kAllGather:
      return "all-gather";
  }
  return "?";
}

double AlgorithmBandwidth(const TrafficTime& time) {
  return static_cast<double>(time.size_bytes) * kNanosPerSecond /
         static_cast<double>(std::max<Nanos>(1, time.median_ns));
}

double BusBandwidth(const TrafficTime& time) {
  const double share = (time.num_ranks - 1.0) / time.num_ranks;
  switch (time.traffic) {
    case Traffic::kAllReduce:
      return 2 * share * AlgorithmBandwidth(time);
    case Traffic::kReduceScatter:
    case Traffic::kAllGather:
      return share * AlgorithmBandwidth(time);
    default:
      return AlgorithmBandwidth(time);
  }
}

absl::StatusOr<TrafficTime> MeasureTraffic(Communicator* communicator,
                                           const std::shared_ptr<Device>& device, Traffic traffic,
                                           int64_t size_bytes, const ProbeOptions& options) {
  DPIPE_CHECK_GE(communicator->size(), 2);
  Probe probe(communicator, device, traffic, size_bytes / int64_t{sizeof(float)});
  // The first run creates connections and memory, and determines the number of repeats.
  probe.Fill();
  DPIPE_ASSIGN_OR_RETURN(const Nanos first, probe.Time());
  DPIPE_RETURN_IF_ERROR(probe.Check());
  const int repeats = static_cast<int>(std::clamp<int64_t>(
      options.min_time_ns / std::max<Nanos>(1, first), options.min_repeats, options.max_repeats));
  std::vector<Nanos> times;
  for (int i = 0; i < repeats; ++i) {
    probe.Fill();
    DPIPE_ASSIGN_OR_RETURN(times.emplace_back(), probe.Time());
  }
  DPIPE_RETURN_IF_ERROR(probe.Check());
  std::sort(times.begin(), times.end());
  return TrafficTime{traffic,     communicator->size(),    size_bytes,
                     repeats,     times[times.size() / 2], times.front(),
                     times.back()};
}

}  // namespace dpipe::bench
