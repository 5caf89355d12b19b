#include "core/nn/nodes/embedding_nodes.h"

#include <memory>
#include <utility>

#include "core/base/check.h"
#include "core/ops/embedding/embedding.h"

namespace dpipe::nn {
namespace {

// Keeps the ids for the tables' gradients.
NodeWork WorkOfLookup(const WorkContext& context) {
  NodeWork work;
  work.ops = {roofline::LookupWork(context.output_bytes, context.wants_weight_grad)};
  work.saved_inputs = 1;
  return work;
}

class TokenEmbeddingNode : public Node {
 public:
  explicit TokenEmbeddingNode(const Shape& y) : y_(y) {}

  absl::string_view kind() const override { return "embedding"; }
  ValueType output() const override { return {y_, Element::kCompute}; }
  NodeWork Work(const WorkContext& context) const override { return WorkOfLookup(context); }

  absl::StatusOr<Tensor> Forward(const NodeContext& context, absl::Span<const Tensor> inputs,
                                 SavedTensors* saved) const override {
    if (saved != nullptr) *saved = {inputs[0]};
    const bool has_positions = context.weights.size() == 2;
    return ops::EmbeddingForward(inputs[0], context.weights[0]->master(),
                                 has_positions ? context.weights[1]->master() : Tensor(),
                                 context.compute_dtype);
  }

  absl::StatusOr<std::vector<Tensor>> InputGrad(const NodeContext&, SavedTensors* saved,
                                                const Tensor& dy) const override {
    saved->push_back(dy);
    return std::vector<Tensor>(1);
  }

  absl::Status WeightGrad(const NodeContext& context, SavedTensors* saved) const override {
    const bool has_positions = context.weight_grads.size() == 2;
    return ops::EmbeddingWeightGrad((*saved)[0], (*saved)[1], context.weight_grads[0],
                                    has_positions ? context.weight_grads[1] : nullptr);
  }

 private:
  const Shape y_;
};

class LabelEmbeddingNode : public Node {
 public:
  explicit LabelEmbeddingNode(int64_t width) : width_(width) {}

  absl::string_view kind() const override { return "label_embedding"; }
  ValueType output() const override { return {Shape({width_}), Element::kCompute}; }
  NodeWork Work(const WorkContext& context) const override { return WorkOfLookup(context); }

  // To the op, a label is a token: one per sample.
  absl::StatusOr<Tensor> Forward(const NodeContext& context, absl::Span<const Tensor> inputs,
                                 SavedTensors* saved) const override {
    const Tensor ids = inputs[0].Reshape({inputs[0].dim(0), 1});
    if (saved != nullptr) *saved = {ids};
    DPIPE_ASSIGN_OR_RETURN(const Tensor y, ops::EmbeddingForward(ids, context.weights[0]->master(),
                                                                 Tensor(), context.compute_dtype));
    return y.Reshape({ids.dim(0), width_});
  }

  absl::StatusOr<std::vector<Tensor>> InputGrad(const NodeContext&, SavedTensors* saved,
                                                const Tensor& dy) const override {
    saved->push_back(dy.Reshape({dy.dim(0), 1, width_}));
    return std::vector<Tensor>(1);
  }

  absl::Status WeightGrad(const NodeContext& context, SavedTensors* saved) const override {
    return ops::EmbeddingWeightGrad((*saved)[0], (*saved)[1], context.weight_grads[0], nullptr);
  }

 private:
  const int64_t width_;
};

class RelativeBiasNode : public Node {
 public:
  RelativeBiasNode(const ops::RelativeBiasParams& params, int64_t heads)
      : params_(params), bias_({heads, params.queries + params.keys - 1}) {}

  absl::string_view kind() const override { return "relative_bias"; }
  ValueType output() const override { return {bias_, Element::kF32}; }
  NodeWork Work(const WorkContext& context) const override {
    NodeWork work = WorkOfLookup(context);
    work.saved_inputs = 0;
    return work;
  }

  absl::StatusOr<Tensor> Forward(const NodeContext& context, absl::Span<const Tensor> inputs,
                                 SavedTensors*) const override {
    return ops::RelativeBiasForward(params_, inputs[0].dim(0), context.weights[0]->master());
  }

  absl::StatusOr<std::vector<Tensor>> InputGrad(const NodeContext&, SavedTensors* saved,
                                                const Tensor& dy) const override {
    *saved = {dy};
    return std::vector<Tensor>(1);
  }

