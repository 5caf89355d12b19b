#include "core/nn/execution.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/ops/elementwise/elementwise.h"

namespace dpipe::nn {
namespace {

absl::Status InLayer(const Program& program, const NodeInfo& node, const absl::Status& status) {
  return absl::Status(status.code(),
                      absl::StrCat(program.name(), ", layer '", program.layer(node.layer).name,
                                   "', ", node.node->kind(), ": ", status.message()));
}

// Returns InvalidArgument unless the tensor is a batch of the value.
absl::Status CheckTensor(const Program& program, ValueId id, const Tensor& tensor, int64_t batch,
                         DType compute_dtype, absl::string_view what) {
  const ValueInfo& value = program.value(id);
  const DType dtype = ResolveElement(value.type.element, compute_dtype);
  const Shape shape = program.BatchShape(id, batch);
  if (tensor.shape() == shape && tensor.dtype() == dtype) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      program.name(), ": ", what, " '", value.name, "' is ", DTypeName(tensor.dtype()), " ",
      tensor.shape().ToString(), ", expected ", DTypeName(dtype), " ", shape.ToString()));
}

// Our kernels count elements in 64 bits. It is unverified that all engines of cuDNN do.
constexpr int64_t kMaxElementsOnGpu = (int64_t{1} << 31) - 1;

// Returns InvalidArgument if the node's result would have more elements than we pass to a GPU's
// libraries.
absl::Status CheckCountable(const Program& program, const NodeInfo& node, const Tensor& input) {
  if (input.device()->kind() != DeviceKind::kCuda || input.shape().rank() == 0) {
    return absl::OkStatus();
  }
  const int64_t batch = input.dim(0);
  const int64_t elements = program.BatchShape(node.output, batch).num_elements();
  if (elements <= kMaxElementsOnGpu) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      batch, " samples give ", elements, " elements, but GPUs support at most ", kMaxElementsOnGpu,
      "; run at most ", kMaxElementsOnGpu / (elements / batch), " samples at a time"));
}

// A node's context, with the storage of the pointers in its spans.
class BoundContext {
 public:
  BoundContext(const NodeInfo& node, const ParameterSet& parameters, DType compute_dtype) {
    for (ParameterId id : node.parameters) weights_.push_back(&parameters.weight(id));
    context_.compute_dtype = compute_dtype;
    context_.weights = weights_;
    context_.wants_weight_grad = node.wants_weight_grad;
    context_.input_grad_mask = node.input_grad_mask;
  }
  BoundContext(const BoundContext&) = delete;
  BoundContext& operator=(const BoundContext&) = delete;

  void BindLaterGrad(Tensor later_grad) { context_.later_grad = std::move(later_grad); }
  void BindGrads(const NodeInfo& node, ParameterSet* parameters) {
    for (ParameterId id : node.parameters) grads_.push_back(parameters->grad(id));
    context_.weight_grads = grads_;
  }
  const NodeContext& get() const { return context_; }

 private:
  absl::InlinedVector<const ops::Weight*, 4> weights_;
  absl::InlinedVector<Tensor*, 4> grads_;
  NodeContext context_;
};

}  // namespace

// Implements the passes; has access to a RangeState's internals.
class RangeRunner {
 public:
  RangeRunner(const Program& program, DType compute_dtype)
      : program_(program), compute_dtype_(compute_dtype) {}

  static DType compute_dtype(const RangeState& state) { return state.compute_dtype_; }
  void Start(LayerRange range, RangeState* state) const;
  absl::Status CheckInputs(LayerRange range, const ValueMap& values) const;
  absl::Status Forward(LayerRange range, const ParameterSet& parameters, ValueMap* values,
                       RangeState* state) const;
  absl::Status CheckGrads(LayerRange range, const RangeState& state, const ValueMap& grads) const;
  absl::Status InputGrad(int layer, const ParameterSet& parameters, RangeState* state,
                         ValueMap* grads) const;
  absl::Status WeightGrad(int layer, ParameterSet* parameters, RangeState* state) const;

 private:
  const NodeInfo& node(int i) const { return program_.node(NodeId(i)); }
  bool ReadsValue(LayerRange range, ValueId id) const;
  static SavedTensors* saved(RangeState* state, int node) {
    return &state->nodes_[node - state->begin_node_];
  }
  absl::Status ForwardNode(int i, const ParameterSet& parameters, ValueMap* values,
                           SavedTensors* saved) const;
  absl::Status InputGradNode(int i, const ParameterSet& parameters, SavedTensors* saved,
                             ValueMap* grads) const;
  // Adds a contribution to the gradient of a value.
  static absl::Status Accumulate(ValueId value, Tensor contribution, ValueMap* grads);

