// The model with the lowest held-out loss of a run so far, stored beside the newest one.
#ifndef DPIPE_TOOLS_TRAINING_BEST_MODEL_H_
#define DPIPE_TOOLS_TRAINING_BEST_MODEL_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "core/base/status.h"
#include "models/trainable/trainable_model.h"
#include "tools/training/trained_model.h"

namespace dpipe::tools {

// Tracks the lowest held-out loss. The loss and its step are stored in the model's own
// training.json, so a resumed run finds them there and the two files cannot disagree.
class BestModel {
 public:
  // Opens `folder`, which holds the best model or does not exist yet. `measure` describes the
  // losses in words; only losses with the same measure are comparable. If `resumes`, continues with
  // the stored loss, unless its measure differs: then `say` gets a note and the loss is ignored.
  // Returns FailedPrecondition if the folder belongs to the user, and InvalidArgument if its
  // training.json cannot be read.
  static absl::StatusOr<BestModel> Open(const std::string& folder, const std::string& measure,
                                        bool resumes,
                                        const std::function<void(const std::string&)>& say);

  // True if `loss` is lower than every loss so far. Always false for NaN and infinities.
  bool IsBelow(double loss) const;
  // Replaces the folder by this model and its loss, as SaveTrainedModel does. After an error the
  // previous model is still there.
  absl::Status Keep(const models::TrainableModel& model, const nn::ParameterSource& weights,
                    models::StoredFormat format, TrainingRecord record, double loss);

  // Returns text such as "out/train/best, of step 400: loss 0.4312", or "" if there is no model
  // yet.
  std::string Describe() const;

 private:
  BestModel(const std::string& folder, const std::string& measure)
      : folder_(folder), measure_(measure) {}

  std::string folder_, measure_;
  std::optional<double> loss_;
  int64_t step_ = 0;
};

}  // namespace dpipe::tools

#endif  // DPIPE_TOOLS_TRAINING_BEST_MODEL_H_
