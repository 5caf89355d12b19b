#include "core/emulation/emulated_communicator.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"

namespace dpipe {
namespace {

class EmulatedRecv : public PendingRecv {
 public:
  EmulatedRecv(EmulatedWires* wires, int from, int to, std::shared_ptr<EmulatedMessage> message,
               std::vector<TensorSpec> specs, const std::string& what)
      : wires_(wires),
        to_(to),
        message_(std::move(message)),
        specs_(std::move(specs)),
        what_(absl::StrCat(what, " from rank ", from)) {}

  absl::StatusOr<std::vector<Tensor>> Wait() override {
    DPIPE_RETURN_IF_ERROR(wires_->Await(to_, message_, what_));
    const std::vector<Tensor>& tensors = message_->tensors;
    bool same = tensors.size() == specs_.size();
    for (size_t i = 0; same && i < tensors.size(); ++i) {
      same = tensors[i].shape() == specs_[i].shape && tensors[i].dtype() == specs_[i].dtype;
    }
    if (same) return std::move(message_->tensors);
    return absl::InternalError(absl::StrCat("rank ", to_, ": ", what_, " has ", tensors.size(),
                                            " tensors that are not the ", specs_.size(),
                                            " expected"));
  }

 private:
  EmulatedWires* const wires_;
  const int to_;
  const std::shared_ptr<EmulatedMessage> message_;
  const std::vector<TensorSpec> specs_;
  const std::string what_;
};

class EmulatedPending : public PendingCollective {
 public:
  EmulatedPending(EmulatedWires* wires, int rank, std::shared_ptr<EmulatedCollective> collective,
                  std::string what)
      : wires_(wires), rank_(rank), collective_(std::move(collective)), what_(std::move(what)) {}

  absl::Status Wait() override { return wires_->Await(rank_, collective_, what_); }
  Nanos end_ns() const override { return collective_->span.end_ns; }

 private:
  EmulatedWires* const wires_;
  const int rank_;
  const std::shared_ptr<EmulatedCollective> collective_;
  const std::string what_;
};

class EmulatedCommunicator : public Communicator {
 public:
  EmulatedCommunicator(EmulatedWires* wires, int rank) : wires_(wires), rank_(rank) {}

  Rank rank() const override { return Rank(rank_); }
  int size() const override { return wires_->num_ranks(); }

  absl::Status Send(Rank to, int64_t tag, std::vector<Tensor> tensors,
                    const std::string& what) override {
    DPIPE_RETURN_IF_ERROR(CheckRank(to, what));
    return wires_->Send(rank_, to.value(), tag, std::move(tensors)).status();
  }

  absl::StatusOr<std::unique_ptr<PendingRecv>> PostRecv(Rank from, int64_t tag,
                                                        std::vector<TensorSpec> specs,
                                                        const std::string& what) override {
    DPIPE_RETURN_IF_ERROR(CheckRank(from, what));
    DPIPE_ASSIGN_OR_RETURN(auto message, wires_->PostRecv(from.value(), rank_, tag));
    return std::unique_ptr<PendingRecv>(std::make_unique<EmulatedRecv>(
        wires_, from.value(), rank_, std::move(message), std::move(specs), what));
  }

  StartedCollective StartAllReduceSum(absl::Span<const Rank> group, std::vector<Tensor> tensors,
                                      const std::string& what) override {
    return Start(CollectiveKind::kAllReduce, group, {{}, std::move(tensors), {}}, what);
  }

  StartedCollective StartAllGather(absl::Span<const Rank> group, std::vector<Tensor> shards,
                                   std::vector<Tensor> full, const std::string& what) override {
    DPIPE_CHECK_EQ(shards.size(), full.size()) << what;
    return Start(CollectiveKind::kAllGather, group, {std::move(shards), std::move(full), {}}, what);
  }

  StartedCollective StartReduceScatterSum(absl::Span<const Rank> group, std::vector<Tensor> full,
                                          std::vector<Tensor> shards,
                                          const std::string& what) override {
    DPIPE_CHECK_EQ(shards.size(), full.size()) << what;
    return Start(CollectiveKind::kReduceScatter, group, {std::move(full), std::move(shards), {}},
                 what);
  }

  absl::Status AllReduceSum(absl::Span<double> values, const std::string& what) override {
    return wires_->SumOverAll(rank_, values, what);
  }

  void Abort(const absl::Status& status) override { wires_->Abort(status); }

 private:
  absl::Status CheckRank(Rank peer, const std::string& what) const {
    if (0 <= peer.value() && peer.value() < size() && peer.value() != rank_) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(absl::StrCat("rank ", rank_, " has no peer ", peer.value(),
                                                   " for ", what, "; there are ", size(),
                                                   " ranks"));
  }

  StartedCollective Start(CollectiveKind kind, absl::Span<const Rank> group,
                          EmulatedCollective::Member member, const std::string& what) {
    std::vector<int> ranks;
    for (Rank r : group) ranks.push_back(r.value());
    DPIPE_CHECK(std::is_sorted(ranks.begin(), ranks.end())) << what;
    DPIPE_CHECK(std::count(ranks.begin(), ranks.end(), rank_) == 1)
        << "rank " << rank_ << " " << what;
    DPIPE_ASSIGN_OR_RETURN(
        auto collective, wires_->StartCollective(rank_, kind, std::move(ranks), std::move(member)));
    return std::unique_ptr<PendingCollective>(
        std::make_unique<EmulatedPending>(wires_, rank_, std::move(collective), what));
  }

  EmulatedWires* const wires_;
  const int rank_;
};

}  // namespace

std::unique_ptr<Communicator> CreateEmulatedCommunicator(EmulatedWires* wires, int rank) {
  return std::make_unique<EmulatedCommunicator>(wires, rank);
}

}  // namespace dpipe
