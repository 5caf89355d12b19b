#include "core/comm/peer_communicator.h"

#include <algorithm>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "core/base/check.h"
#include "core/base/shard.h"
#include "core/comm/collective_thread.h"

namespace dpipe {
namespace {

using Event = std::shared_ptr<DeviceEvent>;

// Tag of the messages that collectives consist of. No message of a plan has it.
constexpr int64_t kCollectiveTag = std::numeric_limits<int64_t>::min();

// Events that are recorded when the in-flight messages have been written, in the messages' order.
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
    // Their owner gets them back when this device is done with them; those of a collective, all at
    // once.
    if (std::get<2>(key_) == kCollectiveTag) return Tensor::ViewsOn(tensors, device_);
    for (Tensor& t : tensors) t = t.ViewOn(device_);
    return tensors;
  }

 private:
  const std::unique_ptr<PendingRecv> inner_;
  const std::shared_ptr<Events> events_;
  const Events::Key key_;
  const std::shared_ptr<Device> device_;
};

// One rank's part of a collective, enqueued on `twin` by another thread.
struct Progress {
  std::shared_ptr<Device> twin;
  Event end;  // valid once enqueued
};

class PeerCollective : public PendingCollective {
 public:
  PeerCollective(std::unique_ptr<PendingCollective> enqueued, std::shared_ptr<Progress> progress,
                 std::shared_ptr<Device> device)
      : enqueued_(std::move(enqueued)),
        progress_(std::move(progress)),
        device_(std::move(device)) {}

  // Blocks until the group's ranks have enqueued the collective, not until their devices have run
  // it.
  absl::Status Wait() override {
    DPIPE_RETURN_IF_ERROR(enqueued_->Wait());
    device_->WaitFor(*progress_->end);
    return absl::OkStatus();
  }
  Nanos end_ns() const override {
    if (!progress_->end->done()) progress_->twin->Synchronize().IgnoreError();
    return progress_->end->time_ns();
  }
  std::shared_ptr<DeviceEvent> end() const override { return progress_->end; }

 private:
  const std::unique_ptr<PendingCollective> enqueued_;
  const std::shared_ptr<Progress> progress_;
  const std::shared_ptr<Device> device_;
};

class PeerCommunicator : public Communicator {
 public:
  PeerCommunicator(std::unique_ptr<Communicator> inner, std::shared_ptr<Events> events,
                   std::shared_ptr<Device> device)
      : inner_(std::move(inner)),
        events_(std::move(events)),
        device_(std::move(device)),
        twin_(device_->MakeSibling()) {}

