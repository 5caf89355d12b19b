// A node: one op with its parameters, as an edge of a Program's value graph.
//
// A node computes one value from others, in three passes. Schedules place the passes separately, so
// each is a call of its own:
//
//   Forward      computes y from the inputs; saves the tensors that the backward passes need
//   InputGrad    computes the inputs' gradients from y's; then keeps only what WeightGrad needs
//   WeightGrad   ADDS into the parameters' gradients, at once or later; `saved` is dropped after it
//
// Nodes are immutable and hold no tensors: one node serves all ranks and micro-batches
// concurrently. No node mixes samples: row i of every output depends only on row i of the inputs.
#ifndef DPIPE_CORE_NN_NODE_H_
#define DPIPE_CORE_NN_NODE_H_

#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/base/status.h"
#include "core/cost/roofline/op_work.h"
#include "core/ops/product/weight.h"
#include "core/tensor/tensor.h"

namespace dpipe::nn {

// The element type of a value. Activations and their gradients have the run's compute dtype (fp32
// or bf16); a few values have a fixed one (noise, losses: fp32; tokens, timesteps: int32).
enum class Element { kCompute, kF32, kI32 };

// Returns `compute_dtype` for kCompute and the fixed type for the others.
DType ResolveElement(Element element, DType compute_dtype);

// Properties of a value that do not depend on the batch. `shape` is that of one sample, without the
// batch dimension; a tensor of the value has the shape [batch, shape...].
struct ValueType {
  Shape shape;
  Element element = Element::kCompute;
};

// Tensors that one run of a node has saved; each node defines the meaning of its slots. Tensors
// share storage with the values that they came from.
using SavedTensors = std::vector<Tensor>;

// Arguments of the three passes in addition to tensors.
struct NodeContext {
  DType compute_dtype = DType::kF32;
  // The node's parameters, in the order given when it was added to the program.
  absl::Span<const ops::Weight* const> weights;
  // Their fp32 gradients; set only in WeightGrad.
  absl::Span<Tensor* const> weight_grads;
  // False if the parameters are not trained: nothing need be saved for WeightGrad.
  bool wants_weight_grad = false;
  // Bit i is set if the gradient of input i is needed.
  uint32_t input_grad_mask = 0;
  // For InputGrad of nodes with AddsToGrad(): the sum of later readers' contributions to the
  // gradient of input 0; undefined if there are none.
  Tensor later_grad;

  bool WantsInputGrad(int i) const { return (input_grad_mask >> i) & 1u; }
  bool WantsAnyInputGrad() const { return input_grad_mask != 0; }
};

// The place of a node in a program, as far as its work depends on it. Bytes are per sample, with
// compute dtype bf16.
struct WorkContext {
  std::vector<int64_t> input_bytes;  // by input
  int64_t output_bytes = 0;
  uint32_t input_grad_mask = 0;  // see NodeContext
  bool wants_weight_grad = false;

  bool WantsInputGrad(int i) const { return (input_grad_mask >> i) & 1u; }
  roofline::Gradients gradients() const { return {WantsInputGrad(0), wants_weight_grad}; }
  int64_t read_bytes() const;      // sum of input_bytes
  int64_t gradient_bytes() const;  // of the inputs that need a gradient
};

// The work of a node for the cost model.
struct NodeWork {
  std::vector<roofline::OpWork> ops;  // none: the output shares the memory of input 0
  // Kept for the backward passes, if there are any: inputs as bits, the output, and other bytes per
  // sample. Statistics (moments of norms, sums of attention) are not counted.
  uint32_t saved_inputs = 0;
  bool saves_output = false;
  int64_t saved_bytes = 0;
};

class Node {
 public:
  virtual ~Node() = default;

  virtual absl::string_view kind() const = 0;  // "conv2d", for summaries
  virtual ValueType output() const = 0;
  // Returns what the passes compute and move, and keep between them. The default is an elementwise
  // op whose backward pass needs no value of the forward pass.
  virtual NodeWork Work(const WorkContext& context) const;

  // True if the output has no gradient, even if inputs have one.
  virtual bool stops_gradient() const { return false; }

  // True if parameter i may be kept in another type than fp32 (ops::WeightStorage) when it is not
  // trained.
  virtual bool DecodesWeight(int i) const { return false; }

  // True if InputGrad itself adds `later_grad` to the gradient of input 0, which saves a pass over
  // memory.
  virtual bool AddsToGrad() const { return false; }

  // `saved` is null if no backward pass will follow.
  virtual absl::StatusOr<Tensor> Forward(const NodeContext& context,
                                         absl::Span<const Tensor> inputs,
                                         SavedTensors* saved) const = 0;

  // Returns one gradient per input, in order, with the input's shape and type; undefined if not
  // needed.
  virtual absl::StatusOr<std::vector<Tensor>> InputGrad(const NodeContext& context,
                                                        SavedTensors* saved,
                                                        const Tensor& output_grad) const = 0;

  // Overridden only by nodes with parameters.
  virtual absl::Status WeightGrad(const NodeContext& context, SavedTensors* saved) const {
    return absl::OkStatus();
  }
};

}  // namespace dpipe::nn

#endif  // DPIPE_CORE_NN_NODE_H_
