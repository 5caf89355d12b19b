// Blocks that several architectures share, cut into layers as in core/nn/blocks.
#ifndef DPIPE_CORE_COST_ROOFLINE_BLOCKS_H_
#define DPIPE_CORE_COST_ROOFLINE_BLOCKS_H_

#include <optional>
#include <string>

#include "core/cost/roofline/component_builder.h"

namespace dpipe::roofline {

using Value = ComponentBuilder::Value;

// diffusers ResnetBlock2D: layers `<name>.conv1`, `.conv_shortcut` (if channels change), `.conv2`.
// `time` [C_t] is projected and added. `skip` is first concatenated to x along the channels.
struct ResnetOptions {
  int64_t out_channels = 0;
  LayerKind kind = TRAINABLE;
  std::optional<Value> time;
  std::optional<Value> skip;
};
Value AddResnet(ComponentBuilder* builder, const std::string& name, Value x,
                const ResnetOptions& options);

// Separate projections of x [T, C] and context [S, C'] to width C, attention, a projection back.
Value AddAttention(ComponentBuilder* builder, const Value& x, const Value& context, bool qkv_bias,
                   int64_t head_size = 64);

// diffusers Transformer2DModel on an image. Its layers are `<name>.proj_in`, then for each block
// `.transformer_blocks.<i>.attn1`, `.attn2` and `.ff`, then `.proj_out`.
Value AddTransformer(ComponentBuilder* builder, const std::string& name, const Value& x,
                     const Value& context, int num_blocks, int64_t head_size, LayerKind kind);

// Add a 3x3 convolution with stride 2, or one after doubling the pixels, as one layer.
Value AddDownsample(ComponentBuilder* builder, const std::string& name, const Value& x,
                    LayerKind kind);
Value AddUpsample(ComponentBuilder* builder, const std::string& name, const Value& x,
                  LayerKind kind);

}  // namespace dpipe::roofline

#endif  // DPIPE_CORE_COST_ROOFLINE_BLOCKS_H_
