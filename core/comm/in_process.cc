#include "core/comm/in_process.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/comm/communicator.h"
#include "core/comm/in_process_state.h"
#include "core/comm/shared_collective.h"

namespace dpipe {

namespace {

using internal::CollectiveShare;
using internal::DoubleSums;
using internal::InProcessState;
using internal::InProcessWaiter;
using internal::Message;

class InProcessRecv : public PendingRecv {
 public:
  InProcessRecv(std::shared_ptr<InProcessWaiter> waiter, Rank from, int64_t tag,
                std::vector<TensorSpec> specs, std::string what)
      : waiter_(std::move(waiter)),
        from_(from),
        tag_(tag),
        specs_(std::move(specs)),
        what_(std::move(what)) {}

  absl::StatusOr<std::vector<Tensor>> Wait() override {
    const Nanos begin_ns = MonotonicNow();
    InProcessState& state = waiter_->state();
    Message message;
    {
      absl::MutexLock lock(&state.mutex);
      auto& mailbox = state.mailboxes[{from_.value(), waiter_->rank(), tag_}];
      DPIPE_RETURN_IF_ERROR(
          waiter_->Await([&mailbox] { return !mailbox.empty(); },
                         [this] { return absl::StrCat(what_, " from rank ", from_.value()); }));
      message = std::move(mailbox.front());
      mailbox.pop_front();
    }
    waiter_->Observe(begin_ns, message.sent_ns);
    DPIPE_RETURN_IF_ERROR(CheckSpecs(message.tensors));
    return std::move(message.tensors);
  }

 private:
  absl::Status CheckSpecs(const std::vector<Tensor>& tensors) const {
    bool same = tensors.size() == specs_.size();
    for (size_t i = 0; same && i < tensors.size(); ++i) {
      same = tensors[i].shape() == specs_[i].shape && tensors[i].dtype() == specs_[i].dtype;
    }
    if (same) return absl::OkStatus();
    return WrongSpecs(Rank(waiter_->rank()), from_, what_, SpecNames(specs_),
                      SpecNames(SpecsOf(tensors)));
  }

  const std::shared_ptr<InProcessWaiter> waiter_;
  const Rank from_;
  const int64_t tag_;
  const std::vector<TensorSpec> specs_;
  const std::string what_;
};

class InProcessCollective : public PendingCollective {
 public:
  InProcessCollective(std::shared_ptr<InProcessWaiter> waiter,
                      std::shared_ptr<CollectiveShare> share)
      : waiter_(std::move(waiter)), share_(std::move(share)) {}

  absl::Status Wait() override {
    while (!share_->ended) DPIPE_RETURN_IF_ERROR(waiter_->EndFirst());
    return absl::OkStatus();
  }
  Nanos end_ns() const override { return share_->end_ns; }

 private:
  const std::shared_ptr<InProcessWaiter> waiter_;
  const std::shared_ptr<CollectiveShare> share_;
};

class InProcessCommunicator : public Communicator {
 public:
  InProcessCommunicator(std::shared_ptr<InProcessState> state, int rank)
      : state_(state), waiter_(std::make_shared<InProcessWaiter>(std::move(state), rank)) {}

  Rank rank() const override { return Rank(waiter_->rank()); }
  int size() const override { return state_->size; }

  absl::Status Send(Rank to, int64_t tag, std::vector<Tensor> tensors,
                    const std::string& what) override {
    const Nanos sent_ns = MonotonicNow();
    DPIPE_RETURN_IF_ERROR(CheckPeer(rank(), size(), to, what));
    absl::MutexLock lock(&state_->mutex);
    if (!state_->failure.ok()) return state_->failure;
    state_->mailboxes[{rank().value(), to.value(), tag}].push_back({std::move(tensors), sent_ns});
    ++state_->num_changes;
    return absl::OkStatus();
  }

  absl::StatusOr<std::unique_ptr<PendingRecv>> PostRecv(Rank from, int64_t tag,
                                                        std::vector<TensorSpec> specs,
                                                        const std::string& what) override {
    DPIPE_RETURN_IF_ERROR(CheckPeer(rank(), size(), from, what));
    return std::unique_ptr<PendingRecv>(
        std::make_unique<InProcessRecv>(waiter_, from, tag, std::move(specs), what));
  }

  StartedCollective StartAllReduceSum(absl::Span<const Rank> group, std::vector<Tensor> tensors,
                                      const std::string& what) override {
    return Start(SharedCollective::Kind::kAllReduceSum, group, {{}, std::move(tensors)}, what);
  }