  Rank rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }

  absl::Status Send(Rank to, int64_t tag, std::vector<Tensor> tensors,
                    const std::string& what) override {
    return SendFrom(*device_, to, tag, std::move(tensors), what);
  }

  absl::StatusOr<std::unique_ptr<PendingRecv>> PostRecv(Rank from, int64_t tag,
                                                        std::vector<TensorSpec> specs,
                                                        const std::string& what) override {
    return PostRecvOn(device_, from, tag, std::move(specs), what);
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
  using Group = std::vector<Rank>;

  absl::Status SendFrom(Device& device, Rank to, int64_t tag, Tensors tensors,
                        const std::string& what) {
    // Validate first: an event without its message would be taken for that of the next message.
    if (to == rank() || to.value() < 0 || to.value() >= size()) {
      return inner_->Send(to, tag, std::move(tensors), what);
    }
    events_->Push({rank().value(), to.value(), tag}, device.RecordEvent());
    return inner_->Send(to, tag, std::move(tensors), what);
  }

  absl::StatusOr<std::unique_ptr<PendingRecv>> PostRecvOn(const std::shared_ptr<Device>& device,
                                                          Rank from, int64_t tag,
                                                          std::vector<TensorSpec> specs,
                                                          const std::string& what) {
    DPIPE_ASSIGN_OR_RETURN(auto inner, inner_->PostRecv(from, tag, std::move(specs), what));
    return std::unique_ptr<PendingRecv>(std::make_unique<PeerRecv>(
        std::move(inner), events_, Events::Key{from.value(), rank().value(), tag}, device));
  }

  // Runs `enqueue` on the thread of collectives, ordered after the work enqueued on the device so
  // far.
  StartedCollective Start(std::function<absl::Status()> enqueue) {
    auto progress = std::make_shared<Progress>();
    progress->twin = twin_;
    auto pending = thread_.Start([this, enqueue = std::move(enqueue),
                                  ready = device_->RecordEvent(), progress]() -> absl::Status {
      twin_->WaitFor(*ready);
      DPIPE_RETURN_IF_ERROR(enqueue());
      progress->end = twin_->RecordEvent();
      return absl::OkStatus();
    });
    return std::make_unique<PeerCollective>(std::move(pending), std::move(progress), device_);
  }

  // Returns the tensors on the twin.
  Tensors There(const Tensors& tensors) const { return Tensor::ViewsOn(tensors, twin_); }

  Shard OwnShard(const Group& group) const {
    const auto own = std::find(group.begin(), group.end(), rank());
    DPIPE_CHECK(own != group.end()) << "rank " << rank();
    return {static_cast<int>(own - group.begin()), static_cast<int>(group.size())};
  }

  // Returns the tensors that each rank of the group contributes, including this one's own.
  // shapes_of(member) returns their specs.
  template <typename ShapesOf>
  absl::StatusOr<std::vector<Tensors>> Exchange(const Group& group, const Tensors& own,
                                                const ShapesOf& shapes_of,
                                                const std::string& what) {
    for (Rank to : group) {
      if (to != rank()) DPIPE_RETURN_IF_ERROR(SendFrom(*twin_, to, kCollectiveTag, own, what));
    }
    std::vector<Tensors> all(group.size());
    for (size_t j = 0; j < group.size(); ++j) {
      if (group[j] == rank()) {
        all[j] = own;
        continue;
      }
      DPIPE_ASSIGN_OR_RETURN(auto recv, PostRecvOn(twin_, group[j], kCollectiveTag,
                                                   shapes_of(static_cast<int>(j)), what));
      DPIPE_ASSIGN_OR_RETURN(all[j], recv->Wait());
    }
    return all;
  }

  static std::vector<TensorSpec> ShapesOf(const Tensors& tensors) {
    std::vector<TensorSpec> specs;
    for (const Tensor& t : tensors) specs.push_back({t.shape(), t.dtype()});
    return specs;
  }

  static std::vector<TensorSpec> SharesOf(const Tensors& tensors, int member, size_t group_size) {
    const Shard shard{member, static_cast<int>(group_size)};
    std::vector<TensorSpec> specs;
    for (const Tensor& t : tensors) specs.push_back({{shard.Size(t.num_elements())}, DType::kF32});
    return specs;
  }

  // Allocates one tensor for this rank's share of each of `tensors`, all in one contiguous row.
  Tensors AllocateOwnShares(const Group& group, const Tensors& tensors) const;
  // Sums, in rank order, this rank's shares of the tensors of all ranks. The sum for tensors[i] is
  // stored in sums[i], or added to it if `adds`.
  absl::Status AddUpOwnShares(const Group& group, const Tensors& tensors, const Tensors& sums,
                              bool adds, const std::string& what);
  absl::Status AllReduce(const Group& group, const Tensors& tensors, const std::string& what);
  absl::Status Gather(const Group& group, const Tensors& shards, const Tensors& full,
                      const std::string& what);
  absl::Status ReduceScatter(const Group& group, const Tensors& full, const Tensors& shards,
                             const std::string& what);
  // Synchronizes the group, so that no rank writes its tensors before all have read them.
  absl::Status Part(const Group& group, const std::string& what) {
    return Exchange(
               group, {}, [](int) { return std::vector<TensorSpec>(); }, what)
        .status();
  }
  // Copies every rank's shares to their positions in `wholes`.
  void ScatterToWholes(const std::vector<Tensors>& shares, const Tensors& wholes) {
    std::vector<OrderedSum> copies;
    for (size_t j = 0; j < shares.size(); ++j) {
      const Shard place{static_cast<int>(j), static_cast<int>(shares.size())};
      for (size_t i = 0; i < wholes.size(); ++i) {
        const int64_t size = wholes[i].num_elements();
        DPIPE_CHECK_EQ(shares[j][i].num_elements(), place.Size(size));
        copies.push_back({wholes[i].data<float>() + place.Begin(size),
                          {shares[j][i].data<float>()},
                          place.Size(size)});
      }
    }
    twin_->AddUp(copies);
  }

  const std::unique_ptr<Communicator> inner_;
  const std::shared_ptr<Events> events_;
  const std::shared_ptr<Device> device_;
  const std::shared_ptr<Device> twin_;  // its stream is for collectives
  CollectiveThread thread_;
};

