#include "core/runtime/interpreter/weight_versions.h"

#include "core/base/check.h"
#include "core/ops/optimizer/optimizer.h"

namespace dpipe {

void WeightVersions::BeginStep() {
  DPIPE_CHECK(pins_.empty()) << "passes of the previous step are still running";
  predicted_update_ = -1;
  shared_.clear();
  for (nn::ParameterId id : weights_->trainable_ids()) {
    if (shares_) shared_.push_back(weights_->weight(id).master().Clone());
  }
}

int64_t WeightVersions::Pin() {
  ++pins_[current_];
  return current_;
}

void WeightVersions::Unpin(int64_t version) {
  const auto pinned = pins_.find(version);
  DPIPE_CHECK(pinned != pins_.end()) << "version " << version;
  if (--pinned->second > 0) return;
  pins_.erase(pinned);
  stashed_.erase(version);
}

absl::Status WeightVersions::RunIn(nn::ParameterSet* version,
                                   const std::function<absl::Status()>& pass) {
  weights_->SwapWeights(version);
  absl::Status status = pass();
  weights_->SwapWeights(version);
  return status;
}

absl::Status WeightVersions::RunWith(int64_t version, const std::function<absl::Status()>& pass) {
  if (version == current_) return pass();
  const auto stashed = stashed_.find(version);
  DPIPE_CHECK(stashed != stashed_.end()) << "version " << version << " is not pinned";
  return RunIn(stashed->second.get(), pass);
}

absl::Status WeightVersions::RunPredicted(
    int64_t update, const std::function<absl::Status(nn::ParameterSet*)>& predict,
    const std::function<absl::Status()>& pass) {
  if (update != predicted_update_) {
    predicted_ = nullptr;
    predicted_ = CopyOfCurrent();
    DPIPE_RETURN_IF_ERROR(predict(predicted_.get()));
    predicted_update_ = update;
  }
  return RunIn(predicted_.get(), pass);
}

std::unique_ptr<nn::ParameterSet> WeightVersions::CopyOfCurrent() const {
  auto copy =
      nn::ParameterSet::OnDemand(weights_->program(), weights_->layers(), weights_->device());
  copy->AllocateMasters(copy->layers());
  for (nn::ParameterId id : copy->ids()) {
    copy->mutable_weight(id)->Assign(weights_->weight(id));
  }
  return copy;
}

void WeightVersions::BeginUpdate() {
  if (pins_.count(current_) > 0) stashed_[current_] = CopyOfCurrent();
}

absl::Status WeightVersions::Share(int num_ranks,
                                   const std::function<absl::Status(absl::Span<Tensor>)>& sum) {
  DPIPE_CHECK_EQ(pins_.count(current_), 0u) << "passes have used the weights since the update";
  std::vector<Tensor> changes;
  std::vector<ops::AxpbyPair> subtractions, additions;
  for (size_t i = 0; i < shared_.size(); ++i) {
    changes.push_back(weights_->weight(weights_->trainable_ids()[i]).master().Clone());
    subtractions.push_back({shared_[i], changes[i]});
    additions.push_back({changes[i], shared_[i]});
  }
  DPIPE_RETURN_IF_ERROR(ops::Axpby(-1, 1, subtractions));
  DPIPE_RETURN_IF_ERROR(sum(absl::MakeSpan(changes)));
  DPIPE_RETURN_IF_ERROR(ops::Axpby(1 / static_cast<float>(num_ranks), 1, additions));
  for (size_t i = 0; i < shared_.size(); ++i) {
    ops::Weight* weight = weights_->mutable_weight(weights_->trainable_ids()[i]);
    Tensor(weight->master()).CopyFrom(shared_[i]);
    weight->MarkUpdated();
  }
  return absl::OkStatus();
}

}  // namespace dpipe