  StartedCollective StartAllGather(absl::Span<const Rank> group, std::vector<Tensor> shards,
                                   std::vector<Tensor> full, const std::string& what) override {
    DPIPE_CHECK_EQ(shards.size(), full.size()) << what;
    return Start(SharedCollective::Kind::kAllGather, group, {std::move(shards), std::move(full)},
                 what);
  }

  StartedCollective StartReduceScatterSum(absl::Span<const Rank> group, std::vector<Tensor> full,
                                          std::vector<Tensor> shards,
                                          const std::string& what) override {
    DPIPE_CHECK_EQ(shards.size(), full.size()) << what;
    return Start(SharedCollective::Kind::kReduceScatterSum, group,
                 {std::move(shards), std::move(full)}, what);
  }

  absl::Status AllReduceSum(absl::Span<double> values, const std::string& what) override {
    if (size() == 1) return absl::OkStatus();
    const Nanos begin_ns = MonotonicNow();
    Nanos last_arrival_ns = 0;
    {
      absl::MutexLock lock(&state_->mutex);
      if (!state_->failure.ok()) return state_->failure;
      DoubleSums& sums = state_->sums;
      const int64_t generation = sums.generation;
      DoubleSums::Contribution& contribution = sums.brought[generation % 2];
      contribution.values[rank().value()].assign(values.begin(), values.end());
      contribution.last_arrival_ns = std::max(contribution.last_arrival_ns, begin_ns);
      if (++sums.arrived == size()) {
        sums.arrived = 0;
        ++sums.generation;
        sums.brought[sums.generation % 2] = DoubleSums::Contribution();
        ++state_->num_changes;
      } else {
        DPIPE_RETURN_IF_ERROR(
            waiter_->Await([&] { return sums.generation != generation; },
                           [&what] { return absl::StrCat(what, " from all ranks of its group"); }));
      }
      AddInRankOrder(contribution, values, what);
      last_arrival_ns = contribution.last_arrival_ns;
    }
    waiter_->Observe(begin_ns, last_arrival_ns);
    return absl::OkStatus();
  }

  void Abort(const absl::Status& status) override {
    absl::MutexLock lock(&state_->mutex);
    state_->Fail(status);
  }

 private:
  StartedCollective Start(SharedCollective::Kind kind, absl::Span<const Rank> ranks,
                          SharedCollective::Contribution contribution, const std::string& what) {
    const Nanos now_ns = MonotonicNow();
    RankGroup group = GroupOf(rank(), ranks, what);
    auto share = std::make_shared<CollectiveShare>();
    share->what = what;
    const int own = group.own.index, members = group.size();
    const int64_t number = num_started_[group.ranks]++;
    absl::MutexLock lock(&state_->mutex);
    if (!state_->failure.ok()) return state_->failure;
    const std::pair<std::vector<int>, int64_t> key(std::move(group.ranks), number);
    std::shared_ptr<SharedCollective>& shared = state_->collectives[key];
    if (shared == nullptr) shared = std::make_shared<SharedCollective>(kind, members);
    DPIPE_CHECK(shared->kind() == kind)
        << what << ": a rank of its group started a different kind of collective";
    share->shared = shared;
    if (shared->Join(own, std::move(contribution), now_ns)) {
      state_->collectives.erase(key);
      ++state_->num_changes;
    }
    waiter_->Add(share);
    return std::make_unique<InProcessCollective>(waiter_, std::move(share));
  }

  static void AddInRankOrder(const DoubleSums::Contribution& contribution,
                             absl::Span<double> values, const std::string& what) {
    std::fill(values.begin(), values.end(), 0.0);
    for (const auto& [rank, theirs] : contribution.values) {
      DPIPE_CHECK_EQ(theirs.size(), values.size()) << what;
      for (size_t i = 0; i < values.size(); ++i) values[i] += theirs[i];
    }
  }

  const std::shared_ptr<InProcessState> state_;
  const std::shared_ptr<InProcessWaiter> waiter_;
  std::map<std::vector<int>, int64_t> num_started_;  // collectives, by group
};

}  // namespace

std::vector<std::unique_ptr<Communicator>> CreateInProcessCommunicators(
    int size, const InProcessOptions& options) {
  DPIPE_CHECK_GE(size, 1);
  auto state = std::make_shared<InProcessState>(size, options);
  std::vector<std::unique_ptr<Communicator>> communicators;
  for (int rank = 0; rank < size; ++rank) {
    communicators.push_back(std::make_unique<InProcessCommunicator>(state, rank));
  }
  return communicators;
}

}  // namespace dpipe
