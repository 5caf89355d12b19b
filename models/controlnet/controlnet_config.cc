#include "models/controlnet/controlnet_config.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "core/base/check.h"
#include "core/base/files/file.h"
#include "core/base/text/json.h"
#include "models/config/component_config.h"

namespace dpipe::models {
namespace {

// The keys that diffusers' ControlNetModel.from_unet copies.
constexpr const char* kSharedKeys[] = {
    "act_fn",
    "addition_embed_type",
    "addition_embed_type_num_heads",
    "addition_time_embed_dim",
    "attention_head_dim",
    "block_out_channels",
    "class_embed_type",
    "cross_attention_dim",
    "down_block_types",
    "downsample_padding",
    "encoder_hid_dim",
    "encoder_hid_dim_type",
    "flip_sin_to_cos",
    "freq_shift",
    "in_channels",
    "layers_per_block",
    "mid_block_scale_factor",
    "mid_block_type",
    "norm_eps",
    "norm_num_groups",
    "num_attention_heads",
    "num_class_embeds",
    "only_cross_attention",
    "projection_class_embeddings_input_dim",
    "resnet_time_scale_shift",
    "transformer_layers_per_block",
    "upcast_attention",
    "use_linear_projection",
};

}  // namespace

absl::StatusOr<ControlNetConfig> ParseControlNetConfig(const std::string& json,
                                                       const std::string& source) {
  DPIPE_ASSIGN_OR_RETURN(ComponentConfig keys, ComponentConfig::Parse(json, source));
  DPIPE_RETURN_IF_ERROR(keys.CheckKind("_class_name", "ControlNetModel"));
  ControlNetConfig config;
  config.encoder = ReadUNetEncoderKeys(&keys);
  config.conditioning_channels = keys.PositiveInt("conditioning_channels", 3);
  config.hint_channels =
      keys.PositiveInts("conditioning_embedding_out_channels", config.hint_channels);
  keys.Expect("addition_embed_type", {"null"});
  keys.Expect("conditioning_channels", {"3"});
  keys.Expect("controlnet_conditioning_channel_order", {"\"rgb\""});
  keys.Expect("global_pool_conditions", {"false"});
  // An image has nothing left after 16 halvings.
  if (config.hint_channels.size() > 16) {
    keys.AddProblem("conditioning_embedding_out_channels", "expected at most 16 entries");
  }
  DPIPE_RETURN_IF_ERROR(keys.status());
  return config;
}

absl::StatusOr<ControlNetConfig> ReadControlNetConfig(const std::string& path) {
  DPIPE_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  return ParseControlNetConfig(text, path);
}

absl::Status CheckFitsUNet(const ControlNetConfig& config, const UNetConfig& unet) {
  const auto values = [](const UNetConfig& encoder) {
    std::vector<absl::string_view> down_blocks;
    for (const bool has_attention : encoder.down_has_attention) {
      down_blocks.push_back(has_attention ? "CrossAttnDownBlock2D" : "DownBlock2D");
    }
    return std::vector<std::pair<const char*, std::string>>{
        {"in_channels", absl::StrCat(encoder.in_channels)},
        {"block_out_channels", absl::StrJoin(encoder.block_out_channels, ", ")},
        {"down_block_types", absl::StrJoin(down_blocks, ", ")},
        {"layers_per_block", absl::StrCat(encoder.layers_per_block)},
        {"cross_attention_dim", absl::StrCat(encoder.cross_attention_dim)},
    };
  };
  const auto own = values(config.encoder), wanted = values(unet);
  for (size_t i = 0; i < own.size(); ++i) {
    if (own[i].second == wanted[i].second) continue;
    return absl::InvalidArgumentError(absl::StrCat("the ControlNet's ", own[i].first,
                                                   " differs from the U-Net's: ", own[i].second,
                                                   " and ", wanted[i].second));
  }
  return absl::OkStatus();
}

std::vector<int64_t> DefaultHintChannels(int64_t downscale) {
  DPIPE_CHECK(downscale >= 1 && (downscale & (downscale - 1)) == 0) << downscale;
  std::vector<int64_t> channels = {16, 32, 96, 256};
  while (int64_t{1} << (channels.size() - 1) < downscale) channels.push_back(256);
  while (int64_t{1} << (channels.size() - 1) > downscale) channels.pop_back();
  return channels;
}

absl::StatusOr<std::string> ControlNetConfigOf(const std::string& unet_json,
                                               const std::string& source,
                                               const std::vector<int64_t>& hint_channels) {
  DPIPE_ASSIGN_OR_RETURN(const auto unet,
                         ParseJsonObject<nlohmann::ordered_json>(unet_json, source));
  nlohmann::ordered_json config;
  config["_class_name"] = "ControlNetModel";
  if (unet.contains("_diffusers_version"))
    config["_diffusers_version"] = unet["_diffusers_version"];
  for (const char* key : kSharedKeys) {
    if (unet.contains(key)) config[key] = unet[key];
  }
  config["conditioning_channels"] = 3;
  config["conditioning_embedding_out_channels"] = hint_channels;
  config["controlnet_conditioning_channel_order"] = "rgb";
  config["global_pool_conditions"] = false;
  return JsonText(config, /*indent=*/2) + "\n";
}

}  // namespace dpipe::models
