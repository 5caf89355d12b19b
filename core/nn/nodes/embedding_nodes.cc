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
    return ops::EmbeddingForward(inputs[0], context.weights[0]->master(),
                                 context.weights[1]->master(), context.compute_dtype);
  }

  absl::StatusOr<std::vector<Tensor>> InputGrad(const NodeContext&, SavedTensors* saved,
                                                const Tensor& dy) const override {
    saved->push_back(dy);
    return std::vector<Tensor>(1);
  }

  absl::Status WeightGrad(const NodeContext& context, SavedTensors* saved) const override {
    return ops::EmbeddingWeightGrad((*saved)[0], (*saved)[1], context.weight_grads[0],
                                    context.weight_grads[1]);
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

class TimeEmbeddingNode : public Node {
 public:
  explicit TimeEmbeddingNode(const ops::TimeEmbeddingParams& params) : params_(params) {}

  absl::string_view kind() const override { return "time_embedding"; }
  ValueType output() const override { return {Shape({params_.dim}), Element::kCompute}; }

  absl::StatusOr<Tensor> Forward(const NodeContext& context, absl::Span<const Tensor> inputs,
                                 SavedTensors*) const override {
    return ops::TimeEmbedding(params_, inputs[0], context.compute_dtype);
  }

  absl::StatusOr<std::vector<Tensor>> InputGrad(const NodeContext&, SavedTensors*,
                                                const Tensor&) const override {
    return absl::InternalError("timesteps have no gradient");
  }

 private:
  const ops::TimeEmbeddingParams params_;
};

}  // namespace

ValueId AddTokenEmbedding(ProgramBuilder* builder, ValueId ids, const TokenEmbeddingSpec& spec) {
  const Shape shape = builder->shape(ids);
  DPIPE_CHECK_EQ(shape.rank(), 1);
  DPIPE_CHECK_LE(shape[0], spec.positions);
  const ParameterId table = builder->AddParameter(
      spec.table_name, Shape({spec.vocabulary, spec.width}), InitRule::Normal(0.02f), true);
  const ParameterId positions = builder->AddParameter(
      spec.positions_name, Shape({spec.positions, spec.width}), InitRule::Normal(0.01f), true);
  return builder->AddNode(std::make_unique<TokenEmbeddingNode>(Shape({shape[0], spec.width})),
                          {ids}, {table, positions});
}

ValueId AddLabelEmbedding(ProgramBuilder* builder, const std::string& name, ValueId label,
                          int64_t classes, int64_t width) {
  DPIPE_CHECK_EQ(builder->shape(label).rank(), 0);
  const ParameterId table = builder->AddParameter(name + ".weight", Shape({classes, width}),
                                                  InitRule::Normal(1.0f), true);
  return builder->AddNode(std::make_unique<LabelEmbeddingNode>(width), {label}, {table});
}

ValueId AddTimeEmbedding(ProgramBuilder* builder, ValueId timesteps,
                         const ops::TimeEmbeddingParams& params) {
  DPIPE_CHECK_EQ(builder->shape(timesteps).rank(), 0);
  return builder->AddNode(std::make_unique<TimeEmbeddingNode>(params), {timesteps});
}

}  // namespace dpipe::nn
