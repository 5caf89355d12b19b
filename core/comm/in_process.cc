#include "core/comm/in_process.h"

#include <algorithm>
#include <deque>
#include <map>
#include <tuple>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "core/base/shard.h"
#include "core/comm/collective_thread.h"
#include "core/comm/contract.h"

namespace dpipe {
namespace {

// What the ranks brought to a meeting, by rank.
struct Brought {
  std::map<int, std::vector<Tensor>> tensors;
  std::map<int, std::vector<double>> values;
};

// A meeting of the ranks of one group: every rank brings something, the last one opens the gate.
// What was brought is read after the gate opens, when fast ranks may already come to the next
// meeting; nobody reaches the one after that before all have read, so two sets are enough. A set is
// dropped when the next gate opens.
struct Meeting {
  int64_t generation = 0;
  int arrived = 0;
  Brought brought[2];
};

struct SharedState {
  SharedState(int num_ranks, const InProcessOptions& opts) : size(num_ranks), options(opts) {}

  const int size;
  const InProcessOptions options;
  absl::Mutex mutex;
  absl::Status failure ABSL_GUARDED_BY(mutex);
  std::map<std::tuple<int, int, int64_t>, std::deque<std::vector<Tensor>>> mailboxes
      ABSL_GUARDED_BY(mutex);  // by (from, to, tag)
  // By group; sums of doubles apart, as they may come between collectives that are under way.
  std::map<std::pair<bool, std::vector<int>>, Meeting> meetings ABSL_GUARDED_BY(mutex);
};

absl::Status DeadlineError(int rank, const std::string& what, absl::Duration waited) {
  return absl::DeadlineExceededError(
      absl::StrCat("rank ", rank, " waited ", absl::FormatDuration(waited), " for ", what));
}

// Waits, with the state's mutex held, until `ready` or failure or the deadline. The deadline is
// waited for in pieces, so that only time counts in which this process runs: one that was stopped
// (Ctrl-Z, a debugger, a scheduler) must not find its deadlines passed when it goes on.
template <typename Ready>
absl::Status Await(SharedState& state, int rank, const std::string& what, const Ready& ready)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(state.mutex) {
  constexpr int kPieces = 32;
  auto done = [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return !state.failure.ok() || ready(); };
  const absl::Duration piece = state.options.deadline / kPieces;
  for (int i = 0; i < kPieces; ++i) {
    if (!state.mutex.AwaitWithTimeout(absl::Condition(&done), piece)) continue;
    return state.failure;
  }
  state.failure = DeadlineError(rank, what, state.options.deadline);
  return state.failure;
}

class InProcessRecv : public PendingRecv {
 public:
  InProcessRecv(std::shared_ptr<SharedState> state, Rank from, Rank to, int64_t tag,
                std::vector<TensorSpec> specs, std::string what)
      : state_(std::move(state)),
        from_(from),
        to_(to),
        tag_(tag),
        specs_(std::move(specs)),
        what_(std::move(what)) {}

  absl::StatusOr<std::vector<Tensor>> Wait() override {
    std::vector<Tensor> tensors;
    {
      absl::MutexLock lock(&state_->mutex);
      auto& mailbox = state_->mailboxes[{from_.value(), to_.value(), tag_}];
      DPIPE_RETURN_IF_ERROR(Await(*state_, to_.value(),
                                  absl::StrCat(what_, " from rank ", from_.value()),
                                  [&mailbox] { return !mailbox.empty(); }));
      tensors = std::move(mailbox.front());
      mailbox.pop_front();
    }
    DPIPE_RETURN_IF_ERROR(CheckSpecs(tensors));
    return tensors;
  }

 private:
  absl::Status CheckSpecs(const std::vector<Tensor>& tensors) const {
    bool same = tensors.size() == specs_.size();
    for (size_t i = 0; same && i < tensors.size(); ++i) {
      same = tensors[i].shape() == specs_[i].shape && tensors[i].dtype() == specs_[i].dtype;
    }
    if (same) return absl::OkStatus();
    return WrongSpecs(to_, from_, what_, SpecNames(specs_), SpecNames(SpecsOf(tensors)));
  }

  const std::shared_ptr<SharedState> state_;
  const Rank from_;
  const Rank to_;
  const int64_t tag_;
  const std::vector<TensorSpec> specs_;
  const std::string what_;
};

class InProcessCommunicator : public Communicator {
 public:
  InProcessCommunicator(std::shared_ptr<SharedState> state, int rank)
      : state_(std::move(state)), rank_(rank) {}

  Rank rank() const override { return Rank(rank_); }
  int size() const override { return state_->size; }

