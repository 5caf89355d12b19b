// Runs contiguous ranges of a Program's layers: forward, input gradients, weight gradients.
//
// Bit-identity: a program gives the same bits run whole as cut into any ranges, forward and
// backward. The contributions to a value's gradient are added one by one, from its last reader to
// its first. A range receives the sum over the readers behind it and adds its own, in that order.
// Everything runs on the calling thread, on the device of its tensors.
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

// Tensors that a forward pass of a range of layers saves for its backward passes. Each layer goes
// through Forward, InputGrad and WeightGrad; InputGrad runs from the last layer to the first.
class RangeState {
 public:
  RangeState() = default;
  RangeState(RangeState&&) = default;
  RangeState& operator=(RangeState&&) = default;

  LayerRange layers() const { return layers_; }
  // Bytes saved at present, by the whole range or a part of it. Storage that several tensors share
  // counts once per call.
  int64_t bytes() const { return bytes(layers_); }
  int64_t bytes(LayerRange layers) const;
  // True if all layers have completed all three passes.
  bool finished() const;

  // Returns the saved tensors of some layers, in order, undefined ones included.
  std::vector<Tensor> saved(LayerRange layers) const;
  // Returns another state of the same pass that shares this one's tensors.
  RangeState Share() const { return RangeState(*this); }
  // Gives `layers` the progress that they have in `other`, a state of the same range, and shares
  // its tensors.
  void ShareLayers(const RangeState& other, LayerRange layers);

 private:
  friend class RangeRunner;
  enum class Progress : uint8_t { kForward, kInputGrad, kDone };

  RangeState(const RangeState&) = default;
  // Returns the nodes of some layers as a half-open range of indices into nodes_.
  std::pair<int, int> NodesOf(LayerRange layers) const;

  LayerRange layers_;
  DType compute_dtype_ = DType::kF32;
  int begin_node_ = 0;
  std::vector<int> layer_begin_;     // first node per layer, relative to begin_node_; then the end
  std::vector<SavedTensors> nodes_;  // one per node of the range
  std::vector<Progress> progress_;   // one per layer of the range
};

// Runs the forward pass of `range`.
//
// On entry, `values` holds all earlier layers' values and external inputs that the range reads, and
// possibly others. On return, it holds the live values at range.end, the program's outputs, and the
// external inputs that layers from range.end on read; everything else is dropped.
//
// `state` is overwritten; pass null if no backward pass will follow (frozen components, inference).
//
// Returns InvalidArgument if inputs differ in batch size or do not have their values' types; the
// message names the value and both shapes or types. On a GPU, also returns InvalidArgument if a
// result would have 2^31 or more elements; the message names the layer and the maximum number of
// samples.
absl::Status Forward(const Program& program, LayerRange range, const ParameterSet& parameters,
                     const RunOptions& options, ValueMap* values, RangeState* state);

// Computes the gradients of the values that `range` reads.
//
// On entry, `grads` holds gradients with the shapes and types of their values:
// - for the range's values in program.GradientsAt(range.end) and the program's outputs: the sum
//   over later readers, or the caller's gradient;
// - for earlier layers' values, if present: the partial sums, to which the range adds.
// On return, it holds the gradients of GradientsAt(range.begin) that the range reads or was given;
// all others are dropped.
//
// `range` is a part of the state's range, and all later layers of the state must have completed
// InputGrad. Returns FailedPrecondition if passes come out of order.
absl::Status InputGrad(const Program& program, LayerRange range, const ParameterSet& parameters,
                       RangeState* state, ValueMap* grads);

// Adds to the parameters' gradients for layers that have completed InputGrad, and frees their saved
// tensors.
absl::Status WeightGrad(const Program& program, LayerRange range, ParameterSet* parameters,
                        RangeState* state);

// Runs InputGrad and WeightGrad layer by layer, which needs the least memory. Gives the same bits.
absl::Status Backward(const Program& program, LayerRange range, ParameterSet* parameters,
                      RangeState* state, ValueMap* grads);

}  // namespace dpipe::nn

#endif  // DPIPE_CORE_NN_EXECUTION_H_
