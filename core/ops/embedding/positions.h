// Positions of tokens: rotations, a table, and distances.
#ifndef DPIPE_CORE_OPS_EMBEDDING_POSITIONS_H_
#define DPIPE_CORE_OPS_EMBEDDING_POSITIONS_H_

#include <array>
#include <cstdint>

#include "core/base/status.h"
#include "core/tensor/tensor.h"

namespace dpipe::ops {

// Rotary position embedding (Su et al., arXiv 2104.09864) of queries and keys, with FLUX's
// positions on three axes (diffusers FluxPosEmbed and apply_rotary_emb).
//
// A head's elements 2i and 2i + 1 are a pair, which is rotated by an angle. Each axis has some of
// the pairs, in order: pair k of an axis with d elements turns by id * theta^(-2k / d). The ids of
// a text token are (0, 0, 0), those of an image token (0, row, column).

struct RotaryParams {
  std::array<int64_t, 3> axes = {16, 56, 56};  // elements of a head per axis; even
  double theta = 10000;
  int64_t text_tokens = 0;    // how many of the tokens come before the image's
  int64_t image_columns = 1;  // image tokens per row; rows follow each other

  int64_t head_size() const { return axes[0] + axes[1] + axes[2]; }
};

// x [B, tokens, heads * head_size], fp32 or bf16, with heads side by side -> the same shape and
// dtype. Angles are computed in double; their sines and cosines are rounded to fp32.
absl::StatusOr<Tensor> RotaryEmbeddingForward(const RotaryParams& params, const Tensor& x);

// Returns dx: dy rotated back.
absl::StatusOr<Tensor> RotaryEmbeddingInputGrad(const RotaryParams& params, const Tensor& dy);

// Fixed positions of image tokens: sinusoids of their row and column, from the centre of a table
// (diffusers PatchEmbed with pos_embed_max_size, as in Stable Diffusion 3).

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

// T5's relative position bias (Raffel et al., arXiv 1910.10683): a learned number per attention
// head and bucket of distances, for the scores of attention (core/ops/attention/attention.h).

struct RelativeBiasParams {
  int num_buckets = 32;    // a multiple of 4, at most 128
  int max_distance = 128;  // above num_buckets / 4
  int64_t queries = 0, keys = 0;
};

// Returns the bucket of `offset`, a key's position minus a query's. Half of the buckets are for
// positive offsets. A quarter of all holds one distance each; the next distances, up to
// max_distance, are divided evenly by logarithm; the last bucket holds all that are farther.
int RelativeBucket(const RelativeBiasParams& params, int64_t offset);

// table fp32 [num_buckets, heads] -> fp32 [batch, heads, queries + keys - 1], the same for each
// sample: element `offset + queries - 1` of head h is table[RelativeBucket(offset), h].
absl::StatusOr<Tensor> RelativeBiasForward(const RelativeBiasParams& params, int64_t batch,
                                           const Tensor& table);

// Adds the table's gradient from that of the bias, sample by sample, offset by offset.
absl::Status RelativeBiasWeightGrad(const RelativeBiasParams& params, const Tensor& dbias,
                                    Tensor* dtable);

}  // namespace dpipe::ops

#endif  // DPIPE_CORE_OPS_EMBEDDING_POSITIONS_H_
