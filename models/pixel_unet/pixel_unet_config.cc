#include "models/pixel_unet/pixel_unet_config.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/files/file.h"
#include "models/config/component_config.h"

namespace dpipe::models {
namespace {

// Returns the down or the up blocks in the file's order; unknown types are problems. `resize_key`
// names the key that selects how blocks with attention resize.
std::vector<PixelUNetBlock> Blocks(ComponentConfig* config, const std::string& key,
                                   const std::string& resize_key, const std::string& plain,
                                   const std::string& resnet, const std::string& attention,
                                   std::vector<std::string> default_types) {
  const std::string resize = config->String(resize_key, "conv");
  if (resize != "conv" && resize != "resnet") {
    config->AddProblem(resize_key, "supported: \"conv\", \"resnet\"");
  }
  std::vector<PixelUNetBlock> blocks;
  for (const std::string& type : config->Strings(key, std::move(default_types))) {
    PixelUNetBlock block;
    if (type == attention) {
      block = {true, resize == "resnet"};
    } else if (type == resnet) {
      block.resnet_resize = true;
    } else if (type != plain) {
      config->AddProblem(key, absl::StrCat("unknown block type '", type, "', known: ", plain, ", ",
                                           resnet, ", ", attention));
    }
    blocks.push_back(block);
  }
  return blocks;
}

// Checks keys whose other values change the model in unsupported ways.
void CheckFixedKeys(ComponentConfig* config) {
  const std::vector<std::pair<std::string, std::vector<std::string>>> supported = {
      {"act_fn", {"\"silu\"", "\"swish\""}},
      {"center_input_sample", {"false"}},
      {"class_embed_type", {"null", "\"timestep\""}},
      {"downsample_padding", {"1"}},
      {"mid_block_scale_factor", {"1"}},
      {"mid_block_type", {"\"UNetMidBlock2D\""}},
      {"resnet_time_scale_shift", {"\"default\"", "\"scale_shift\""}},
      {"time_embedding_dim", {"null"}},
      {"time_embedding_type", {"\"positional\""}},
  };
  for (const auto& [key, values] : supported) config->Expect(key, values);
}

void CheckDivisibility(const PixelUNetConfig& unet, ComponentConfig* config) {
  for (int level = 0; level < unet.num_levels(); ++level) {
    const int64_t channels = unet.block_out_channels[level];
    const auto need = [&](int64_t divisor, const char* what) {
      if (divisor == 0 || channels % divisor == 0) return;
      config->AddProblem("block_out_channels",
                         absl::StrCat(channels, " is not a multiple of the ", divisor, what));
    };
    need(unet.norm_groups, " norm groups");
    const bool last = level + 1 == unet.num_levels();
    if (last) need(unet.mid_norm_groups, " norm groups of the mid block's attention");
    const bool attention =
        (level < static_cast<int>(unet.down.size()) && unet.down[level].attention) ||
        (level < static_cast<int>(unet.up.size()) && unet.up[level].attention) ||
        (last && unet.mid_attention);
    if (attention) need(unet.head_channels, " channels of a head");
  }
}

void ReadBlocks(ComponentConfig* config, PixelUNetConfig* unet) {
  unet->block_out_channels = config->PositiveInts("block_out_channels", {224, 448, 672, 896});
  unet->down = Blocks(config, "down_block_types", "downsample_type", "DownBlock2D",
                      "ResnetDownsampleBlock2D", "AttnDownBlock2D",
                      {"DownBlock2D", "AttnDownBlock2D", "AttnDownBlock2D", "AttnDownBlock2D"});
  unet->up =
      Blocks(config, "up_block_types", "upsample_type", "UpBlock2D", "ResnetUpsampleBlock2D",
             "AttnUpBlock2D", {"AttnUpBlock2D", "AttnUpBlock2D", "AttnUpBlock2D", "UpBlock2D"});
  std::reverse(unet->up.begin(), unet->up.end());
  const size_t levels = unet->block_out_channels.size();
  for (const auto& [key, blocks] :
       {std::pair("down_block_types", &unet->down), std::pair("up_block_types", &unet->up)}) {
    if (blocks->size() == levels) continue;
    config->AddProblem(
        key, absl::StrCat("expected ", levels, ", one for each entry of 'block_out_channels'"));
  }
}

PixelUNetConfig ReadFields(ComponentConfig* config) {
  PixelUNetConfig unet;
  unet.in_channels = config->PositiveInt("in_channels", 3);
  unet.out_channels = config->PositiveInt("out_channels", 3);
  unet.sample_size = config->EqualPositiveInts("sample_size", 64);
  ReadBlocks(config, &unet);
  unet.layers_per_block = config->PositiveInt("layers_per_block", 2);
  // Only an explicit null means one head; diffusers' default is 8.
  unet.head_channels =
      config->IsNull("attention_head_dim") ? 0 : config->PositiveInt("attention_head_dim", 8);
  unet.mid_attention = config->Bool("add_attention", true);
  unet.norm_groups = config->PositiveInt("norm_num_groups", 32);
  unet.norm_eps = config->Number("norm_eps", 1e-5);
  unet.dropout = config->Number("dropout", 0);
  unet.scale_shift = config->String("resnet_time_scale_shift", "default") == "scale_shift";
  if (!config->Absent("attn_norm_num_groups")) {
    unet.mid_norm_groups = config->PositiveInt("attn_norm_num_groups", 32);
  } else if (!unet.scale_shift) {
    unet.mid_norm_groups = unet.norm_groups;
  }
  unet.noise_level_embed = config->String("class_embed_type", "") == "timestep";
  if (!config->Absent("num_class_embeds")) {
    unet.num_class_embeds = config->PositiveInt("num_class_embeds", 1);
    if (unet.noise_level_embed) {
      config->AddProblem("num_class_embeds", "expected null, as class_embed_type is \"timestep\"");
    }
  }
  unet.time_cosine_first = config->Bool("flip_sin_to_cos", true);
  unet.time_frequency_shift = config->Number("freq_shift", 0);
  return unet;
}

}  // namespace

absl::StatusOr<PixelUNetConfig> ParsePixelUNetConfig(const std::string& json,
                                                     const std::string& source) {
  DPIPE_ASSIGN_OR_RETURN(ComponentConfig config, ComponentConfig::Parse(json, source));
  DPIPE_RETURN_IF_ERROR(config.CheckKind("_class_name", "UNet2DModel"));
  PixelUNetConfig unet = ReadFields(&config);
  CheckFixedKeys(&config);
  CheckDivisibility(unet, &config);
  DPIPE_RETURN_IF_ERROR(config.status());
  return unet;
}

absl::StatusOr<PixelUNetConfig> ReadPixelUNetConfig(const std::string& path) {
  DPIPE_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  return ParsePixelUNetConfig(text, path);
}

}  // namespace dpipe::models
