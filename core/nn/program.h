// A component of a model (a U-Net, a text encoder) as an immutable list of layers in SSA form.
//
// Values are named tensors whose leading dimension is the batch. External inputs come from outside;
// every other value is computed by exactly one node from earlier values. Nodes are grouped into
// *layers*, the smallest units that a planner places; a layer owns the parameters of its nodes. Any
// contiguous range of layers can be run on its own. Liveness determines the values that cross its
// two cuts, so a skip connection is just a value with a long live range.
//
// A *cut* c is the boundary between layers c-1 and c; 0 <= c <= num_layers().
#ifndef DPIPE_CORE_NN_PROGRAM_H_
#define DPIPE_CORE_NN_PROGRAM_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/base/range.h"
#include "core/base/strong_id.h"
#include "core/nn/node.h"

namespace dpipe::nn {

using ParameterId = StrongId<struct ParameterTag>;  // of a program
using NodeId = StrongId<struct NodeTag>;            // of a program, in execution order

enum class LayerKind {
  kTrainable,
  kFrozen,              // forward only: no gradient ever reaches it
  kFrozenWithGradient,  // gradients pass to its inputs; its weights get none
};

absl::string_view LayerKindName(LayerKind kind);  // "trainable", "frozen", "frozen_with_gradient"

// Initial value of a parameter if no checkpoint is loaded.
struct InitRule {
  enum class Kind { kZeros, kOnes, kUniform, kNormal };
  Kind kind = Kind::kZeros;
  float scale = 0;  // uniform in [-scale, scale); standard deviation of the normal

  static InitRule Zeros() { return {Kind::kZeros, 0}; }
  static InitRule Ones() { return {Kind::kOnes, 0}; }
  static InitRule Normal(float stddev) { return {Kind::kNormal, stddev}; }
  // PyTorch's default for weights and biases of linear layers and convolutions: kaiming_uniform(a =
  // sqrt(5)), which is uniform in +-1 / sqrt(fan_in).
  static InitRule FanIn(int64_t fan_in);
};

struct ParameterInfo {
  std::string name;  // as in the checkpoint: "down_blocks.0.resnets.0.conv1.weight"
  Shape shape;       // as in the checkpoint
  InitRule init;
  bool decay = true;  // true if weight decay applies (not to biases and norms)
  int layer = -1;
  bool trainable = true;  // false in frozen layers, and for some in trainable ones
  ops::WeightStorage storage = ops::WeightStorage::kFp32;  // see Program::StoreFrozen
};

struct ValueInfo {
  std::string name;
  ValueType type;
  NodeId producer;            // invalid (-1) for external inputs
  int layer = -1;             // layer that computes it; -1 for external inputs
  std::vector<NodeId> uses;   // nodes that read it, increasing, without duplicates
  int last_layer = -1;        // last layer that reads it; -1 if there is none
  bool is_output = false;     // true for outputs of the program
  bool has_gradient = false;  // float, with a trainable parameter upstream

  bool is_external() const { return layer < 0; }
};

struct NodeInfo {
  std::unique_ptr<const Node> node;
  std::vector<ValueId> inputs;
  ValueId output;
  std::vector<ParameterId> parameters;
  int layer = -1;
  uint32_t input_grad_mask = 0;    // inputs that need a gradient, as bits
  bool wants_weight_grad = false;  // has trainable parameters

  bool has_backward() const { return wants_weight_grad || input_grad_mask != 0; }
};

struct LayerInfo {
  std::string name;  // unique: "down_blocks.0.resnets.0.conv1"
  LayerKind kind = LayerKind::kTrainable;
  int begin_node = 0, end_node = 0;            // half-open
  int begin_parameter = 0, end_parameter = 0;  // half-open
};

class Program {
 public:
  Program(Program&&) = default;
  Program& operator=(Program&&) = default;

  const std::string& name() const { return name_; }
  int num_layers() const { return static_cast<int>(layers_.size()); }
  int num_values() const { return static_cast<int>(values_.size()); }
  int num_parameters() const { return static_cast<int>(parameters_.size()); }
  LayerRange all_layers() const { return {0, num_layers()}; }

  const LayerInfo& layer(int i) const { return layers_[i]; }
  const ValueInfo& value(ValueId id) const { return values_[id.value()]; }
  const NodeInfo& node(NodeId id) const { return nodes_[id.value()]; }
  const ParameterInfo& parameter(ParameterId id) const { return parameters_[id.value()]; }
  absl::Span<const ValueId> inputs() const { return inputs_; }    // external, in order of adding
  absl::Span<const ValueId> outputs() const { return outputs_; }  // in order of marking

  // Return the value with this name; die if there is none, because callers know the names.
  ValueId InputNamed(absl::string_view name) const;
  ValueId OutputNamed(absl::string_view name) const;
  // Returns -1 if there is no such layer.
  int FindLayer(absl::string_view name) const;

  // Values that a message between two stages carries: computed before the cut and read after it, in
  // ValueId order. External inputs are not included.
  const std::vector<ValueId>& LiveAt(int cut) const { return live_at_[cut]; }
  // The subset of LiveAt with gradients, which the message back carries.
  const std::vector<ValueId>& GradientsAt(int cut) const { return gradients_at_[cut]; }
  // External inputs that layers of the range read, in order.
  std::vector<ValueId> InputsReadBy(LayerRange range) const;
  // Outputs of the program that layers of the range compute, in order.
  std::vector<ValueId> OutputsOf(LayerRange range) const;

  // Parameters of the range, as a half-open range of ids (a layer's ids are contiguous).
  std::pair<int, int> ParameterRange(LayerRange range) const;
  // Keeps the parameters that are not trained, and that only convolutions and linear layers read,
  // in this type. Activations, gradients and all other parameters stay as they are.
  void StoreFrozen(ops::WeightStorage storage);

  // Bytes of the parameters as they are kept: in fp32, unless StoreFrozen says otherwise.
  int64_t ParameterBytes(LayerRange range) const;
  int64_t ParameterCount(LayerRange range) const;
  int64_t TrainableParameterCount(LayerRange range) const;
  // Returns the work of a node per sample, with compute dtype bf16.
  NodeWork Work(NodeId id) const;
  // Multiply-adds per sample of the forward pass in convolutions, linear layers and attention;
  // other ops count as zero.
  int64_t MultiplyAdds(LayerRange range) const;
  // Bytes of a value per sample.
  int64_t BytesPerSample(ValueId id, DType compute_dtype) const;
  // Returns the shape of a value for `batch` samples.
  Shape BatchShape(ValueId id, int64_t batch) const;

  // Returns several lines: counts, then one line per layer with name, kind, parameters,
  // multiply-adds, and the values that are live after it.
  std::string Summary() const;

 private:
  friend class ProgramBuilder;
  Program() = default;

  std::string name_;
  std::vector<LayerInfo> layers_;
  std::vector<ValueInfo> values_;
  std::vector<NodeInfo> nodes_;
  std::vector<ParameterInfo> parameters_;
  std::vector<ValueId> inputs_, outputs_;
  std::vector<std::vector<ValueId>> live_at_, gradients_at_;
};

}  // namespace dpipe::nn

#endif  // DPIPE_CORE_NN_PROGRAM_H_