  const Program& program_;
  DType compute_dtype_;
};

void RangeRunner::Start(LayerRange range, RangeState* state) const {
  *state = RangeState();
  state->layers_ = range;
  state->compute_dtype_ = compute_dtype_;
  state->begin_node_ = range.empty() ? 0 : program_.layer(range.begin).begin_node;
  for (int i = range.begin; i < range.end; ++i) {
    state->layer_begin_.push_back(program_.layer(i).begin_node - state->begin_node_);
  }
  const int end = range.empty() ? 0 : program_.layer(range.end - 1).end_node - state->begin_node_;
  state->layer_begin_.push_back(end);
  state->nodes_.resize(end);
  state->progress_.assign(range.size(), RangeState::Progress::kForward);
}

bool RangeRunner::ReadsValue(LayerRange range, ValueId id) const {
  if (range.empty()) return false;
  const std::vector<NodeId>& uses = program_.value(id).uses;
  const auto first =
      std::lower_bound(uses.begin(), uses.end(), NodeId(program_.layer(range.begin).begin_node));
  return first != uses.end() && first->value() < program_.layer(range.end - 1).end_node;
}

absl::Status RangeRunner::CheckInputs(LayerRange range, const ValueMap& values) const {
  int64_t batch = -1;
  const auto check = [&](ValueId id) -> absl::Status {
    const auto it = values.find(id);
    if (it == values.end() || !it->second.defined()) {
      return absl::InvalidArgumentError(absl::StrCat(program_.name(), ", layers ", range.ToString(),
                                                     ": value '", program_.value(id).name,
                                                     "' is missing"));
    }
    if (batch < 0 && it->second.shape().rank() > 0) batch = it->second.dim(0);
    return CheckTensor(program_, id, it->second, batch, compute_dtype_, "value");
  };
  for (ValueId id : program_.InputsReadBy(range)) DPIPE_RETURN_IF_ERROR(check(id));
  for (ValueId id : program_.LiveAt(range.begin)) {
    if (ReadsValue(range, id)) DPIPE_RETURN_IF_ERROR(check(id));
  }
  return absl::OkStatus();
}

absl::Status RangeRunner::ForwardNode(int i, const ParameterSet& parameters, ValueMap* values,
                                      SavedTensors* saved) const {
  const NodeInfo& info = node(i);
  absl::InlinedVector<Tensor, 4> inputs;
  for (ValueId id : info.inputs) inputs.push_back(values->at(id));
  if (!inputs.empty()) {
    const absl::Status countable = CheckCountable(program_, info, inputs[0]);
    if (!countable.ok()) return InLayer(program_, info, countable);
  }
  // Values without further readers are dropped here, so that they are freed when the node is done.
  for (ValueId id : info.inputs) {
    const ValueInfo& value = program_.value(id);
    if (value.uses.back() == NodeId(i) && !value.is_output) values->erase(id);
  }
  const BoundContext context(info, parameters, compute_dtype_);
  auto y = info.node->Forward(context.get(), inputs, info.has_backward() ? saved : nullptr);
  if (!y.ok()) return InLayer(program_, info, y.status());
  (*values)[info.output] = *std::move(y);
  return absl::OkStatus();
}

absl::Status RangeRunner::Forward(LayerRange range, const ParameterSet& parameters,
                                  ValueMap* values, RangeState* state) const {
  for (int layer = range.begin; layer < range.end; ++layer) {
    const LayerInfo& info = program_.layer(layer);
    for (int i = info.begin_node; i < info.end_node; ++i) {
      DPIPE_RETURN_IF_ERROR(
          ForwardNode(i, parameters, values, state == nullptr ? nullptr : saved(state, i)));
    }
  }
  for (auto it = values->begin(); it != values->end();) {
    const ValueInfo& value = program_.value(it->first);
    const bool kept = value.last_layer >= range.end || value.is_output;
    it = kept ? std::next(it) : values->erase(it);
  }
  return absl::OkStatus();
}