  absl::Status Send(Rank to, int64_t tag, std::vector<Tensor> tensors,
                    const std::string& what) override {
    DPIPE_RETURN_IF_ERROR(CheckPeer(rank(), size(), to, what));
    absl::MutexLock lock(&state_->mutex);
    if (!state_->failure.ok()) return state_->failure;
    state_->mailboxes[{rank_, to.value(), tag}].push_back(std::move(tensors));
    return absl::OkStatus();
  }

  absl::StatusOr<std::unique_ptr<PendingRecv>> PostRecv(Rank from, int64_t tag,
                                                        std::vector<TensorSpec> specs,
                                                        const std::string& what) override {
    DPIPE_RETURN_IF_ERROR(CheckPeer(rank(), size(), from, what));
    return std::unique_ptr<PendingRecv>(
        std::make_unique<InProcessRecv>(state_, from, rank(), tag, std::move(specs), what));
  }

  StartedCollective StartAllReduceSum(absl::Span<const Rank> group, std::vector<Tensor> tensors,
                                      const std::string& what) override {
    return thread_.Start([this, group = GroupOf(rank(), group, what), tensors = std::move(tensors),
                          what] { return SumAll(group, tensors, what); });
  }

  StartedCollective StartAllGather(absl::Span<const Rank> group, std::vector<Tensor> shards,
                                   std::vector<Tensor> full, const std::string& what) override {
    DPIPE_CHECK_EQ(shards.size(), full.size()) << what;
    return thread_.Start([this, group = GroupOf(rank(), group, what), shards = std::move(shards),
                          full = std::move(full), what]() mutable {
      return Gather(group, shards, absl::MakeSpan(full), what);
    });
  }

  StartedCollective StartReduceScatterSum(absl::Span<const Rank> group, std::vector<Tensor> full,
                                          std::vector<Tensor> shards,
                                          const std::string& what) override {
    DPIPE_CHECK_EQ(shards.size(), full.size()) << what;
    return thread_.Start([this, group = GroupOf(rank(), group, what), full = std::move(full),
                          shards = std::move(shards), what]() mutable {
      return ReduceScatter(group, full, absl::MakeSpan(shards), what);
    });
  }

  absl::Status AllReduceSum(absl::Span<double> values, const std::string& what) override {
    std::vector<int> ranks(state_->size);
    for (int i = 0; i < state_->size; ++i) ranks[i] = i;
    if (ranks.size() == 1) return absl::OkStatus();
    std::vector<double> sum(values.size(), 0.0);
    auto arrive = [&](Brought& brought) {
      brought.values[rank_].assign(values.begin(), values.end());
    };
    auto collect = [&](const Brought& brought) {
      for (auto& [rank, theirs] : brought.values) {
        DPIPE_CHECK_EQ(theirs.size(), values.size()) << what;
        for (size_t i = 0; i < sum.size(); ++i) sum[i] += theirs[i];
      }
    };
    DPIPE_RETURN_IF_ERROR(Meet(/*of_values=*/true, ranks, what, arrive, collect));
    std::copy(sum.begin(), sum.end(), values.begin());
    return absl::OkStatus();
  }

  void Abort(const absl::Status& status) override {
    absl::MutexLock lock(&state_->mutex);
    if (state_->failure.ok()) state_->failure = status;
  }

 private:
  using Tensors = std::vector<Tensor>;

  absl::Status SumAll(const RankGroup& group, const Tensors& tensors, const std::string& what) {
    if (group.size() == 1) return absl::OkStatus();
    DPIPE_ASSIGN_OR_RETURN(std::vector<Tensors> all, Exchange(group.ranks, tensors, what));
    for (size_t i = 0; i < tensors.size(); ++i) SumShard(&all, i, group.own);
    return Part(group.ranks, what);
  }

  absl::Status Gather(const RankGroup& group, const Tensors& shards, absl::Span<Tensor> full,
                      const std::string& what) {
    DPIPE_ASSIGN_OR_RETURN(const std::vector<Tensors> all, Exchange(group.ranks, shards, what));
    for (size_t i = 0; i < full.size(); ++i) {
      for (Shard from{0, group.size()}; from.index < from.count; ++from.index) {
        const absl::Span<const float> shard = all[from.index][i].span<float>();
        DPIPE_CHECK_EQ(static_cast<int64_t>(shard.size()), from.Size(full[i].num_elements()))
            << what << ", tensor " << i << " of rank " << group.ranks[from.index];
        std::copy(shard.begin(), shard.end(),
                  full[i].data<float>() + from.Begin(full[i].num_elements()));
      }
    }
    return Part(group.ranks, what);
  }

