// The model with the lowest held-out loss of a run so far, kept beside the newest one.
#ifndef DPIPE_TOOLS_BEST_MODEL_H_
#define DPIPE_TOOLS_BEST_MODEL_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "core/base/status.h"
#include "models/trainable/trainable_model.h"
#include "tools/trained_model.h"

namespace dpipe::tools {

// What is known of it lies with the model, in its training.json, so that a run that goes on knows
// it, too, and the two cannot disagree.
class BestModel {
 public:
  // `folder` has that model, or is not there yet; its losses are `measure`'s, in words: only those
  // of the same one can be compared. A run that `goes_on` begins with what is there; where that has
  // another measure `say` is told, and it counts no more. FailedPrecondition where the folder is a
  // user's own, InvalidArgument where its training.json cannot be read.
  static absl::StatusOr<BestModel> Open(const std::string& folder, const std::string& measure,
                                        bool goes_on,
                                        const std::function<void(const std::string&)>& say);

  // Whether this held-out loss is below all so far. NaN and infinities never are.
  bool IsBelow(double loss) const;
  // Replaces the folder by a model with that loss, as SaveTrainedModel does. After an error what
  // was there still is.
  absl::Status Keep(const models::TrainableModel& model, const models::NamedTensors& weights,
                    models::StoredFormat format, TrainingRecord record, double loss);

  // "out/train.best, of step 400: loss 0.4312"; empty where there is none yet.
  std::string Describe() const;

 private:
  BestModel(const std::string& folder, const std::string& measure)
      : folder_(folder), measure_(measure) {}

  std::string folder_, measure_;
  std::optional<double> loss_;
  int64_t step_ = 0;
};

}  // namespace dpipe::tools

#endif  // DPIPE_TOOLS_BEST_MODEL_H_
