#include "core/comm/peer_communicator.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "core/base/check.h"
#include "core/base/shard.h"

namespace dpipe {
namespace {

using Event = std::shared_ptr<DeviceEvent>;

// Of collectives' messages: no message of a plan has it.
constexpr int64_t kCollectiveTag = std::numeric_limits<int64_t>::min();

// When each message that is under way is written, in the order of the messages.
class Events {
 public:
  using Key = std::tuple<int, int, int64_t>;  // from, to, tag

  void Push(const Key& key, Event event) {
    absl::MutexLock lock(&mutex_);
    events_[key].push_back(std::move(event));
  }
  Event Pop(const Key& key) {
    absl::MutexLock lock(&mutex_);
    std::deque<Event>& queue = events_[key];
    DPIPE_CHECK(!queue.empty());
    Event event = std::move(queue.front());
    queue.pop_front();
    return event;
  }

 private:
  absl::Mutex mutex_;
  std::map<Key, std::deque<Event>> events_ ABSL_GUARDED_BY(mutex_);
};

class PeerRecv : public PendingRecv {
 public:
  PeerRecv(std::unique_ptr<PendingRecv> inner, std::shared_ptr<Events> events, Events::Key key,
           std::shared_ptr<Device> device)
      : inner_(std::move(inner)),
        events_(std::move(events)),
        key_(key),
        device_(std::move(device)) {}

  absl::StatusOr<std::vector<Tensor>> Wait() override {
    DPIPE_ASSIGN_OR_RETURN(std::vector<Tensor> tensors, inner_->Wait());
    device_->WaitFor(*events_->Pop(key_));
    // Their maker gets them back when this device has done with them.
    for (Tensor& t : tensors) t = t.On(device_);
    return tensors;
  }

 private:
  const std::unique_ptr<PendingRecv> inner_;
  const std::shared_ptr<Events> events_;
  const Events::Key key_;
  const std::shared_ptr<Device> device_;
};

// Everything is enqueued already.
class Enqueued : public PendingCollective {
 public:
  explicit Enqueued(std::shared_ptr<Device> device)
      : device_(std::move(device)), end_(device_->RecordEvent()) {}
  absl::Status Wait() override { return absl::OkStatus(); }
  Nanos end_ns() const override {
    if (!end_->done()) device_->Synchronize().IgnoreError();
    return end_->time_ns();
  }

 private:
  const std::shared_ptr<Device> device_;
  const Event end_;
};

class PeerCommunicator : public Communicator {
 public:
  PeerCommunicator(std::unique_ptr<Communicator> inner, std::shared_ptr<Events> events,
                   std::shared_ptr<Device> device)
      : inner_(std::move(inner)), events_(std::move(events)), device_(std::move(device)) {}

  Rank rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }

  absl::Status Send(Rank to, int64_t tag, std::vector<Tensor> tensors,
                    const std::string& what) override {
    events_->Push({rank().value(), to.value(), tag}, device_->RecordEvent());
    return inner_->Send(to, tag, std::move(tensors), what);
  }

  absl::StatusOr<std::unique_ptr<PendingRecv>> PostRecv(Rank from, int64_t tag,
                                                        std::vector<TensorSpec> specs,
                                                        const std::string& what) override {
    DPIPE_ASSIGN_OR_RETURN(auto inner, inner_->PostRecv(from, tag, std::move(specs), what));
    return std::unique_ptr<PendingRecv>(std::make_unique<PeerRecv>(
        std::move(inner), events_, Events::Key{from.value(), rank().value(), tag}, device_));
  }

  StartedCollective StartAllReduceSum(absl::Span<const Rank> group, std::vector<Tensor> tensors,
                                      const std::string& what) override;
  StartedCollective StartAllGather(absl::Span<const Rank> group, std::vector<Tensor> shards,
                                   std::vector<Tensor> full, const std::string& what) override;
  StartedCollective StartReduceScatterSum(absl::Span<const Rank> group, std::vector<Tensor> full,
                                          std::vector<Tensor> shards,
                                          const std::string& what) override;
  absl::Status AllReduceSum(absl::Span<double> values, const std::string& what) override {
    return inner_->AllReduceSum(values, what);
  }
  void Abort(const absl::Status& status) override { inner_->Abort(status); }

