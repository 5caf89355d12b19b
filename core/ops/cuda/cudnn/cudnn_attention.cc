// Describes attention as chains of operations that cuDNN's engines recognize. cuDNN also has single
// operations: the forward one since 9.13, and the backward one, for which it has no engines.
#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "core/ops/cuda/cudnn/cudnn_graphs.h"

namespace dpipe::ops::cuda {
namespace {

using Place = CudnnTensor::Place;

// Returns [batch, tokens, heads * size] as cuDNN's (batch, heads, tokens, size).
CudnnTensor Heads(int64_t id, const AttentionShape& s, int64_t tokens) {
  const int64_t width = s.heads * s.size;
  return {id, {s.batch, s.heads, tokens, s.size}, {tokens * width, s.size, width, 1}, DType::kBf16};
}
// Returns a tensor with the same memory (if any), viewed as (batch, heads, size, tokens).
CudnnTensor Transposed(CudnnTensor t) {
  std::swap(t.sizes[2], t.sizes[3]);
  std::swap(t.strides[2], t.strides[3]);
  return t;
}
// Returns contiguous matrices (batch, heads, rows, columns).
CudnnTensor Matrices(int64_t id, const AttentionShape& s, int64_t rows, int64_t columns,
                     DType dtype, Place place) {
  return {id,
          {s.batch, s.heads, rows, columns},
          {s.heads * rows * columns, rows * columns, columns, 1},
          dtype,
          place};
}
CudnnTensor OfRows(int64_t id, const AttentionShape& s, Place place = Place::kMemory) {
  return Matrices(id, s, s.queries, 1, DType::kF32, place);
}
CudnnTensor Number(int64_t id) {
  return {id, {1, 1, 1, 1}, {1, 1, 1, 1}, DType::kF32, Place::kByValue};
}

// Adds operations that use each other's results. A result is written only if it has memory.
class Chain {
 public:
  Chain(const AttentionShape& shape, CudnnGraph* graph) : shape_(shape), graph_(graph) {}

  const CudnnDescriptor& Tensor(const CudnnTensor& tensor) { return graph_->AddTensor(tensor); }
  // Returns a tensor of scores, or of their gradients, between operations.
  CudnnTensor Scores() {
    return Matrices(next_id_++, shape_, shape_.queries, shape_.keys, DType::kF32,
                    Place::kBetweenOperations);
  }
  CudnnTensor Between(CudnnTensor like) {
    like.id = next_id_++;
    like.place = Place::kBetweenOperations;
    return like;
  }

  // Adds to = a (mode) b; b may be null.
  const CudnnDescriptor& Pointwise(cudnnPointwiseMode_t mode, const CudnnDescriptor& a,
                                   const CudnnDescriptor* b, const CudnnTensor& to) {
    return Apply(graph_->Finish(NewMode(mode)), a, b, nullptr, Tensor(to));
  }
  // Returns the scores if a query sees the key, that is, if the key does not come later, and
  // `masked` otherwise.
  const CudnnDescriptor& Causal(const CudnnDescriptor& scores, const CudnnDescriptor& masked) {
    const CudnnDescriptor& query = IndexAlong(2, scores);
    const CudnnDescriptor& key = IndexAlong(3, scores);
    const CudnnDescriptor& seen =
        Apply(graph_->Finish(NewMode(CUDNN_POINTWISE_CMP_GE, CUDNN_DATA_BOOLEAN)), query, &key,
              nullptr, ScoresOf(CUDNN_DATA_BOOLEAN));
    return Apply(graph_->Finish(NewMode(CUDNN_POINTWISE_BINARY_SELECT)), scores, &masked, &seen,
                 Tensor(Scores()));
  }
  // Reduces over the dimensions in which `to` has one element.
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
  CudnnDescriptor& NewMode(cudnnPointwiseMode_t mode,
                           cudnnDataType_t arithmetic = CUDNN_DATA_FLOAT) {
    return graph_->Add(CUDNN_BACKEND_POINTWISE_DESCRIPTOR)
        .Set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, &mode)
        .Set(CUDNN_ATTR_POINTWISE_MATH_PREC, arithmetic);
  }
  // b and `where` may be null.
  const CudnnDescriptor& Apply(const CudnnDescriptor& mode, const CudnnDescriptor& a,
                               const CudnnDescriptor* b, const CudnnDescriptor* where,
                               const CudnnDescriptor& to) {
    CudnnDescriptor& operation = graph_->AddOperation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR)
                                     .Set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, mode)
                                     .Set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, a)
                                     .Set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, to);
    if (b != nullptr) operation.Set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, *b);
    if (where != nullptr) operation.Set(CUDNN_ATTR_OPERATION_POINTWISE_TDESC, *where);
    graph_->Finish(operation);
    return to;
  }
  // Returns a tensor shaped like the scores, of a type that no tensor in memory has.
  const CudnnDescriptor& ScoresOf(cudnnDataType_t type) {
    const CudnnTensor scores = Scores();
    return graph_->Finish(graph_->Add(CUDNN_BACKEND_TENSOR_DESCRIPTOR)
                              .Set(CUDNN_ATTR_TENSOR_UNIQUE_ID, scores.id)
                              .Set(CUDNN_ATTR_TENSOR_DATA_TYPE, type)
                              .Set(CUDNN_ATTR_TENSOR_DIMENSIONS, scores.sizes)
                              .Set(CUDNN_ATTR_TENSOR_STRIDES, scores.strides)
                              .Set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, int64_t{16})
                              .Set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, true));
  }
  // Returns each score's index along a dimension.
  const CudnnDescriptor& IndexAlong(int64_t dimension, const CudnnDescriptor& scores) {
    CudnnDescriptor& mode = NewMode(CUDNN_POINTWISE_GEN_INDEX);
    mode.Set(CUDNN_ATTR_POINTWISE_AXIS, dimension);
    return Apply(graph_->Finish(mode), scores, nullptr, nullptr, ScoresOf(CUDNN_DATA_INT32));
  }

  const AttentionShape& shape_;
  CudnnGraph* const graph_;
  int64_t next_id_ = kFirstUnnamed;
};