std::vector<Tensor> PeerCommunicator::AllocateOwnShares(const Group& group,
                                                        const Tensors& tensors) const {
  const Shard own = OwnShard(group);
  int64_t size = 0;
  for (const Tensor& t : tensors) size += own.Size(t.num_elements());
  const Tensor row = Tensor::Empty(twin_, {size}, DType::kF32);
  Tensors shares;
  int64_t at = 0;
  for (const Tensor& t : tensors) {
    const int64_t count = own.Size(t.num_elements());
    shares.push_back(row.Slice(at, at + count));
    at += count;
  }
  return shares;
}

absl::Status PeerCommunicator::AddUpOwnShares(const Group& group, const Tensors& tensors,
                                              const Tensors& sums, bool adds,
                                              const std::string& what) {
  const Shard own = OwnShard(group);
  const auto alike = [&](int) { return ShapesOf(tensors); };
  DPIPE_ASSIGN_OR_RETURN(const std::vector<Tensors> all, Exchange(group, tensors, alike, what));
  std::vector<OrderedSum> ordered;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const int64_t size = tensors[i].num_elements();
    DPIPE_CHECK_EQ(sums[i].num_elements(), own.Size(size)) << what;
    ordered.push_back({sums[i].data<float>(), {}, own.Size(size), adds});
    for (const Tensors& theirs : all) {
      ordered.back().terms.push_back(theirs[i].data<float>() + own.Begin(size));
    }
  }
  twin_->AddUp(ordered);
  return absl::OkStatus();
}

absl::Status PeerCommunicator::AllReduce(const Group& group, const Tensors& tensors,
                                         const std::string& what) {
  if (group.size() == 1) return absl::OkStatus();
  const Tensors sums = AllocateOwnShares(group, tensors);
  DPIPE_RETURN_IF_ERROR(AddUpOwnShares(group, tensors, sums, /*adds=*/false, what));
  // A rank sends its sums after it has read all ranks' tensors, so these may then be overwritten.
  const auto shares = [&](int member) { return SharesOf(tensors, member, group.size()); };
  DPIPE_ASSIGN_OR_RETURN(const std::vector<Tensors> all, Exchange(group, sums, shares, what));
  ScatterToWholes(all, tensors);
  return absl::OkStatus();
}

absl::Status PeerCommunicator::Gather(const Group& group, const Tensors& shards,
                                      const Tensors& full, const std::string& what) {
  Tensors flat;
  for (const Tensor& shard : shards) flat.push_back(shard.Reshape({shard.num_elements()}));
  const auto shares = [&](int member) { return SharesOf(full, member, group.size()); };
  DPIPE_ASSIGN_OR_RETURN(const std::vector<Tensors> all, Exchange(group, flat, shares, what));
  ScatterToWholes(all, full);
  return Part(group, what);
}

absl::Status PeerCommunicator::ReduceScatter(const Group& group, const Tensors& full,
                                             const Tensors& shards, const std::string& what) {
  DPIPE_RETURN_IF_ERROR(AddUpOwnShares(group, full, shards, /*adds=*/true, what));
  return Part(group, what);
}

Communicator::StartedCollective PeerCommunicator::StartAllReduceSum(absl::Span<const Rank> group,
                                                                    std::vector<Tensor> tensors,
                                                                    const std::string& what) {
  return Start([this, group = Group(group.begin(), group.end()), tensors = There(tensors), what] {
    return AllReduce(group, tensors, what);
  });
}

Communicator::StartedCollective PeerCommunicator::StartAllGather(absl::Span<const Rank> group,
                                                                 std::vector<Tensor> shards,
                                                                 std::vector<Tensor> full,
                                                                 const std::string& what) {
  DPIPE_CHECK_EQ(shards.size(), full.size()) << what;
  return Start([this, group = Group(group.begin(), group.end()), shards = There(shards),
                full = There(full), what] { return Gather(group, shards, full, what); });
}

Communicator::StartedCollective PeerCommunicator::StartReduceScatterSum(
    absl::Span<const Rank> group, std::vector<Tensor> full, std::vector<Tensor> shards,
    const std::string& what) {
  DPIPE_CHECK_EQ(shards.size(), full.size()) << what;
  return Start([this, group = Group(group.begin(), group.end()), full = There(full),
                shards = There(shards), what] { return ReduceScatter(group, full, shards, what); });
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