absl::Status RangeRunner::CheckGrads(LayerRange range, const RangeState& state,
                                     const ValueMap& grads) const {
  if (!state.layers_.Contains(range)) {
    return absl::FailedPreconditionError(
        absl::StrCat("input gradients of layers ", range.ToString(),
                     ", but the state covers layers ", state.layers_.ToString()));
  }
  for (int layer = range.begin; layer < state.layers_.end; ++layer) {
    const bool done =
        state.progress_[layer - state.layers_.begin] != RangeState::Progress::kForward;
    if (done == (layer < range.end)) {
      return absl::FailedPreconditionError(
          absl::StrCat("input gradients of layers ", range.ToString(), ": layer ", layer,
                       done ? " already has its input gradients" : " has no input gradients yet"));
    }
  }
  int64_t batch = -1;
  const auto check = [&](ValueId id) -> absl::Status {
    const auto it = grads.find(id);
    if (it == grads.end() || !it->second.defined()) {
      return absl::InvalidArgumentError(absl::StrCat(program_.name(), ", layers ", range.ToString(),
                                                     ": the gradient of '", program_.value(id).name,
                                                     "' is missing"));
    }
    if (batch < 0) batch = it->second.dim(0);
    return CheckTensor(program_, id, it->second, batch, compute_dtype_, "gradient of");
  };
  for (ValueId id : program_.GradientsAt(range.end)) {
    if (program_.value(id).layer >= range.begin || grads.count(id) > 0) {
      DPIPE_RETURN_IF_ERROR(check(id));
    }
  }
  for (ValueId id : program_.OutputsOf(range)) {
    if (program_.value(id).has_gradient) DPIPE_RETURN_IF_ERROR(check(id));
  }
  return absl::OkStatus();
}

absl::Status RangeRunner::Accumulate(ValueId value, Tensor contribution, ValueMap* grads) {
  DPIPE_CHECK(contribution.defined()) << "no gradient of value " << value;
  const auto [it, inserted] = grads->emplace(value, contribution);
  if (inserted) return absl::OkStatus();
  // Not in place: gradients may share storage (a sum hands its own to both of its inputs).
  DPIPE_ASSIGN_OR_RETURN(it->second, ops::Add(it->second, contribution));
  return absl::OkStatus();
}

absl::Status RangeRunner::InputGradNode(int i, const ParameterSet& parameters, SavedTensors* saved,
                                        ValueMap* grads) const {
  const NodeInfo& info = node(i);
  const auto it = grads->find(info.output);
  DPIPE_CHECK(it != grads->end()) << program_.value(info.output).name;
  const Tensor output_grad = std::move(it->second);
  grads->erase(it);
  BoundContext context(info, parameters, compute_dtype_);
  if (info.node->AddsToGrad() && context.get().WantsInputGrad(0)) {
    const auto later = grads->find(info.inputs[0]);
    if (later != grads->end()) {
      context.BindLaterGrad(std::move(later->second));
      grads->erase(later);
    }
  }
  DPIPE_ASSIGN_OR_RETURN(std::vector<Tensor> input_grads,
                         info.node->InputGrad(context.get(), saved, output_grad));
  DPIPE_CHECK_EQ(input_grads.size(), info.inputs.size());
  if (!info.wants_weight_grad) *saved = SavedTensors();
  for (size_t k = 0; k < info.inputs.size(); ++k) {
    if (!context.get().WantsInputGrad(static_cast<int>(k))) continue;
    DPIPE_RETURN_IF_ERROR(Accumulate(info.inputs[k], std::move(input_grads[k]), grads));
  }
  return absl::OkStatus();
}

absl::Status RangeRunner::InputGrad(int layer, const ParameterSet& parameters, RangeState* state,
                                    ValueMap* grads) const {
  const LayerInfo& info = program_.layer(layer);
  for (int i = info.end_node - 1; i >= info.begin_node; --i) {
    if (!node(i).has_backward()) continue;
    const absl::Status status = InputGradNode(i, parameters, saved(state, i), grads);
    if (!status.ok()) return InLayer(program_, node(i), status);
  }
  state->progress_[layer - state->layers_.begin] = RangeState::Progress::kInputGrad;
  return absl::OkStatus();
}

absl::Status RangeRunner::WeightGrad(int layer, ParameterSet* parameters, RangeState* state) const {
  RangeState::Progress& progress = state->progress_[layer - state->layers_.begin];
  if (progress != RangeState::Progress::kInputGrad) {
    return absl::FailedPreconditionError(absl::StrCat(
        "weight gradients of layer ", layer,
        progress == RangeState::Progress::kDone ? " twice" : " before its input gradients"));
  }
  const LayerInfo& info = program_.layer(layer);
  for (int i = info.end_node - 1; i >= info.begin_node; --i) {
    if (!node(i).wants_weight_grad) continue;
    BoundContext context(node(i), *parameters, compute_dtype_);
    context.BindGrads(node(i), parameters);
    const absl::Status status = node(i).node->WeightGrad(context.get(), saved(state, i));
    if (!status.ok()) return InLayer(program_, node(i), status);
    *saved(state, i) = SavedTensors();
  }
  progress = RangeState::Progress::kDone;
  return absl::OkStatus();
}