// Versions 9.10.0 and 9.10.1 have bugs; cudnn-frontend rejects attention and its gradient for them.
void RequireSound(CudnnGraph* graph) {
  const size_t version = graph->api().cudnnGetVersion();
  if (version == 91000 || version == 91001) graph->Require(91002);
}

// Limit of the gradient's workspace, 1.5 GiB. Example: 8 of 64 samples of 4096 tokens in 5 heads
// fit at once, with 1.34 GB.
constexpr int64_t kMaxScoreBytes = int64_t{3} << 29;

}  // namespace

absl::Status CheckAttention(const AttentionShape& s) {
  if (s.size % 8 == 0) return absl::OkStatus();
  return absl::UnimplementedError(
      absl::StrCat("cuDNN's attention needs a head size that is a multiple of 8, not ", s.size));
}

absl::Status CheckAttentionGrad(const AttentionShape& s, int capability_major) {
  DPIPE_RETURN_IF_ERROR(CheckAttention(s));
  // A known issue in the release notes of 9.18.1, although plans can be created.
  if (s.keys == 1) {
    return absl::UnimplementedError("cuDNN has no gradient for attention to a single key");
  }
  // The limits of cudnn-frontend. (On Blackwell it has 256 since 9.23, with an engine that it
  // names.)
  const int64_t max_size = capability_major == 9 ? 256 : 128;
  if (s.size <= max_size) return absl::OkStatus();
  return absl::UnimplementedError(absl::StrCat(
      "on GPUs of compute capability ", capability_major,
      ".x, cuDNN's attention gradient supports head sizes up to ", max_size, ", not ", s.size));
}

namespace {

// Returns the size of one sample's ds in the workspace.
int64_t ScoreBytes(const AttentionShape& s) {
  const auto padded = [](int64_t tokens) { return (tokens + 127) / 128 * 128; };
  return s.heads * padded(s.queries) * padded(s.keys) * SizeOf(DType::kBf16);
}

}  // namespace

bool IsFasterNondeterministic(const AttentionShape& s) {
  return s.batch * ScoreBytes(s) > int64_t{256} << 20;
}

int64_t SamplesAtOnce(const AttentionShape& s) {
  if (s.nondeterministic) return s.batch;
  const int64_t of_sample = ScoreBytes(s);
  const int64_t max_part = std::max<int64_t>(1, kMaxScoreBytes / of_sample);
  if (s.batch <= max_part) return s.batch;
  // The sums of each part begin at a multiple of 16 bytes.
  const int64_t multiple = 4 / std::gcd(int64_t{4}, s.heads * s.queries);
  for (int64_t part = max_part; part > 0 && 2 * part >= max_part; --part) {
    if (s.batch % part == 0 && part % multiple == 0) return part;  // one plan for all parts
  }
  return std::min(s.batch, std::max(multiple, max_part / multiple * multiple));
}

void DescribeAttention(const AttentionShape& s, CudnnGraph* graph) {
  RequireSound(graph);
  Chain chain(s, graph);
  const CudnnDescriptor& q = chain.Tensor(Heads(kQueries, s, s.queries));
  const CudnnDescriptor& kt = chain.Tensor(Transposed(Heads(kKeys, s, s.keys)));
  const CudnnDescriptor& v = chain.Tensor(Heads(kValues, s, s.keys));
  const CudnnDescriptor& scale = chain.Tensor(Number(kScale));

  // e = exp(scale * q k^T - largest), log_sums = largest + log(sums), y = e / sums v.
  const CudnnDescriptor& all = chain.Pointwise(
      CUDNN_POINTWISE_MUL, chain.Product(q, kt, chain.Scores()), &scale, chain.Scores());
  const CudnnDescriptor& scores = s.causal ? chain.Causal(all, chain.Tensor(Number(kMasked))) : all;
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

// With a fixed order, dq is the result of the product, and ds is stored in the workspace. With any
// order, it is added up atomically in fp32 sums, which are then rounded.
void DescribeAttentionGrad(const AttentionShape& s, int capability_major, CudnnGraph* graph) {
  RequireSound(graph);
  // Before this version, engines need a mask if the last block of keys is not full.
  if (s.keys % 128 != 0) graph->Require(91501);
  // cudnn-frontend has a deterministic gradient on Blackwell since this version.
  if (capability_major == 10) graph->Require(91800);
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
  const CudnnDescriptor& all =
      chain.Pointwise(CUDNN_POINTWISE_SUB, scores, &log_sums, chain.Scores());
  const CudnnDescriptor& p = chain.Pointwise(
      CUDNN_POINTWISE_EXP, s.causal ? chain.Causal(all, chain.Tensor(Number(kMasked))) : all,
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
  if (!s.nondeterministic) {
    chain.Product(ds, k, Heads(kQueryGrads, s, s.queries));
    return;
  }
  graph->AllowNondeterminism();
  // For older versions, cudnn-frontend clears the sums itself.
  graph->Require(90600);
  const CudnnDescriptor& dq = chain.Product(
      ds, k, Matrices(kQueryGradSums, s, s.queries, s.size, DType::kF32, Place::kMemory));
  chain.Pointwise(CUDNN_POINTWISE_IDENTITY, dq, nullptr, Heads(kQueryGrads, s, s.queries));
}

}  // namespace dpipe::ops::cuda
