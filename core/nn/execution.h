// Runs contiguous ranges of a Program's layers: forward, input gradients, weight gradients.
//
// Bit-identity: running a program whole or cut into any ranges gives the same bits, forward and
// backward. The contributions to a value's gradient are summed one by one, from its last reader to
// its first; a range receives the sum over the readers behind it and adds those within, which is
// the same order. Everything runs on the calling thread, on the device of its tensors.
#ifndef DPIPE_CORE_NN_EXECUTION_H_
#define DPIPE_CORE_NN_EXECUTION_H_

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "core/base/range.h"
#include "core/base/status.h"
#include "core/nn/parameters.h"
#include "core/nn/program.h"
#include "core/tensor/tensor.h"

namespace dpipe::nn {

using ValueMap = std::map<ValueId, Tensor>;

struct RunOptions {
  DType compute_dtype = DType::kF32;  // fp32 or bf16
};

// What one forward pass of a range of layers has kept for its backward passes. Layers go through
// their passes from the last to the first, each: forward, InputGrad, WeightGrad.
class RangeState {
 public:
  RangeState() = default;
  RangeState(RangeState&&) = default;
  RangeState& operator=(RangeState&&) = default;

  LayerRange layers() const { return layers_; }
  // Bytes kept now, by the whole range or a part of it. Storage that several tensors share counts
  // once within one call.
  int64_t bytes() const { return bytes(layers_); }
  int64_t bytes(LayerRange layers) const;
  // All three passes of all layers are done.
  bool finished() const;

  // The tensors kept for some layers, undefined ones included, in order.
  std::vector<Tensor> saved(LayerRange layers) const;
  // Another state of the same pass, whose tensors share this one's storage.
  RangeState Share() const { return RangeState(*this); }
  // Puts `layers` where they are in `other`, a state of the same layers, and shares its tensors.
  void ShareLayers(const RangeState& other, LayerRange layers);

 private:
  friend class RangeRunner;
  enum class Progress : uint8_t { kForward, kInputGrad, kDone };

  RangeState(const RangeState&) = default;
  // The nodes of some layers, as indices into nodes_.
  std::pair<int, int> NodesOf(LayerRange layers) const;

  LayerRange layers_;
  DType compute_dtype_ = DType::kF32;
  int begin_node_ = 0;
  std::vector<int> layer_begin_;     // first node of each layer, relative to begin_node_; and end
  std::vector<SavedTensors> nodes_;  // one a node of the range
  std::vector<Progress> progress_;   // one a layer of the range
};

// In: `values` holds what the range reads of earlier layers' values and of external inputs (more is
// allowed); all of one batch size and of the values' types (else InvalidArgument names the value,
// and both shapes or types); on a GPU of so few samples that no result has 2^31 elements (else
// InvalidArgument names the layer and the most samples). Out: what the range computed and is live
// at range.end or is an output of the program has been added; what nobody reads any more has been
// dropped: kept are live values, outputs, and external inputs that layers from range.end on read.
// `state` is null where no backward pass will come (frozen components, inference), and is
// overwritten otherwise.
absl::Status Forward(const Program& program, LayerRange range, const ParameterSet& parameters,
                     const RunOptions& options, ValueMap* values, RangeState* state);

// In: `grads` holds, of program.GradientsAt(range.end) and of the outputs, the gradients of what
// the range computes, shaped and typed as the values, and of earlier layers' values those to which
// the range's contributions are to be added. Out: those of GradientsAt(range.begin) that the range
// reads or was given; the others dropped. `range` is a part of the state's range whose later layers
// have had theirs. FailedPrecondition where passes come out of order.
absl::Status InputGrad(const Program& program, LayerRange range, const ParameterSet& parameters,
                       RangeState* state, ValueMap* grads);

// Adds into the parameters' gradients, for layers that have had InputGrad, and frees what the state
// kept for them.
absl::Status WeightGrad(const Program& program, LayerRange range, ParameterSet* parameters,
                        RangeState* state);

// InputGrad and WeightGrad layer by layer, which keeps least in memory. The same bits.
absl::Status Backward(const Program& program, LayerRange range, ParameterSet* parameters,
                      RangeState* state, ValueMap* grads);

}  // namespace dpipe::nn

#endif  // DPIPE_CORE_NN_EXECUTION_H_