int64_t RangeState::bytes(LayerRange layers) const {
  std::set<const void*> seen;
  int64_t sum = 0;
  for (const Tensor& tensor : saved(layers)) {
    if (tensor.defined() && seen.insert(tensor.raw_data()).second) sum += tensor.size_bytes();
  }
  return sum;
}

std::pair<int, int> RangeState::NodesOf(LayerRange layers) const {
  const LayerRange part = layers_.Intersect(layers);
  if (part.empty()) return {0, 0};
  return {layer_begin_[part.begin - layers_.begin], layer_begin_[part.end - layers_.begin]};
}

std::vector<Tensor> RangeState::saved(LayerRange layers) const {
  std::vector<Tensor> tensors;
  const auto [begin, end] = NodesOf(layers);
  for (int i = begin; i < end; ++i) {
    tensors.insert(tensors.end(), nodes_[i].begin(), nodes_[i].end());
  }
  return tensors;
}

void RangeState::ShareLayers(const RangeState& other, LayerRange layers) {
  DPIPE_CHECK(layers_ == other.layers_ && layers_.Contains(layers)) << layers.ToString();
  const auto [begin, end] = NodesOf(layers);
  std::copy(other.nodes_.begin() + begin, other.nodes_.begin() + end, nodes_.begin() + begin);
  for (int i = layers.begin - layers_.begin; i < layers.end - layers_.begin; ++i) {
    progress_[i] = other.progress_[i];
  }
}

bool RangeState::finished() const {
  for (Progress progress : progress_) {
    if (progress != Progress::kDone) return false;
  }
  return true;
}

absl::Status Forward(const Program& program, LayerRange range, const ParameterSet& parameters,
                     const RunOptions& options, ValueMap* values, RangeState* state) {
  DPIPE_CHECK(parameters.Fits(program, range))
      << "parameters of " << parameters.program().name() << ", layers "
      << parameters.layers().ToString() << " for " << program.name() << ", layers "
      << range.ToString();
  const RangeRunner runner(program, options.compute_dtype);
  DPIPE_RETURN_IF_ERROR(runner.CheckInputs(range, *values));
  if (state != nullptr) runner.Start(range, state);
  return runner.Forward(range, parameters, values, state);
}

namespace {

// Drops gradients of values that the range itself computed.
void DropRangeGradients(const Program& program, LayerRange range, ValueMap* grads) {
  for (auto it = grads->begin(); it != grads->end();) {
    it = program.value(it->first).layer < range.begin ? std::next(it) : grads->erase(it);
  }
}

}  // namespace

absl::Status InputGrad(const Program& program, LayerRange range, const ParameterSet& parameters,
                       RangeState* state, ValueMap* grads) {
  const RangeRunner runner(program, RangeRunner::compute_dtype(*state));
  DPIPE_RETURN_IF_ERROR(runner.CheckGrads(range, *state, *grads));
  for (int layer = range.end - 1; layer >= range.begin; --layer) {
    DPIPE_RETURN_IF_ERROR(runner.InputGrad(layer, parameters, state, grads));
  }
  DropRangeGradients(program, range, grads);
  return absl::OkStatus();
}

absl::Status WeightGrad(const Program& program, LayerRange range, ParameterSet* parameters,
                        RangeState* state) {
  if (!state->layers().Contains(range)) {
    return absl::FailedPreconditionError(
        absl::StrCat("weight gradients of layers ", range.ToString(),
                     ", but the state covers layers ", state->layers().ToString()));
  }
  const RangeRunner runner(program, RangeRunner::compute_dtype(*state));
  for (int layer = range.end - 1; layer >= range.begin; --layer) {
    DPIPE_RETURN_IF_ERROR(runner.WeightGrad(layer, parameters, state));
  }
  return absl::OkStatus();
}

absl::Status Backward(const Program& program, LayerRange range, ParameterSet* parameters,
                      RangeState* state, ValueMap* grads) {
  const RangeRunner runner(program, RangeRunner::compute_dtype(*state));
  DPIPE_RETURN_IF_ERROR(runner.CheckGrads(range, *state, *grads));
  for (int layer = range.end - 1; layer >= range.begin; --layer) {
    DPIPE_RETURN_IF_ERROR(runner.InputGrad(layer, *parameters, state, grads));
    DPIPE_RETURN_IF_ERROR(runner.WeightGrad(layer, parameters, state));
  }
  DropRangeGradients(program, range, grads);
  return absl::OkStatus();
}

}  // namespace dpipe::nn
