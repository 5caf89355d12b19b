// Versions of a stage's weights that the micro-batches of a relaxed plan use: stashed ones, and
// ones predicted for a later update [algorithms.md §8].
#ifndef DPIPE_CORE_RUNTIME_INTERPRETER_WEIGHT_VERSIONS_H_
#define DPIPE_CORE_RUNTIME_INTERPRETER_WEIGHT_VERSIONS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "core/base/status.h"
#include "core/nn/parameters.h"
#include "core/tensor/tensor.h"

namespace dpipe {

// Belongs to one rank and one thread. Version k is the result of k updates.
class WeightVersions {
 public:
  // `weights`, of one stage, outlives this. `shares`: Share will be called.
  WeightVersions(nn::ParameterSet* weights, bool shares) : weights_(weights), shares_(shares) {}

  // Starts a step, before its first pass. The weights may have been overwritten since the last
  // step, and are equal on all ranks that share them.
  void BeginStep();

  int64_t current() const { return current_; }

  // Keeps the current version until it is unpinned as often as pinned; returns its number.
  int64_t Pin();
  void Unpin(int64_t version);
  // Runs `pass` with that version, current or pinned, in place of the stage's weights.
  absl::Status RunWith(int64_t version, const std::function<absl::Status()>& pass);

  // True if the last predicted weights are for that update.
  bool HasPredicted(int64_t update) const { return predicted_update_ == update; }
  // Runs `pass` with weights that `predict` computes in a copy of the current ones. The copy serves
  // all passes for the same update (number `update`) until a prediction for another one.
  absl::Status RunPredicted(int64_t update,
                            const std::function<absl::Status(nn::ParameterSet*)>& predict,
                            const std::function<absl::Status()>& pass);

  // Called before and after the weights change. BeginUpdate copies the current version if it is
  // pinned.
  void BeginUpdate();
  void EndUpdate() { ++current_; }

  // Passes to `sum` the changes of trainable weights since the last Share or BeginStep, to be
  // summed over `num_ranks` ranks. Sets the weights to their values of that time plus the mean
  // change.
  absl::Status Share(int num_ranks, const std::function<absl::Status(absl::Span<Tensor>)>& sum);

 private:
  std::unique_ptr<nn::ParameterSet> CopyOfCurrent() const;
  absl::Status RunIn(nn::ParameterSet* version, const std::function<absl::Status()>& pass);

  nn::ParameterSet* const weights_;
  const bool shares_;
  int64_t current_ = 0;
  std::map<int64_t, int> pins_;
  std::map<int64_t, std::unique_ptr<nn::ParameterSet>> stashed_;
  int64_t predicted_update_ = -1;
  std::unique_ptr<nn::ParameterSet> predicted_;
  // Trainable weights at the last Share or BeginStep, if they are shared.
  std::vector<Tensor> shared_;
};

}  // namespace dpipe

#endif  // DPIPE_CORE_RUNTIME_INTERPRETER_WEIGHT_VERSIONS_H_