 private:
  using Tensors = std::vector<Tensor>;

  Shard OwnShard(absl::Span<const Rank> group) const {
    const auto own = std::find(group.begin(), group.end(), rank());
    DPIPE_CHECK(own != group.end()) << "rank " << rank();
    return {static_cast<int>(own - group.begin()), static_cast<int>(group.size())};
  }

  // The tensors that each rank of the group brings, this one's own among them; shapes_of(member):
  // what they are.
  template <typename ShapesOf>
  absl::StatusOr<std::vector<Tensors>> Exchange(absl::Span<const Rank> group, const Tensors& own,
                                                const ShapesOf& shapes_of,
                                                const std::string& what) {
    for (Rank to : group) {
      if (to != rank()) DPIPE_RETURN_IF_ERROR(Send(to, kCollectiveTag, own, what));
    }
    std::vector<Tensors> all(group.size());
    for (size_t j = 0; j < group.size(); ++j) {
      if (group[j] == rank()) {
        all[j] = own;
        continue;
      }
      DPIPE_ASSIGN_OR_RETURN(
          auto recv, PostRecv(group[j], kCollectiveTag, shapes_of(static_cast<int>(j)), what));
      DPIPE_ASSIGN_OR_RETURN(all[j], recv->Wait());
    }
    return all;
  }

  static std::vector<TensorSpec> ShapesOf(const Tensors& tensors) {
    std::vector<TensorSpec> specs;
    for (const Tensor& t : tensors) specs.push_back({t.shape(), t.dtype()});
    return specs;
  }

  // Of each tensor that every rank brings, the sum of this rank's share, in rank order.
  absl::StatusOr<Tensors> SumOwnShares(absl::Span<const Rank> group, const Tensors& tensors,
                                       const std::string& what);
  // Nobody changes its tensors before everybody has read them.
  absl::Status Part(absl::Span<const Rank> group, const std::string& what) {
    return Exchange(
               group, {}, [](int) { return std::vector<TensorSpec>(); }, what)
        .status();
  }
  // Writes `share` into its place in `whole`.
  void Put(const Tensor& share, Shard place, const Tensor& whole) {
    const int64_t begin = place.Begin(whole.num_elements());
    DPIPE_CHECK_EQ(share.num_elements(), place.Size(whole.num_elements()));
    device_->CopyFromPeer(whole.data<float>() + begin, *device_, share.raw_data(),
                          share.size_bytes());
  }
  StartedCollective Done() { return std::make_unique<Enqueued>(device_); }

  const std::unique_ptr<Communicator> inner_;
  const std::shared_ptr<Events> events_;
  const std::shared_ptr<Device> device_;
};

absl::StatusOr<std::vector<Tensor>> PeerCommunicator::SumOwnShares(absl::Span<const Rank> group,
                                                                   const Tensors& tensors,
                                                                   const std::string& what) {
  const Shard own = OwnShard(group);
  const auto alike = [&](int) { return ShapesOf(tensors); };
  DPIPE_ASSIGN_OR_RETURN(const std::vector<Tensors> all, Exchange(group, tensors, alike, what));
  Tensors sums;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const int64_t begin = own.Begin(tensors[i].num_elements());
    const int64_t count = own.Size(tensors[i].num_elements());
    const Tensor sum = Tensor::Empty(device_, {count}, DType::kF32);
    if (count > 0) {
      device_->CopyFromPeer(sum.raw_data(), *device_, all[0][i].data<float>() + begin,
                            sum.size_bytes());
      for (size_t j = 1; j < all.size(); ++j) {
        device_->Accumulate(sum.raw_data(), all[j][i].data<float>() + begin, count);
      }
    }
    sums.push_back(sum);
  }
  return sums;
}

