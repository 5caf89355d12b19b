#include "models/mmdit/flux_transformer_config.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/files/file.h"
#include "models/config/component_config.h"

namespace dpipe::models {

absl::StatusOr<FluxTransformerConfig> ParseFluxTransformerConfig(const std::string& json,
                                                                 const std::string& source) {
  DPIPE_ASSIGN_OR_RETURN(ComponentConfig config, ComponentConfig::Parse(json, source));
  DPIPE_RETURN_IF_ERROR(config.CheckKind("_class_name", "FluxTransformer2DModel"));
  FluxTransformerConfig flux;
  flux.in_channels = config.PositiveInt("in_channels", 64);
  flux.num_layers = config.PositiveInt("num_layers", 19);
  flux.num_single_layers = config.PositiveInt("num_single_layers", 38);
  flux.head_size = config.PositiveInt("attention_head_dim", 128);
  flux.num_heads = config.PositiveInt("num_attention_heads", 24);
  flux.context_width = config.PositiveInt("joint_attention_dim", 4096);
  flux.pooled_width = config.PositiveInt("pooled_projection_dim", 768);
  flux.guidance_embeds = config.Bool("guidance_embeds", false);
  const std::vector<int64_t> axes = config.PositiveInts("axes_dims_rope", {16, 56, 56});
  int64_t sum = 0;
  bool even = true;
  for (int64_t axis : axes) {
    sum += axis;
    even = even && axis % 2 == 0;
  }
  if (axes.size() == flux.axes_dims_rope.size() && even && sum == flux.head_size) {
    std::copy(axes.begin(), axes.end(), flux.axes_dims_rope.begin());
  } else {
    config.AddProblem("axes_dims_rope",
                      absl::StrCat("expected three even numbers with the sum ", flux.head_size,
                                   ", the value of 'attention_head_dim'"));
  }
  config.Expect("patch_size", {"1"});
  if (flux.in_channels % 4 != 0) {
    config.AddProblem("in_channels", "expected a multiple of 4: a token is 2 x 2 latents");
  }
  if (config.PositiveInt("out_channels", flux.in_channels) != flux.in_channels) {
    config.AddProblem("out_channels",
                      absl::StrCat("expected 'in_channels', ", flux.in_channels,
                                   "; models with further inputs (Fill, Canny, Depth) are not "
                                   "supported"));
  }
  DPIPE_RETURN_IF_ERROR(config.status());
  return flux;
}

absl::StatusOr<FluxTransformerConfig> ReadFluxTransformerConfig(const std::string& path) {
  DPIPE_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  return ParseFluxTransformerConfig(text, path);
}

}  // namespace dpipe::models
