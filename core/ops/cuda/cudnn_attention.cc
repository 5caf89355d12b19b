// Attention as the chains of operations that cuDNN's engines know as such. cuDNN has single
// operations too, the forward one since 9.13, the backward one without engines.
#include "core/ops/cuda/cudnn_graphs.h"

namespace dpipe::ops::cuda {
namespace {

using Place = CudnnTensor::Place;

// [batch, tokens, heads * size] as cuDNN's (batch, heads, tokens, size).
CudnnTensor Heads(int64_t id, const UnmaskedAttention& s, int64_t tokens) {
  const int64_t width = s.heads * s.size;
  return {id, {s.batch, s.heads, tokens, s.size}, {tokens * width, s.size, width, 1}, DType::kBf16};
}
// The same memory, and what is between operations, seen as (batch, heads, size, tokens).
CudnnTensor Transposed(CudnnTensor t) {
  std::swap(t.sizes[2], t.sizes[3]);
  std::swap(t.strides[2], t.strides[3]);
  return t;
}
// (batch, heads, rows, columns) without gaps.
CudnnTensor Matrices(int64_t id, const UnmaskedAttention& s, int64_t rows, int64_t columns,
                     DType dtype, Place place) {
  return {id,
          {s.batch, s.heads, rows, columns},
          {s.heads * rows * columns, rows * columns, columns, 1},
          dtype,
          place};
}
CudnnTensor OfRows(int64_t id, const UnmaskedAttention& s, Place place = Place::kMemory) {
  return Matrices(id, s, s.queries, 1, DType::kF32, place);
}
CudnnTensor Number(int64_t id) {
  return {id, {1, 1, 1, 1}, {1, 1, 1, 1}, DType::kF32, Place::kByValue};
}

// Adds operations whose results are used by others, and only written where they have memory.
class Chain {
 public:
  Chain(const UnmaskedAttention& shape, CudnnGraph* graph) : shape_(shape), graph_(graph) {}

  const CudnnDescriptor& Tensor(const CudnnTensor& tensor) { return graph_->AddTensor(tensor); }
  // Scores, or their gradients, between operations.
  CudnnTensor Scores() {
    return Matrices(next_id_++, shape_, shape_.queries, shape_.keys, DType::kF32,
                    Place::kBetweenOperations);
  }
  CudnnTensor Between(CudnnTensor like) {
    like.id = next_id_++;
    like.place = Place::kBetweenOperations;
    return like;
  }

  // to = a (mode) b; b may be null.
  const CudnnDescriptor& Pointwise(cudnnPointwiseMode_t mode, const CudnnDescriptor& a,
                                   const CudnnDescriptor* b, const CudnnTensor& to) {
    const CudnnDescriptor& what =
        graph_->Finish(graph_->Add(CUDNN_BACKEND_POINTWISE_DESCRIPTOR)
                           .Set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, &mode)
                           .Set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_DATA_FLOAT));
    const CudnnDescriptor& result = Tensor(to);
    CudnnDescriptor& operation = graph_->AddOperation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR)
                                     .Set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, what)
                                     .Set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, a)
                                     .Set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, result);
    if (b != nullptr) operation.Set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, *b);
    graph_->Finish(operation);
    return result;
  }
  // Over the dimensions in which `to` has one element.
  const CudnnDescriptor& Reduction(cudnnReduceTensorOp_t mode, const CudnnDescriptor& a,
                                   const CudnnTensor& to) {
    const CudnnDescriptor& what = graph_->Finish(
        graph_->Add(CUDNN_BACKEND_REDUCTION_DESCRIPTOR)
            .Set(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, &mode)
            .Set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_DATA_FLOAT));
    const CudnnDescriptor& result = Tensor(to);
    graph_->Finish(graph_->AddOperation(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR)
                       .Set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, what)
                       .Set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, a)
                       .Set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, result));
    return result;
  }
  const CudnnDescriptor& Product(const CudnnDescriptor& a, const CudnnDescriptor& b,
                                 const CudnnTensor& to) {
    const CudnnDescriptor& what =
        graph_->Finish(graph_->Add(CUDNN_BACKEND_MATMUL_DESCRIPTOR)
                           .Set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_DATA_FLOAT));
    const CudnnDescriptor& result = Tensor(to);
    graph_->Finish(graph_->AddOperation(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR)
                       .Set(CUDNN_ATTR_OPERATION_MATMUL_DESC, what)
                       .Set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, a)
                       .Set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, b)
                       .Set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, result));
    return result;
  }
  const CudnnDescriptor& Reshape(const CudnnDescriptor& a, const CudnnTensor& to) {
    const CudnnDescriptor& result = Tensor(to);
    graph_->Finish(graph_->AddOperation(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR)
                       .Set(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, a)
                       .Set(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, result));
    return result;
  }

 private:
  const UnmaskedAttention& shape_;
  CudnnGraph* const graph_;
  int64_t next_id_ = kFirstUnnamed;
};

}  // namespace

