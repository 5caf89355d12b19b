// The parts of a U-Net's Program, from which the U-Net itself, its frozen halves and ControlNet's
// trainable copy are built.
#ifndef DPIPE_MODELS_UNET_UNET_PARTS_H_
#define DPIPE_MODELS_UNET_UNET_PARTS_H_

#include <optional>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/nn/blocks/lora.h"
#include "core/nn/blocks/resnet_block.h"
#include "core/nn/program_builder.h"
#include "models/unet/unet_config.h"

namespace dpipe::models {

// Sizes that the configuration does not set.
struct UNetShape {
  int64_t height = 64;  // of the latents; divisible by 2^(levels - 1)
  int64_t width = 64;
  int64_t context_length = 77;  // tokens
  // Widths of the embeddings that are joined to the context, one per text encoder, with the sum
  // cross_attention_dim. Empty: one embedding.
  std::vector<int64_t> context_widths = {};
};

// Inputs of the embedding "text_time".
struct TextTime {
  ValueId pooled;    // [pooled_width] in the compute dtype
  ValueId time_ids;  // fp32 [kNumTimeIds]
};

// Returns InvalidArgument with the sizes and the number of levels if they are incompatible.
absl::Status CheckUNetShape(const UNetConfig& config, const UNetShape& shape);

// Adds layers of one kind to a program. Layers and parameters are named `prefix` + diffusers' name.
// With low-rank adaptation, the attention layers are trainable, but only their adapters are
// trained. The configuration and the builder must outlive this object.
class UNetParts {
 public:
  UNetParts(const UNetConfig& config, nn::LayerKind kind, std::string prefix,
            nn::ProgramBuilder* builder, const nn::LoraSpec& lora = {})
      : config_(config), kind_(kind), prefix_(std::move(prefix)), builder_(builder), lora_(lora) {}

  // Outputs of the encoder that the decoder reads.
  struct Encoded {
    // In the order of creation: conv_in, then for each level its blocks and its downsampler. The
    // decoder reads them from the back.
    std::vector<ValueId> skips;
    ValueId middle;  // output of the mid block
  };

  // "time_embedding": timesteps int32 [] -> [4 x channels]. Includes the SiLU with which every
  // resnet would begin: computed once, with the same values. With `text_time` also the layers of
  // "add_embedding", whose result is added.
  ValueId AddTime(ValueId timesteps, const std::optional<TextTime>& text_time = std::nullopt);
  // "conv_in", down blocks, mid block. `hint` has the shape of conv_in's output and is added to it.
  Encoded AddEncoder(ValueId noisy, ValueId time, ValueId context,
                     std::optional<ValueId> hint = std::nullopt);
  // Up blocks and "conv_out" -> the prediction, in the compute dtype.
  ValueId AddDecoder(Encoded encoded, ValueId time, ValueId context);

 private:
  ValueId AddResnet(const std::string& name, int level, ValueId x, ValueId time,
                    std::optional<ValueId> skip);
  ValueId AddTransformer(const std::string& name, int level, ValueId x, ValueId context);
  ValueId AddDown(int level, ValueId x, ValueId time, ValueId context, std::vector<ValueId>* skips);
  ValueId AddUp(int level, ValueId x, ValueId time, ValueId context, std::vector<ValueId>* skips);

  const UNetConfig& config_;
  const nn::LayerKind kind_;
  const std::string prefix_;
  nn::ProgramBuilder* const builder_;
  const nn::LoraSpec lora_;
};

// Adds external inputs that all of these programs use: "context", and fp32 images of the latents'
// size. AddTextTimeInputs adds "pooled" and "time_ids" if the configuration has that embedding.
ValueId AddContextInput(const UNetConfig& config, const UNetShape& shape,
                        nn::ProgramBuilder* builder);
std::optional<TextTime> AddTextTimeInputs(const UNetConfig& config, nn::ProgramBuilder* builder);
ValueId AddLatentsInput(const UNetConfig& config, const UNetShape& shape, const std::string& name,
                        nn::ProgramBuilder* builder);

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_UNET_UNET_PARTS_H_