  absl::Status WeightGrad(const NodeContext& context, SavedTensors* saved) const override {
    return ops::RelativeBiasWeightGrad(params_, (*saved)[0], context.weight_grads[0]);
  }

 private:
  const ops::RelativeBiasParams params_;
  const Shape bias_;
};

class SelectTokenNode : public Node {
 public:
  SelectTokenNode(std::optional<int32_t> token, int64_t width) : token_(token), width_(width) {}

  absl::string_view kind() const override { return "select_token"; }
  ValueType output() const override { return {Shape({width_}), Element::kCompute}; }
  NodeWork Work(const WorkContext& context) const override {
    NodeWork work;
    work.ops = {roofline::ElementwiseWork(context.output_bytes, context.output_bytes,
                                          context.WantsInputGrad(0) ? context.input_bytes[0] : 0,
                                          /*rereads=*/false)};
    work.saved_inputs = 0b10;
    return work;
  }

  absl::StatusOr<Tensor> Forward(const NodeContext&, absl::Span<const Tensor> inputs,
                                 SavedTensors* saved) const override {
    if (saved != nullptr) *saved = {inputs[1]};
    return ops::SelectTokenForward(token_, inputs[1], inputs[0]);
  }

  absl::StatusOr<std::vector<Tensor>> InputGrad(const NodeContext&, SavedTensors* saved,
                                                const Tensor& dy) const override {
    DPIPE_ASSIGN_OR_RETURN(Tensor dx, ops::SelectTokenInputGrad(token_, (*saved)[0], dy));
    return std::vector<Tensor>{std::move(dx), Tensor()};
  }

 private:
  const std::optional<int32_t> token_;
  const int64_t width_;
};

class TimeEmbeddingNode : public Node {
 public:
  TimeEmbeddingNode(const ops::TimeEmbeddingParams& params, int64_t count)
      : params_(params), count_(count) {}

  absl::string_view kind() const override { return "time_embedding"; }
  ValueType output() const override { return {Shape({count_ * params_.dim}), Element::kCompute}; }

  absl::StatusOr<Tensor> Forward(const NodeContext& context, absl::Span<const Tensor> inputs,
                                 SavedTensors*) const override {
    const Tensor& numbers = inputs[0];
    DPIPE_ASSIGN_OR_RETURN(const Tensor sinusoids,
                           ops::TimeEmbedding(params_, numbers.Reshape({numbers.num_elements()}),
                                              context.compute_dtype));
    return sinusoids.Reshape({numbers.dim(0), count_ * params_.dim});
  }

  absl::StatusOr<std::vector<Tensor>> InputGrad(const NodeContext&, SavedTensors*,
                                                const Tensor&) const override {
    return absl::InternalError("timesteps have no gradient");
  }

