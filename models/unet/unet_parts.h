// The parts of a U-Net's Program, from which the U-Net itself, its frozen halves and ControlNet's
// trainable copy are put together.
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

// Sizes that the configuration leaves open.
struct UNetShape {
  int64_t height = 64;  // of the latents; divisible by 2^(levels - 1)
  int64_t width = 64;
  int64_t context_length = 77;  // tokens
};

// InvalidArgument names both sizes and the number of levels where they do not go together.
absl::Status CheckUNetShape(const UNetConfig& config, const UNetShape& shape);

// Adds layers of one kind to a program, with parameters named `prefix` + diffusers' name, layers
// likewise; with low-rank adaptation, the layers of attention are trainable and only the adapters
// in them trained. The configuration and the builder outlive it.
class UNetParts {
 public:
  UNetParts(const UNetConfig& config, nn::LayerKind kind, std::string prefix,
            nn::ProgramBuilder* builder, const nn::LoraSpec& lora = {})
      : config_(config), kind_(kind), prefix_(std::move(prefix)), builder_(builder), lora_(lora) {}

  // What the encoder hands to the decoder.
  struct Encoded {
    // In the order in which they are made: conv_in, then of each level each block's and the
    // downsampler's; the decoder reads them from the back.
    std::vector<ValueId> skips;
    ValueId middle;  // the mid block's
  };

  // "time_embedding": timesteps int32 [] -> [4 x channels], through the SiLU that every resnet
  // would begin with: once, the same values.
  ValueId AddTime(ValueId timesteps);
  // "conv_in", down blocks, mid block. `hint`, of conv_in's output's shape, is added to that.
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

// External inputs that all of these programs have: "context" and, of fp32 images of the latents'
// size, any.
ValueId AddContextInput(const UNetConfig& config, const UNetShape& shape,
                        nn::ProgramBuilder* builder);
ValueId AddLatentsInput(const UNetConfig& config, const UNetShape& shape, const std::string& name,
                        nn::ProgramBuilder* builder);

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_UNET_UNET_PARTS_H_
