// Fixed positions of image tokens: sinusoids of their row and column, from the centre of a table
// (diffusers PatchEmbed with pos_embed_max_size, as in Stable Diffusion 3).
#ifndef DPIPE_CORE_OPS_EMBEDDING_POSITION_TABLE_H_
#define DPIPE_CORE_OPS_EMBEDDING_POSITION_TABLE_H_

#include "core/base/status.h"
#include "core/tensor/tensor.h"

namespace dpipe::ops {

struct PositionTableParams {
  int64_t rows = 1, columns = 1;  // of the image's tokens
  // Rows and columns of the table; the image is at its centre, half a token up and left if that is
  // not one.
  int64_t table_size = 192;
  // Positions of the table go from 0 to this: token i of the table is at i * base_size /
  // table_size.
  int64_t base_size = 64;
};

// x [B, rows * columns, C], fp32 or bf16, C divisible by 4 -> x + table, in x's dtype. With k < C/4
// and position p of the token's column, elements k and C/4 + k of the table are the sine and cosine
// of p * 10000^(-k / (C/4)). The second half has the same of its row. The gradient is dy.
absl::StatusOr<Tensor> AddPositionTable(const PositionTableParams& params, const Tensor& x);

}  // namespace dpipe::ops

#endif  // DPIPE_CORE_OPS_EMBEDDING_POSITION_TABLE_H_
