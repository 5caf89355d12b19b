// The work of one component of a model: its layers, the operations of each, and the values between
// them.
//
// An architecture is written once, as calls of Conv, Linear, Attention, ... in the order of the
// forward pass. The builder derives from shapes alone, per sample: multiply-adds and bytes moved of
// every operation's three passes, parameters, bytes kept for the backward pass, and the values that
// cross a cut between layers. There are no tensors.
//
// A layer keeps each value that its operations' gradients read, once. op_work.h has the rules by
// which work is counted.
#ifndef DPIPE_CORE_COST_ROOFLINE_COMPONENT_BUILDER_H_
#define DPIPE_CORE_COST_ROOFLINE_COMPONENT_BUILDER_H_

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "core/cost/roofline/modelled_profile.h"

namespace dpipe::roofline {

class ComponentBuilder {
 public:
  // A value: an index and the sizes of one sample. The last dimension is the channels. Images are
  // [height, width, channels], tokens [length, channels], vectors [channels].
  struct Value {
    int id = -1;
    std::vector<int64_t> dims;
    int64_t channels() const { return dims.back(); }
    int64_t positions() const;  // elements / channels
    int64_t elements() const { return positions() * channels(); }
  };

  ComponentBuilder(const std::string& name, bool is_backbone);

  // External inputs. `element_bytes` is 2 for activations, 4 for fp32 and ids.
  Value Input(const std::string& name, const std::vector<int64_t>& dims, int element_bytes);
  Value InputFrom(const std::string& name, const std::vector<int64_t>& dims, int element_bytes,
                  const std::string& component, const std::string& output);

  // Begins a layer. All following operations belong to it.
  void BeginLayer(const std::string& name, LayerKind kind);

  // 3x3 kernel, "same" padding, output size divided by `stride`; with bias.
  Value Conv(const Value& x, int64_t out, int stride = 1);
  Value Linear(const Value& x, int64_t out, bool bias = true);
  Value GroupNorm(const Value& x);  // with or without SiLU; a scale and a shift per channel
  Value LayerNorm(const Value& x);  // a scale and a shift per channel
  Value RmsNorm(const Value& x);    // a scale per channel
  Value HeadNorm(const Value& x, int64_t head_size);  // RMS over each head; one scale of head_size
  Value PlainNorm(const Value& x);                    // without parameters
  // q [T, C], k and v [S, C] -> [T, C].
  Value Attention(const Value& q, const Value& k, const Value& v);
  // Projects x [T, C] and context [S, C'] to width C separately, attends, and projects back.
  Value ProjectedAttention(const Value& x, const Value& context, bool qkv_bias);
  Value Activation(const Value& x);
  Value Gated(const Value& x);  // [.., 2C] -> [.., C]: one half gates the other
  Value Add(const Value& a, const Value& b);
  // Multiplies x by a vector and, if `shift`, adds another; both have [channels] per sample.
  Value Modulate(const Value& x, const Value& by, bool shift);
  Value Concat(const Value& a, const Value& b);        // along the channels
  Value ConcatTokens(const Value& a, const Value& b);  // along the positions
  // The part of x's positions or channels that `dims` describes; moves no bytes (a view).
  Value Slice(const Value& x, const std::vector<int64_t>& dims);
  Value Upsample2x(const Value& x);
  // ids [T] -> [T, width]. Looks up a table of `vocabulary` rows and, if `positions` is not 0, adds
  // rows of a second table with that many.
  Value Embedding(const Value& ids, int64_t vocabulary, int64_t positions, int64_t width);
  // Any elementwise function of `inputs` without gradient.
  Value Elementwise(const std::vector<Value>& inputs, const std::vector<int64_t>& dims,
                    int element_bytes);
  // One number per sample from the prediction and other inputs. Only the prediction gets a
  // gradient.
  Value Loss(const Value& prediction, const std::vector<Value>& others);

  // Makes `value` an output of the component, called `name`.
  void MarkOutput(const Value& value, const std::string& name, int element_bytes = 2);

  ComponentWork Build();

 private:
  struct ValueState {
    std::string name, source_component, source_value;
    int64_t bytes = 0;
    int layer = -1;
    int view_of = -1;  // the value whose memory it shares; -1: none
    bool has_gradient = false, is_output = false;
    std::set<int> consumers;  // layers other than its own
  };
  struct LayerState {
    std::string name;
    LayerKind kind = LAYER_KIND_UNSPECIFIED;
    int64_t parameters = 0;
    std::set<int> saved;  // values
    std::vector<OpWork> ops;
  };

  bool Trainable() const { return layers_.back().kind == TRAINABLE; }
  bool HasGradient(const Value& value) const { return values_[value.id].has_gradient; }
  int64_t Bytes(const Value& value) const { return values_[value.id].bytes; }
  Value NewValue(const std::string& name, const std::vector<int64_t>& dims, int element_bytes);
  // Registers an operation on `inputs` and returns its new value. The value has a gradient if an
  // input has one, or if the layer is trainable and `parameters` is not 0.
  Value Output(const std::vector<Value>& inputs, const std::vector<int64_t>& dims,
               int64_t parameters, const char* what, int element_bytes = 2);
  void Save(const Value& value) { layers_.back().saved.insert(value.id); }
  void AddOp(const OpWork& op) { layers_.back().ops.push_back(op); }
  Value Product(OpClass op_class, const Value& x, const std::vector<int64_t>& dims, int64_t macs,
                int64_t weights, int64_t biases);
  Value Norm(const Value& x, int64_t parameters);
  // One pass over `inputs` and the output, and one back over their gradients.
  Value Pointwise(const std::vector<Value>& inputs, const std::vector<int64_t>& dims,
                  const char* what, bool saves_inputs);

  std::string name_;
  bool is_backbone_;
  std::vector<ValueState> values_;
  std::vector<LayerState> layers_;
};

using Value = ComponentBuilder::Value;

}  // namespace dpipe::roofline

#endif  // DPIPE_CORE_COST_ROOFLINE_COMPONENT_BUILDER_H_
