// A node: one op with its parameters, as an edge of a Program's value graph.
//
// A node computes one value from others, in three passes that are separate calls, because schedules
// place them separately:
//
//   Forward      y from the inputs; leaves in `saved` what the backward passes need
//   InputGrad    the gradients of the inputs from y's; leaves in `saved` only what WeightGrad needs
//   WeightGrad   ADDS into the parameters' gradients; then or later; its `saved` is dropped after
//
// Nodes are immutable and hold no tensors: one node serves all ranks and micro-batches at once. No
// node mixes samples: row i of every output depends on row i of the inputs only.
#ifndef DPIPE_CORE_NN_NODE_H_
#define DPIPE_CORE_NN_NODE_H_

#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/base/status.h"
#include "core/ops/weight.h"
#include "core/tensor/tensor.h"

namespace dpipe::nn {

// The element type of a value. Activations and their gradients have the run's compute dtype (fp32
// or bf16); a few values have a fixed one (noise, losses: fp32; tokens, timesteps: int32).
enum class Element { kCompute, kF32, kI32 };

// kCompute becomes `compute_dtype`, the others what they say.
DType ResolveElement(Element element, DType compute_dtype);

// What is known of a value before any batch is. `shape` is that of one sample, without the batch
// dimension; a tensor of the value has the shape [batch, shape...].
struct ValueType {
  Shape shape;
  Element element = Element::kCompute;
};

// What one run of a node has kept, in slots whose meaning is the node's own affair. Tensors share
// storage with the values that they came from.
using SavedTensors = std::vector<Tensor>;

// What the three passes get besides tensors.
struct NodeContext {
  DType compute_dtype = DType::kF32;
  // The node's parameters, in the order in which it was added to the program.
  absl::Span<const ops::Weight* const> weights;
  // Their fp32 gradients, in WeightGrad only.
  absl::Span<Tensor* const> weight_grads;
  // False in layers that are not trainable: nothing need be saved for WeightGrad.
  bool wants_weight_grad = false;
  // Bit i: somebody needs the gradient of input i.
  uint32_t input_grad_mask = 0;
  // In InputGrad of nodes where AddsToGrad: what later readers of input 0 contribute to its
  // gradient; undefined where there are none.
  Tensor later_grad;

  bool WantsInputGrad(int i) const { return (input_grad_mask >> i) & 1u; }
  bool WantsAnyInputGrad() const { return input_grad_mask != 0; }
};

class Node {
 public:
  virtual ~Node() = default;

  virtual absl::string_view kind() const = 0;  // "conv2d", for summaries
  virtual ValueType output() const = 0;
  // Multiply-adds of one sample's forward pass in convolutions, linear layers and attention; other
  // ops count as nothing.
  virtual int64_t MultiplyAdds() const { return 0; }

  // The output has no gradient, whatever the inputs have.
  virtual bool stops_gradient() const { return false; }

  // InputGrad adds `later_grad` to the gradient of input 0 itself, which saves a pass over memory.
  virtual bool AddsToGrad() const { return false; }

  // `saved` is null where no backward pass will come.
  virtual absl::StatusOr<Tensor> Forward(const NodeContext& context,
                                         absl::Span<const Tensor> inputs,
                                         SavedTensors* saved) const = 0;

  // One gradient an input, in order, shaped and typed as it; undefined where not wanted.
  virtual absl::StatusOr<std::vector<Tensor>> InputGrad(const NodeContext& context,
                                                        SavedTensors* saved,
                                                        const Tensor& output_grad) const = 0;

  // Only nodes with parameters have one.
  virtual absl::Status WeightGrad(const NodeContext& context, SavedTensors* saved) const {
    return absl::OkStatus();
  }
};

}  // namespace dpipe::nn

#endif  // DPIPE_CORE_NN_NODE_H_
