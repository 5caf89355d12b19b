// Layers that kohya-ss's tools name and divide as a model's original implementation does: several
// of diffusers' layers with a common input are one there, with their rows one after another.
#ifndef DPIPE_MODELS_LORA_KOHYA_LAYERS_H_
#define DPIPE_MODELS_LORA_KOHYA_LAYERS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/tensor/tensor.h"

namespace dpipe::models {

struct KohyaLayer {
  struct Part {
    std::string layer;  // dotted name: "transformer_blocks.0.attn.to_q"
    int64_t rows = 0;   // of its weight
  };

  std::string name;  // in files: "lora_unet_double_blocks_0_img_attn_qkv"
  std::vector<Part> parts;
  // The file has the second half of the rows first.
  bool swaps_halves = false;

  int64_t rows() const;
  // True if its adapter is that of its only part. Then it may also be a convolution's.
  bool is_renamed_only() const { return parts.size() == 1 && !swaps_halves; }
};

// The two matrices of a low-rank adapter, fp32: down [rank, in], up [rows, rank].
struct LowRank {
  Tensor down, up;
};

// Returns the adapters of the parts, given the adapter of the whole layer as a file has it. If the
// parts share no row of `down`, as JoinParts writes them, each gets the rows that are its own;
// otherwise each gets all of them. Returns InvalidArgument if `up` does not have the layer's rows.
absl::StatusOr<std::vector<LowRank>> SplitIntoParts(const KohyaLayer& layer, const LowRank& whole);

// Inverse: returns the adapter of the whole layer, as files have it. Its rank is the sum of the
// parts' ranks. A part without tensors is not adapted; at least one must have them.
LowRank JoinParts(const KohyaLayer& layer, const std::vector<LowRank>& parts);

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_LORA_KOHYA_LAYERS_H_
