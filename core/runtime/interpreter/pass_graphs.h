// Passes over a range of layers, recorded once and then launched in one call (CUDA graphs).
//
// A pass is recorded after two normal runs: in the first one libraries choose algorithms, weights
// are prepared and kernels are loaded; the second one measures the pass's memory. A recording reads
// its own buffers, into which inputs are copied, and the parameters in place. Outputs are copied,
// so that no tensor outside is overwritten by the next launch. Data that a forward pass keeps for
// the backward passes stays in place, in a *lane*: the graphs of one micro-batch's passes, which no
// other micro-batch uses before its last pass is done. There are as many lanes as micro-batches in
// flight. A pass that cannot be recorded, or whose parameters have moved, runs normally from then
// on.
//
// Prepared forms of weights stay in place (Weight::KeepForms) and are refreshed before every
// launch, outside the graphs. The numbers are those of passes that are not recorded.
#ifndef DPIPE_CORE_RUNTIME_INTERPRETER_PASS_GRAPHS_H_
#define DPIPE_CORE_RUNTIME_INTERPRETER_PASS_GRAPHS_H_

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
  // Maximum number per rank; later passes run normally.
  int max_graphs = 512;
  // Called once for each pass that is not recorded, with the reason; on any rank's thread. May be
  // empty.
  std::function<void(const std::string& line)> say;
};

enum class PassKind { kForward, kBackward, kInputGrad, kWeightGrad };

// One pass to run. All pointees outlive the call; program and parameters outlive all calls.
struct PassCall {
  PassKind kind = PassKind::kForward;
  const nn::Program* program = nullptr;
  LayerRange layers;
  nn::ParameterSet* parameters = nullptr;  // null: a forward pass with the parameters in `frozen`
  const nn::ParameterSet* frozen = nullptr;
  nn::RunOptions options;
  nn::ValueMap* values = nullptr;  // or gradients, as in the functions of nn/execution.h
  nn::RangeState* state = nullptr;
};

// Runs a pass by nn::Forward, Backward, InputGrad or WeightGrad.
absl::Status RunPass(const PassCall& call);

// Used by one rank's thread.
class PassGraphs {
 public:
  class Lane;
  // Held by a micro-batch from a forward pass that keeps a state until it is done with that state:
  // the lane whose graphs its later passes may be launched from.
  struct Hold {
    std::shared_ptr<Lane> lane;  // null: the forward pass was not launched
    bool all_launched = true;    // true if all passes on the state were launched
  };

  // `device` has graphs().
  PassGraphs(std::shared_ptr<Device> device, PassGraphsOptions options);
  ~PassGraphs();
  PassGraphs(const PassGraphs&) = delete;
  PassGraphs& operator=(const PassGraphs&) = delete;

  // Runs a pass like RunPass, with the same errors. `hold` belongs to the state and is set by a
  // forward pass; null if there is no state.
  absl::Status Run(const PassCall& call, Hold* hold);

  int num_graphs() const { return *num_graphs_; }

 private:
  using Key = std::vector<int64_t>;
  struct Recording;
  // All runs of one pass with inputs of the same shapes.
  struct Site;

  Key KeyOf(const PassCall& call) const;
  // Returns the inputs and outputs of the range's nodes, in increasing order.
  const std::vector<ValueId>& UsedBy(const nn::Program& program, LayerRange layers);
  absl::Status RunUnrecorded(const PassCall& call, Site* site, Hold* hold);
  // Returns the lane for a call with this key, whose site is ready. Returns null if there is none
  // and none may be created.
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

#endif  // DPIPE_CORE_RUNTIME_INTERPRETER_PASS_GRAPHS_H_