Communicator::StartedCollective PeerCommunicator::StartAllReduceSum(absl::Span<const Rank> group,
                                                                    std::vector<Tensor> tensors,
                                                                    const std::string& what) {
  if (group.size() == 1) return Done();
  DPIPE_ASSIGN_OR_RETURN(const Tensors sums, SumOwnShares(group, tensors, what));
  // A rank's sums come after its reading of everybody's tensors, so these may be written then.
  const auto shares_of = [&](int member) {
    std::vector<TensorSpec> specs;
    for (const Tensor& t : tensors) {
      const Shard shard{member, static_cast<int>(group.size())};
      specs.push_back({{shard.Size(t.num_elements())}, DType::kF32});
    }
    return specs;
  };
  DPIPE_ASSIGN_OR_RETURN(const std::vector<Tensors> all, Exchange(group, sums, shares_of, what));
  for (size_t j = 0; j < all.size(); ++j) {
    const Shard shard{static_cast<int>(j), static_cast<int>(group.size())};
    for (size_t i = 0; i < tensors.size(); ++i) Put(all[j][i], shard, tensors[i]);
  }
  return Done();
}

Communicator::StartedCollective PeerCommunicator::StartAllGather(absl::Span<const Rank> group,
                                                                 std::vector<Tensor> shards,
                                                                 std::vector<Tensor> full,
                                                                 const std::string& what) {
  DPIPE_CHECK_EQ(shards.size(), full.size()) << what;
  const auto shards_of = [&](int member) {
    std::vector<TensorSpec> specs;
    for (const Tensor& t : full) {
      const Shard shard{member, static_cast<int>(group.size())};
      specs.push_back({{shard.Size(t.num_elements())}, DType::kF32});
    }
    return specs;
  };
  Tensors flat;
  for (const Tensor& shard : shards) flat.push_back(shard.Reshape({shard.num_elements()}));
  DPIPE_ASSIGN_OR_RETURN(const std::vector<Tensors> all, Exchange(group, flat, shards_of, what));
  for (size_t j = 0; j < all.size(); ++j) {
    const Shard shard{static_cast<int>(j), static_cast<int>(group.size())};
    for (size_t i = 0; i < full.size(); ++i) Put(all[j][i], shard, full[i]);
  }
  DPIPE_RETURN_IF_ERROR(Part(group, what));
  return Done();
}

Communicator::StartedCollective PeerCommunicator::StartReduceScatterSum(
    absl::Span<const Rank> group, std::vector<Tensor> full, std::vector<Tensor> shards,
    const std::string& what) {
  DPIPE_CHECK_EQ(shards.size(), full.size()) << what;
  DPIPE_ASSIGN_OR_RETURN(const Tensors sums, SumOwnShares(group, full, what));
  for (size_t i = 0; i < shards.size(); ++i) {
    DPIPE_CHECK_EQ(shards[i].num_elements(), sums[i].num_elements()) << what;
    device_->Accumulate(shards[i].raw_data(), sums[i].raw_data(), sums[i].num_elements());
  }
  DPIPE_RETURN_IF_ERROR(Part(group, what));
  return Done();
}

}  // namespace

std::vector<std::unique_ptr<Communicator>> CreatePeerCommunicators(
    const std::vector<std::shared_ptr<Device>>& devices, const InProcessOptions& options) {
  const auto events = std::make_shared<Events>();
  std::vector<std::unique_ptr<Communicator>> communicators;
  for (auto& inner : CreateInProcessCommunicators(static_cast<int>(devices.size()), options)) {
    const int rank = inner->rank().value();
    communicators.push_back(
        std::make_unique<PeerCommunicator>(std::move(inner), events, devices[rank]));
  }
  return communicators;
}

}  // namespace dpipe