  absl::Status ReduceScatter(const RankGroup& group, const Tensors& full, absl::Span<Tensor> shards,
                             const std::string& what) {
    DPIPE_ASSIGN_OR_RETURN(const std::vector<Tensors> all, Exchange(group.ranks, full, what));
    const Shard own = group.own;
    for (size_t i = 0; i < full.size(); ++i) {
      const int64_t n = full[i].num_elements(), begin = own.Begin(n), size = own.Size(n);
      DPIPE_CHECK_EQ(shards[i].num_elements(), size) << what << ", tensor " << i;
      std::vector<float> sum(size);
      std::copy_n(all[0][i].data<float>() + begin, size, sum.begin());
      for (size_t r = 1; r < all.size(); ++r) {
        DPIPE_CHECK_EQ(all[r][i].num_elements(), n) << what << ", tensor " << i;
        const float* other = all[r][i].data<float>() + begin;
        for (int64_t k = 0; k < size; ++k) sum[k] += other[k];
      }
      float* shard = shards[i].data<float>();
      for (int64_t k = 0; k < size; ++k) shard[k] += sum[k];
    }
    return Part(group.ranks, what);
  }

  // Everybody's tensors, in the group's order; they may be used until Part.
  absl::StatusOr<std::vector<Tensors>> Exchange(const std::vector<int>& ranks,
                                                const Tensors& tensors, const std::string& what) {
    std::vector<Tensors> all;
    auto arrive = [&](Brought& brought) { brought.tensors[rank_] = tensors; };
    auto collect = [&](const Brought& brought) {
      for (auto& [rank, theirs] : brought.tensors) all.push_back(theirs);
    };
    DPIPE_RETURN_IF_ERROR(Meet(/*of_values=*/false, ranks, what, arrive, collect));
    return all;
  }

  // Nobody leaves, and so changes its tensors, before everybody has done with them.
  absl::Status Part(const std::vector<int>& ranks, const std::string& what) {
    return Meet(
        /*of_values=*/false, ranks, what, [](Brought&) {}, [](const Brought&) {});
  }

  // Brings something to the group's meeting, waits for everybody, and takes what they brought.
  template <typename Arrive, typename Collect>
  absl::Status Meet(bool of_values, const std::vector<int>& ranks, const std::string& what,
                    const Arrive& arrive, const Collect& collect) {
    absl::MutexLock lock(&state_->mutex);
    if (!state_->failure.ok()) return state_->failure;
    Meeting& meeting = state_->meetings[{of_values, ranks}];
    const int64_t generation = meeting.generation;
    Brought& brought = meeting.brought[generation % 2];
    arrive(brought);
    if (++meeting.arrived == static_cast<int>(ranks.size())) {
      meeting.arrived = 0;
      ++meeting.generation;
      meeting.brought[meeting.generation % 2] = Brought();
    } else {
      DPIPE_RETURN_IF_ERROR(Await(*state_, rank_, absl::StrCat(what, " of all its ranks"),
                                  [&] { return meeting.generation != generation; }));
    }
    collect(brought);
    return absl::OkStatus();
  }

  // This rank's shard of tensor `i`: summed over the group in rank order, written to everybody.
  static void SumShard(std::vector<Tensors>* everybodys, size_t i, Shard own) {
    std::vector<Tensors>& all = *everybodys;
    const int64_t n = all[0][i].num_elements();
    const int64_t begin = own.Begin(n), end = own.End(n);
    const int64_t num_ranks = all.size();
    float* first = all[0][i].data<float>();
    for (int64_t r = 1; r < num_ranks; ++r) {
      DPIPE_CHECK_EQ(all[r][i].num_elements(), n);
      const float* other = all[r][i].data<float>();
      for (int64_t k = begin; k < end; ++k) first[k] += other[k];
    }
    for (int64_t r = 1; r < num_ranks; ++r) {
      std::copy(first + begin, first + end, all[r][i].data<float>() + begin);
    }
  }

  const std::shared_ptr<SharedState> state_;
  const int rank_;
  CollectiveThread thread_;
};

}  // namespace

std::vector<std::unique_ptr<Communicator>> CreateInProcessCommunicators(
    int size, const InProcessOptions& options) {
  DPIPE_CHECK_GE(size, 1);
  auto state = std::make_shared<SharedState>(size, options);
  std::vector<std::unique_ptr<Communicator>> communicators;
  for (int rank = 0; rank < size; ++rank) {
    communicators.push_back(std::make_unique<InProcessCommunicator>(state, rank));
  }
  return communicators;
}

}  // namespace dpipe
