#include "core/ops/embedding/embedding.h"

#include "absl/strings/str_cat.h"
#include "core/ops/embedding/embedding_kernels.h"
#include "core/ops/support/backend.h"

namespace dpipe::ops {
namespace {

void CheckIds(const Tensor& ids) {
  DPIPE_CHECK(ids.dtype() == DType::kI32) << "ids of " << DTypeName(ids.dtype());
  DPIPE_CHECK_EQ(ids.shape().rank(), 2);
}

absl::Status CheckVocabulary(const Tensor& ids, int64_t rows) {
  for (int64_t i = 0; i < ids.num_elements(); ++i) {
    const int32_t id = ids.data<int32_t>()[i];
    if (id < 0 || id >= rows) {
      return absl::InvalidArgumentError(absl::StrCat("token ", i % ids.dim(1), " of sample ",
                                                     i / ids.dim(1), " has id ", id,
                                                     "; the table has ", rows, " rows"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Tensor> EmbeddingForward(const Tensor& ids, const Tensor& table,
                                        const Tensor& positions, DType dtype) {
  CheckIds(ids);
  CheckFp32(table, {table.dim(0), table.dim(1)});
  DPIPE_CHECK(IsFloat(dtype)) << "an embedding of " << DTypeName(dtype);
  const int64_t tokens = ids.dim(1), channels = table.dim(1);
  if (positions.defined()) {
    CheckFp32(positions, {positions.dim(0), channels});
    DPIPE_CHECK_LE(tokens, positions.dim(0)) << "more tokens than positions";
  }
  Tensor y = Tensor::Empty(table.device(), {ids.dim(0), tokens, channels}, dtype);
  absl::Status valid;
  DPIPE_RETURN_IF_ERROR(RunOn(
      *table.device(), "embedding",
      [&] {
        valid = CheckVocabulary(ids, table.dim(0));
        if (valid.ok()) ref::EmbeddingForward(ids, table, positions, &y);
      },
      [&] {
        valid = CheckVocabulary(ids, table.dim(0));
        if (valid.ok()) cpu::EmbeddingForward(ids, table, positions, &y);
      },
      [&] { cuda::EmbeddingForward(ids, table, positions, &y); }));
  DPIPE_RETURN_IF_ERROR(valid);
  return y;
}

absl::Status EmbeddingWeightGrad(const Tensor& ids, const Tensor& dy, Tensor* dtable,
                                 Tensor* dpositions) {
  CheckIds(ids);
  CheckFloat(dy);
  const int64_t channels = dy.dim(2);
  DPIPE_CHECK_EQ(dy.shape(), (Shape{ids.dim(0), ids.dim(1), channels}));
  if (dtable != nullptr) CheckFp32(*dtable, {dtable->dim(0), channels});
  if (dpositions != nullptr) CheckFp32(*dpositions, {dpositions->dim(0), channels});
  absl::Status valid;
  DPIPE_RETURN_IF_ERROR(RunOn(
      *dy.device(), "embedding",
      [&] {
        if (dtable != nullptr) valid = CheckVocabulary(ids, dtable->dim(0));
        if (valid.ok()) ref::EmbeddingWeightGrad(ids, dy, dtable, dpositions);
      },
      [&] {
        if (dtable != nullptr) valid = CheckVocabulary(ids, dtable->dim(0));
        if (valid.ok()) cpu::EmbeddingWeightGrad(ids, dy, dtable, dpositions);
      },
      [&] { cuda::EmbeddingWeightGrad(ids, dy, dtable, dpositions); }));
  return valid;
}

}  // namespace dpipe::ops
