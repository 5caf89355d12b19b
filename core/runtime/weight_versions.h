// The versions of a stage's weights that the micro-batches of a relaxed plan see: stashed ones, and
// ones predicted for a later update.                                          [algorithms.md §8]
#ifndef DPIPE_CORE_RUNTIME_WEIGHT_VERSIONS_H_
#define DPIPE_CORE_RUNTIME_WEIGHT_VERSIONS_H_

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

// One rank's, one thread's. Version k is what k updates have made.
class WeightVersions {
 public:
  // `weights`, of one stage, outlives this. `shares`: Share will be called.
  WeightVersions(nn::ParameterSet* weights, bool shares) : weights_(weights), shares_(shares) {}

  // Before the first pass of a step. The weights may have been overwritten since the last one, and
  // are equal on all ranks that share them.
  void BeginStep();

  int64_t current() const { return current_; }

  // Keeps the current version until it is unpinned as often as pinned; returns its number.
  int64_t Pin();
  void Unpin(int64_t version);
  // Runs `pass` with that version, current or pinned, in the place of the stage's weights.
  absl::Status RunWith(int64_t version, const std::function<absl::Status()>& pass);

  // Whether the last weights predicted are for that update.
  bool HasPredicted(int64_t update) const { return predicted_update_ == update; }
  // Runs `pass` with weights that `predict` makes of a copy of the current ones. The copy serves
  // all passes for the same update (number `update`), as long as it is the last one predicted for.
  absl::Status RunPredicted(int64_t update,
                            const std::function<absl::Status(nn::ParameterSet*)>& predict,
                            const std::function<absl::Status()>& pass);

  // To be called before and after the weights change: copies what is pinned.
  void BeginUpdate();
  void EndUpdate() { ++current_; }

  // Gives `sum` what trainable weights have changed by since the last Share or BeginStep, to be
  // summed over `num_ranks` ranks; from the weights of that time, they then change by the mean.
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
  std::vector<Tensor> shared_;  // trainable weights, where they are shared
};

}  // namespace dpipe

#endif  // DPIPE_CORE_RUNTIME_WEIGHT_VERSIONS_H_
