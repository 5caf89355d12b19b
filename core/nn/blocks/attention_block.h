// Attention with its projections, within the caller's current layer.
#ifndef DPIPE_CORE_NN_BLOCKS_ATTENTION_BLOCK_H_
#define DPIPE_CORE_NN_BLOCKS_ATTENTION_BLOCK_H_

#include <optional>
#include <string>

#include "core/nn/blocks/lora.h"
#include "core/nn/program_builder.h"

namespace dpipe::nn {

struct AttentionSpec {
  int num_heads = 1;
  bool causal = false;
  bool qkv_bias = false;
  // Checkpoint names of the four projections.
  std::string q = "to_q", k = "to_k", v = "to_v", out = "to_out.0";
  LoraSpec lora = {};                            // of all four projections
  std::optional<ValueId> addend = std::nullopt;  // [Tq, C]: added to the result
};

// Takes queries from x [Tq, C], keys and values from `context` [Tk, C'] (x itself for
// self-attention) -> [Tq, C]. The output projection always has a bias.
ValueId AddAttentionBlock(ProgramBuilder* builder, const std::string& name, ValueId x,
                          ValueId context, const AttentionSpec& spec);

}  // namespace dpipe::nn

#endif  // DPIPE_CORE_NN_BLOCKS_ATTENTION_BLOCK_H_
