#include "tools/training/best_model.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace dpipe::tools {

absl::StatusOr<BestModel> BestModel::Open(const std::string& folder, const std::string& measure,
                                          bool resumes,
                                          const std::function<void(const std::string&)>& say) {
  DPIPE_RETURN_IF_ERROR(CheckWritable(folder));
  BestModel best(folder, measure);
  if (!resumes) return best;
  auto record = ReadTrainingRecord(folder);
  if (absl::IsNotFound(record.status())) return best;
  DPIPE_RETURN_IF_ERROR(record.status());
  if (record->held_out_measure != measure) {
    say(absl::StrCat(
        "Note:     the loss of ", folder, " was measured on ",
        record->held_out_measure.empty() ? "unknown samples" : record->held_out_measure,
        "; this run measures ", measure, ": the next loss counts as the lowest"));
    return best;
  }
  best.loss_ = record->held_out_loss;
  best.step_ = record->steps;
  return best;
}

bool BestModel::IsBelow(double loss) const {
  return std::isfinite(loss) && (!loss_.has_value() || loss < *loss_);
}

absl::Status BestModel::Keep(const models::TrainableModel& model,
                             const nn::ParameterSource& weights, models::StoredFormat format,
                             TrainingRecord record, double loss) {
  record.held_out_loss = loss;
  record.held_out_measure = measure_;
  DPIPE_RETURN_IF_ERROR(SaveTrainedModel(model, weights, format, record, folder_));
  loss_ = loss;
  step_ = record.steps;
  return absl::OkStatus();
}

std::string BestModel::Describe() const {
  if (!loss_.has_value()) return "";
  return absl::StrFormat("%s, of step %d: loss %.4f", folder_, step_, *loss_);
}

}  // namespace dpipe::tools
