// Passes over a range of layers, recorded once and then launched as one (CUDA graphs).
//
// A pass is recorded when it has run twice as always: the first time libraries choose what they
// run, weights are prepared and kernels are loaded, the second time its memory is measured. A
// recording reads buffers of its own, which inputs are copied into, and the parameters where they
// lie; what comes out is copied, so that nobody ever holds a tensor that the next launch writes.
// What a forward pass keeps for the backward passes stays where it is, in a *lane*: the graphs of
// one micro-batch's passes, which no other micro-batch uses before its last pass is done. There are
// as many lanes as there are micro-batches in flight at a time, and what cannot be recorded, or
// finds that its parameters have moved, runs as always from then on.
//
// Prepared forms of weights stay in place (Weight::KeepForms) and are brought up to date before
// every launch, outside the graphs. The numbers are those of passes that are not recorded.
#ifndef DPIPE_CORE_RUNTIME_PASS_GRAPHS_H_
#define DPIPE_CORE_RUNTIME_PASS_GRAPHS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/base/range.h"
#include "core/base/status.h"
#include "core/nn/execution.h"
#include "core/nn/parameters.h"
#include "core/nn/program.h"
#include "core/tensor/device.h"

namespace dpipe {

struct PassGraphsOptions {
  bool enabled = false;
  // Of a rank: what comes later runs as always.
  int most_graphs = 512;
  // Told once of each pass that is not recorded, and why; on any rank's thread. May be empty.
  std::function<void(const std::string& line)> say;
};

enum class PassKind { kForward, kBackward, kInputGrad, kWeightGrad };

// One pass to be run. Everything pointed to outlives the call, and program and parameters all
// calls.
struct PassCall {
  PassKind kind = PassKind::kForward;
  const nn::Program* program = nullptr;
  LayerRange layers;
  nn::ParameterSet* parameters = nullptr;  // null: of a forward pass with those in `frozen`
  const nn::ParameterSet* frozen = nullptr;
  nn::RunOptions options;
  nn::ValueMap* values = nullptr;  // or gradients, as the functions of nn/execution.h have them
  nn::RangeState* state = nullptr;
};

// As nn::Forward, Backward, InputGrad and WeightGrad do it.
absl::Status RunPass(const PassCall& call);

// Used by one rank's thread.
class PassGraphs {
 public:
  class Lane;
  // What a micro-batch holds from a forward pass that keeps a state until it is done with that
  // state: the graphs that its next passes may be launched from.
  struct Hold {
    std::shared_ptr<Lane> lane;  // null: the forward pass was not launched
    bool all_launched = true;    // the passes that the state has had
  };

  // `device` has graphs().
  PassGraphs(std::shared_ptr<Device> device, PassGraphsOptions options);
  ~PassGraphs();
  PassGraphs(const PassGraphs&) = delete;
  PassGraphs& operator=(const PassGraphs&) = delete;

  // As RunPass, whose errors it has. `hold` is the state's, written by a forward pass; null where
  // there is no state.
  absl::Status Run(const PassCall& call, Hold* hold);

  int num_graphs() const { return *num_graphs_; }

 private:
  using Key = std::vector<int64_t>;
  struct Recording;
  // All runs of one pass with inputs of the same shapes.
  struct Site;

  Key KeyOf(const PassCall& call) const;
  // Inputs and outputs of the range's nodes, increasing.
  const std::vector<ValueId>& UsedBy(const nn::Program& program, LayerRange layers);
  absl::Status RunUnrecorded(const PassCall& call, Site* site, Hold* hold);
  // The lane of a call, with its key, whose site is ready; null where there is none, or may be
  // none.
  std::shared_ptr<Lane> LaneOf(const PassCall& call, const Key& key, Site* site, const Hold* hold);
  absl::StatusOr<std::unique_ptr<Recording>> Record(const PassCall& call, const Site& site);
  void Launch(const PassCall& call, const Recording& recording);
  void GiveUp(const PassCall& call, const std::string& reason, Site* site);

  const std::shared_ptr<Device> device_;
  const PassGraphsOptions options_;
  std::map<std::pair<const nn::Program*, LayerRange>, std::vector<ValueId>> used_;
  std::map<Key, Site> sites_;
  const std::shared_ptr<int> num_graphs_ = std::make_shared<int>(0);
  bool said_full_ = false;
};

}  // namespace dpipe

#endif  // DPIPE_CORE_RUNTIME_PASS_GRAPHS_H_
