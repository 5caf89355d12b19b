// Low-rank adaptation of fully connected layers (Hu et al., arXiv 2106.09685).
#ifndef DPIPE_CORE_NN_BLOCKS_LORA_H_
#define DPIPE_CORE_NN_BLOCKS_LORA_H_

#include <string>
#include <vector>

#include "core/nn/nodes/product_nodes.h"
#include "core/nn/program_builder.h"

namespace dpipe::nn {

struct LoraSpec {
  int rank = 0;     // 0: no adaptation
  float scale = 1;  // factor of the adapters' result: alpha / rank in the paper
  // A layer is adapted if its name is one of these or ends with "." and one of these, as with
  // PEFT's target_modules: "attn.to_q", "ff.net.0.proj". Empty: every layer that the network can
  // adapt.
  std::vector<std::string> targets = {};

  bool Adapts(const std::string& layer) const;
};

// True if `layer` is `target` or ends with "." and `target`.
bool IsLoraTarget(const std::string& layer, const std::string& target);

// Suffixes of an adapter's two parameters after the name of the layer that it adapts, as in the
// files of peft and diffusers.
inline constexpr char kLoraDown[] = ".lora_A.weight";  // [rank, in], random initially
inline constexpr char kLoraUp[] = ".lora_B.weight";    // [out, rank], zero initially

// With rank 0, the same as AddLinear. With a higher rank, in a trainable layer, weight and bias are
// frozen, and if the specification adapts this layer, scale * B A x with trainable A and B is
// added. Until A and B are trained, the result has the same bits as without.
ValueId AddLinearWithLora(ProgramBuilder* builder, const std::string& name, ValueId x,
                          const LinearSpec& spec, const LoraSpec& lora);

}  // namespace dpipe::nn

#endif  // DPIPE_CORE_NN_BLOCKS_LORA_H_