void DescribeAttention(const UnmaskedAttention& s, CudnnGraph* graph) {
  Chain chain(s, graph);
  const CudnnDescriptor& q = chain.Tensor(Heads(kQueries, s, s.queries));
  const CudnnDescriptor& kt = chain.Tensor(Transposed(Heads(kKeys, s, s.keys)));
  const CudnnDescriptor& v = chain.Tensor(Heads(kValues, s, s.keys));
  const CudnnDescriptor& scale = chain.Tensor(Number(kScale));

  // e = exp(scale * q k^T - largest), log_sums = largest + log(sums), y = e / sums v.
  const CudnnDescriptor& scores = chain.Pointwise(
      CUDNN_POINTWISE_MUL, chain.Product(q, kt, chain.Scores()), &scale, chain.Scores());
  const CudnnDescriptor& largest =
      chain.Reduction(CUDNN_REDUCE_TENSOR_MAX, scores, chain.Between(OfRows(0, s)));
  const CudnnDescriptor& e = chain.Pointwise(
      CUDNN_POINTWISE_EXP, chain.Pointwise(CUDNN_POINTWISE_SUB, scores, &largest, chain.Scores()),
      nullptr, chain.Scores());
  const CudnnDescriptor& sums =
      chain.Reduction(CUDNN_REDUCE_TENSOR_ADD, e, chain.Between(OfRows(0, s)));
  const CudnnDescriptor& logs =
      chain.Pointwise(CUDNN_POINTWISE_LOG, sums, nullptr, chain.Between(OfRows(0, s)));
  chain.Pointwise(CUDNN_POINTWISE_ADD, largest, &logs, OfRows(kLogSums, s));
  CudnnTensor p = chain.Scores();
  p.dtype = DType::kBf16;
  chain.Product(chain.Pointwise(CUDNN_POINTWISE_DIV, e, &sums, p), v,
                Heads(kAttended, s, s.queries));
}

// dq is the product itself, and not fp32 sums that are then rounded: with those it would be added
// up atomically, in no order. So ds lies in the workspace in between.
void DescribeAttentionGrad(const UnmaskedAttention& s, CudnnGraph* graph) {
  // Until then engines need a mask where the last block of keys is not full.
  if (s.keys % 128 != 0) graph->Require(91501);
  Chain chain(s, graph);
  const CudnnDescriptor& q = chain.Tensor(Heads(kQueries, s, s.queries));
  const CudnnDescriptor& kt = chain.Tensor(Transposed(Heads(kKeys, s, s.keys)));
  const CudnnDescriptor& vt = chain.Tensor(Transposed(Heads(kValues, s, s.keys)));
  const CudnnDescriptor& y = chain.Tensor(Heads(kAttended, s, s.queries));
  const CudnnDescriptor& dy = chain.Tensor(Heads(kOutputGrads, s, s.queries));
  const CudnnDescriptor& log_sums = chain.Tensor(OfRows(kLogSums, s));
  const CudnnDescriptor& scale = chain.Tensor(Number(kScale));
  const CudnnDescriptor& one = chain.Tensor(Number(kUnit));
  const CudnnTensor transposed_scores =
      Transposed(Matrices(0, s, s.queries, s.keys, DType::kBf16, Place::kBetweenOperations));

  // sums = sum(dy * y), by query.
  CudnnTensor products = Heads(0, s, s.queries);
  products.dtype = DType::kF32;
  const CudnnDescriptor& rows =
      chain.Reduction(CUDNN_REDUCE_TENSOR_ADD,
                      chain.Pointwise(CUDNN_POINTWISE_MUL, dy, &y, chain.Between(products)),
                      chain.Between(OfRows(0, s)));
  const CudnnDescriptor& sums =
      chain.Pointwise(CUDNN_POINTWISE_MUL, rows, &one, OfRows(kGradSums, s));

  // p = exp(scale * q k^T - log_sums), dv = p^T dy.
  const CudnnDescriptor& scores = chain.Pointwise(
      CUDNN_POINTWISE_MUL, chain.Product(q, kt, chain.Scores()), &scale, chain.Scores());
  const CudnnDescriptor& p = chain.Pointwise(
      CUDNN_POINTWISE_EXP, chain.Pointwise(CUDNN_POINTWISE_SUB, scores, &log_sums, chain.Scores()),
      nullptr, chain.Scores());
  chain.Product(chain.Reshape(p, chain.Between(transposed_scores)), dy,
                Heads(kValueGrads, s, s.keys));

  // ds = scale * p * (dy v^T - sums), dk = ds^T q, dq = ds k.
  const CudnnDescriptor& dp = chain.Pointwise(
      CUDNN_POINTWISE_SUB, chain.Product(dy, vt, chain.Scores()), &sums, chain.Scores());
  const CudnnDescriptor& ds = chain.Pointwise(
      CUDNN_POINTWISE_MUL, chain.Pointwise(CUDNN_POINTWISE_MUL, dp, &p, chain.Scores()), &scale,
      chain.Scores());
  chain.Product(chain.Reshape(ds, chain.Between(transposed_scores)), q,
                Heads(kKeyGrads, s, s.keys));
  const CudnnDescriptor& k = chain.Reshape(kt, chain.Between(Heads(0, s, s.keys)));
  chain.Product(ds, k, Heads(kQueryGrads, s, s.queries));
}

}  // namespace dpipe::ops::cuda