 private:
  const ops::TimeEmbeddingParams params_;
  const int64_t count_;
};

}  // namespace

ValueId AddTokenEmbedding(ProgramBuilder* builder, ValueId ids, const TokenEmbeddingSpec& spec) {
  const Shape shape = builder->shape(ids);
  DPIPE_CHECK_EQ(shape.rank(), 1);
  std::vector<ParameterId> parameters = {
      builder->AddParameter(spec.table_name, Shape({spec.vocabulary, spec.width}),
                            InitRule::Normal(spec.deviation), true)};
  if (!spec.positions_name.empty()) {
    DPIPE_CHECK_LE(shape[0], spec.positions);
    parameters.push_back(builder->AddParameter(spec.positions_name,
                                               Shape({spec.positions, spec.width}),
                                               InitRule::Normal(spec.positions_deviation), true));
  }
  return builder->AddNode(std::make_unique<TokenEmbeddingNode>(Shape({shape[0], spec.width})),
                          {ids}, parameters);
}

ValueId AddLabelEmbedding(ProgramBuilder* builder, const std::string& name, ValueId label,
                          int64_t classes, int64_t width) {
  DPIPE_CHECK_EQ(builder->shape(label).rank(), 0);
  const ParameterId table = builder->AddParameter(name + ".weight", Shape({classes, width}),
                                                  InitRule::Normal(1.0f), true);
  return builder->AddNode(std::make_unique<LabelEmbeddingNode>(width), {label}, {table});
}

ValueId AddRelativeBias(ProgramBuilder* builder, const std::string& name, ValueId ids,
                        int64_t heads, const ops::RelativeBiasParams& params) {
  DPIPE_CHECK(builder->type(ids).element == Element::kI32) << name << ": ids have a gradient";
  const ParameterId table = builder->AddParameter(
      name + ".weight", Shape({params.num_buckets, heads}), InitRule::Normal(0.05f), true);
  return builder->AddNode(std::make_unique<RelativeBiasNode>(params, heads), {ids}, {table});
}

ValueId AddSelectToken(ProgramBuilder* builder, ValueId x, ValueId ids,
                       std::optional<int32_t> token) {
  DPIPE_CHECK_EQ(builder->shape(x).rank(), 2);
  DPIPE_CHECK_EQ(builder->shape(ids), (Shape{builder->shape(x)[0]}));
  return builder->AddNode(std::make_unique<SelectTokenNode>(token, builder->shape(x)[1]), {x, ids});
}

ValueId AddTimeEmbedding(ProgramBuilder* builder, ValueId timesteps,
                         const ops::TimeEmbeddingParams& params) {
  const Shape shape = builder->shape(timesteps);
  DPIPE_CHECK_LE(shape.rank(), 1);
  return builder->AddNode(std::make_unique<TimeEmbeddingNode>(params, shape.num_elements()),
                          {timesteps});
}

namespace {

class RotaryEmbeddingNode : public Node {
 public:
  RotaryEmbeddingNode(const ops::RotaryParams& params, ValueType output)
      : params_(params), output_(std::move(output)) {}

  absl::string_view kind() const override { return "rotary_embedding"; }
  ValueType output() const override { return output_; }

  absl::StatusOr<Tensor> Forward(const NodeContext&, absl::Span<const Tensor> inputs,
                                 SavedTensors*) const override {
    return ops::RotaryEmbeddingForward(params_, inputs[0]);
  }

  absl::StatusOr<std::vector<Tensor>> InputGrad(const NodeContext&, SavedTensors*,
                                                const Tensor& dy) const override {
    DPIPE_ASSIGN_OR_RETURN(Tensor dx, ops::RotaryEmbeddingInputGrad(params_, dy));
    return std::vector<Tensor>{std::move(dx)};
  }

 private:
  const ops::RotaryParams params_;
  const ValueType output_;
};

class PositionTableNode : public Node {
 public:
  PositionTableNode(const ops::PositionTableParams& params, ValueType output)
      : params_(params), output_(std::move(output)) {}

  absl::string_view kind() const override { return "position_table"; }
  ValueType output() const override { return output_; }
  NodeWork Work(const WorkContext& context) const override {
    NodeWork work;  // hands its gradient on
    work.ops = {roofline::ElementwiseWork(context.read_bytes(), context.output_bytes,
                                          /*gradient_bytes=*/0, /*rereads=*/false)};
    return work;
  }

  absl::StatusOr<Tensor> Forward(const NodeContext&, absl::Span<const Tensor> inputs,
                                 SavedTensors*) const override {
    return ops::AddPositionTable(params_, inputs[0]);
  }

  absl::StatusOr<std::vector<Tensor>> InputGrad(const NodeContext&, SavedTensors*,
                                                const Tensor& dy) const override {
    return std::vector<Tensor>{dy};
  }

 private:
  const ops::PositionTableParams params_;
  const ValueType output_;
};

}  // namespace

ValueId AddRotaryEmbedding(ProgramBuilder* builder, ValueId x, const ops::RotaryParams& params) {
  const Shape shape = builder->shape(x);
  DPIPE_CHECK_EQ(shape.rank(), 2);
  DPIPE_CHECK_EQ(shape[1] % params.head_size(), 0) << "heads of " << params.head_size();
  return builder->AddNode(std::make_unique<RotaryEmbeddingNode>(params, builder->type(x)), {x});
}

ValueId AddPositionTable(ProgramBuilder* builder, ValueId x,
                         const ops::PositionTableParams& params) {
  const Shape shape = builder->shape(x);
  DPIPE_CHECK_EQ(shape[0], params.rows * params.columns);
  DPIPE_CHECK_EQ(shape[1] % 4, 0);
  return builder->AddNode(std::make_unique<PositionTableNode>(params, builder->type(x)), {x});
}

}  // namespace dpipe::nn
