// Rotary position embedding (Su et al., arXiv 2104.09864) of queries and keys, with FLUX's
// positions on three axes (diffusers FluxPosEmbed and apply_rotary_emb).
//
// A head's elements 2i and 2i + 1 are a pair, which is rotated by an angle. Each axis has some of
// the pairs, in order: pair k of an axis with d elements turns by id * theta^(-2k / d). The ids of
// a text token are (0, 0, 0), those of an image token (0, row, column).
#ifndef DPIPE_CORE_OPS_EMBEDDING_ROTARY_EMBEDDING_H_
#define DPIPE_CORE_OPS_EMBEDDING_ROTARY_EMBEDDING_H_

#include <array>
#include <cstdint>

#include "core/base/status.h"
#include "core/tensor/tensor.h"

namespace dpipe::ops {

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

}  // namespace dpipe::ops

#endif  // DPIPE_CORE_OPS_EMBEDDING_ROTARY_EMBEDDING_H_
