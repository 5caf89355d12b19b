#include "models/unet/unet_config.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/files/file.h"
#include "models/config/component_config.h"

namespace dpipe::models {
namespace {

// Returns for each block if it has cross-attention. Other block types are problems.
std::vector<bool> BlockTypes(ComponentConfig* config, const std::string& key,
                             const std::string& plain, const std::string& attention,
                             std::vector<std::string> default_types) {
  std::vector<bool> has_attention;
  for (const std::string& type : config->Strings(key, std::move(default_types))) {
    if (type != plain && type != attention) {
      config->AddProblem(
          key, absl::StrCat("unknown block type '", type, "', known: ", plain, ", ", attention));
    }
    has_attention.push_back(type == attention);
  }
  return has_attention;
}

// Checks keys whose other values change the model in unsupported ways.
void CheckFixedKeys(ComponentConfig* config) {
  const std::vector<std::pair<std::string, std::vector<std::string>>> supported = {
      {"act_fn", {"\"silu\"", "\"swish\""}},
      {"attention_type", {"\"default\""}},
      {"class_embed_type", {"null"}},
      {"class_embeddings_concat", {"false"}},
      {"conv_in_kernel", {"3"}},
      {"cross_attention_norm", {"null"}},
      {"downsample_padding", {"1"}},
      {"dual_cross_attention", {"false"}},
      {"encoder_hid_dim", {"null"}},
      {"encoder_hid_dim_type", {"null"}},
      {"mid_block_only_cross_attention", {"null", "false"}},
      {"mid_block_scale_factor", {"1"}},
      {"mid_block_type", {"\"UNetMidBlock2DCrossAttn\""}},
      {"num_class_embeds", {"null"}},
      {"resnet_out_scale_factor", {"1", "1.0"}},
      {"resnet_skip_time_act", {"false"}},
      {"resnet_time_scale_shift", {"\"default\""}},
      {"reverse_transformer_layers_per_block", {"null"}},
      {"time_cond_proj_dim", {"null"}},
      {"time_embedding_act_fn", {"null"}},
      {"time_embedding_dim", {"null"}},
      {"time_embedding_type", {"\"positional\""}},
      {"timestep_post_act", {"null"}},
  };
  for (const auto& [key, values] : supported) config->Expect(key, values);
  config->ExpectEach("only_cross_attention", {"false"});  // or one entry per block
}

void CheckDivisibility(const UNetConfig& unet, ComponentConfig* config) {
  for (int level = 0; level < unet.num_levels(); ++level) {
    const int64_t channels = unet.block_out_channels[level];
    if (channels % unet.norm_groups != 0) {
      config->AddProblem("block_out_channels", absl::StrCat(channels, " is not a multiple of the ",
                                                            unet.norm_groups, " norm groups"));
    }
    if (channels % unet.num_heads[level] != 0) {
      config->AddProblem("block_out_channels", absl::StrCat(channels, " is not a multiple of the ",
                                                            unet.num_heads[level], " heads"));
    }
  }
}

void CheckNumBlocks(const std::string& key, size_t num_blocks, size_t levels,
                    ComponentConfig* config) {
  if (num_blocks == levels) return;
  config->AddProblem(
      key, absl::StrCat("expected ", levels, ", one for each entry of 'block_out_channels'"));
}

// Returns the input channels of a U-Net with these output channels.
int64_t WithFurtherInput(int64_t out_channels, FurtherInput input) {
  switch (input) {
    case FurtherInput::kNone:
      return out_channels;
    case FurtherInput::kEstimate:
      return 2 * out_channels;
    case FurtherInput::kCoordinates:
      return out_channels + 2;
  }
  return out_channels;
}

void ReadFurtherInput(ComponentConfig* config, UNetConfig* unet) {
  const std::string name = config->String(kFurtherInputKey, "");
  for (FurtherInput input : {FurtherInput::kEstimate, FurtherInput::kCoordinates}) {
    if (name != FurtherInputName(input)) continue;
    unet->further_input = input;
    const int64_t channels = WithFurtherInput(unet->out_channels, input);
    if (unet->in_channels == channels) return;
    config->AddProblem("in_channels", absl::StrCat("expected ", channels, ", because '",
                                                   kFurtherInputKey, "' is '", name, "'"));
  }
  if (name.empty() || unet->further_input != FurtherInput::kNone) return;
  config->AddProblem(kFurtherInputKey, "expected 'estimate' or 'coordinates'");
}

// Reads the keys of the embedding "text_time".
void ReadAddedEmbedding(ComponentConfig* config, UNetConfig* unet) {
  config->Expect("addition_embed_type", {"null", "\"text_time\""});
  if (config->String("addition_embed_type", "") != "text_time") return;
  unet->time_id_width = config->PositiveInt("addition_time_embed_dim", 256);
  const int64_t sinusoids = kNumTimeIds * unet->time_id_width;
  unet->pooled_width =
      config->PositiveInt("projection_class_embeddings_input_dim", 2816) - sinusoids;
  if (unet->pooled_width > 0) return;
  config->AddProblem("projection_class_embeddings_input_dim",
                     absl::StrCat("expected more than ", sinusoids, ", the sinusoids of ",
                                  kNumTimeIds, " numbers; the rest is pooled text"));
}

void ReadDecoderKeys(ComponentConfig* config, UNetConfig* unet) {
  unet->out_channels = config->PositiveInt("out_channels", 4);
  unet->sample_size = config->EqualPositiveInts("sample_size", 64);
  unet->diffusers_version = config->String("_diffusers_version", "");
  unet->up_has_attention =
      BlockTypes(config, "up_block_types", "UpBlock2D", "CrossAttnUpBlock2D",
                 {"UpBlock2D", "CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "CrossAttnUpBlock2D"});
  std::reverse(unet->up_has_attention.begin(), unet->up_has_attention.end());
  CheckNumBlocks("up_block_types", unet->up_has_attention.size(), unet->block_out_channels.size(),
                 config);
  for (const auto& [key, values] : std::vector<std::pair<std::string, std::vector<std::string>>>{
           {"center_input_sample", {"false"}}, {"conv_out_kernel", {"3"}}}) {
    config->Expect(key, values);
  }
}

}  // namespace

std::string FurtherInputName(FurtherInput input) {
  switch (input) {
    case FurtherInput::kNone:
      return "";
    case FurtherInput::kEstimate:
      return "estimate";
    case FurtherInput::kCoordinates:
      return "coordinates";
  }
  return "";
}

FurtherInput GuessFurtherInput(const UNetConfig& config) {
  for (FurtherInput input : {FurtherInput::kEstimate, FurtherInput::kCoordinates}) {
    if (config.in_channels == WithFurtherInput(config.out_channels, input)) return input;
  }
  return FurtherInput::kNone;
}

UNetConfig ReadUNetEncoderKeys(ComponentConfig* config) {
  UNetConfig unet;
  unet.in_channels = config->PositiveInt("in_channels", 4);
  unet.block_out_channels = config->PositiveInts("block_out_channels", {320, 640, 1280, 1280});
  const size_t levels = unet.block_out_channels.size();
  unet.down_has_attention = BlockTypes(
      config, "down_block_types", "DownBlock2D", "CrossAttnDownBlock2D",
      {"CrossAttnDownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D", "DownBlock2D"});
  CheckNumBlocks("down_block_types", unet.down_has_attention.size(), levels, config);
  unet.layers_per_block = config->EqualPositiveInts("layers_per_block", 2);
  // "attention_head_dim" is the number of heads, despite its name; diffusers keeps it so for
  // existing checkpoints. diffusers' ControlNet prefers the newer key if it is present, its U-Net
  // rejects it.
  const bool newer = !config->Absent("num_attention_heads");
  unet.num_heads =
      config->PerBlock(newer ? "num_attention_heads" : "attention_head_dim", 8, levels);
  unet.transformer_layers = config->PerBlock("transformer_layers_per_block", 1, levels);
  unet.cross_attention_dim = config->EqualPositiveInts("cross_attention_dim", 1280);
  unet.linear_projection = config->Bool("use_linear_projection", false);
  unet.norm_groups = config->PositiveInt("norm_num_groups", 32);
  unet.norm_eps = config->Number("norm_eps", 1e-5);
  unet.dropout = config->Number("dropout", 0);
  unet.time_cosine_first = config->Bool("flip_sin_to_cos", true);
  unet.time_frequency_shift = config->Number("freq_shift", 0);
  CheckFixedKeys(config);
  CheckDivisibility(unet, config);
  return unet;
}

absl::StatusOr<UNetConfig> ParseUNetConfig(const std::string& json, const std::string& source) {
  DPIPE_ASSIGN_OR_RETURN(ComponentConfig config, ComponentConfig::Parse(json, source));
  DPIPE_RETURN_IF_ERROR(config.CheckKind("_class_name", "UNet2DConditionModel"));
  config.Expect("num_attention_heads", {"null"});
  UNetConfig unet = ReadUNetEncoderKeys(&config);
  ReadDecoderKeys(&config, &unet);
  ReadAddedEmbedding(&config, &unet);
  ReadFurtherInput(&config, &unet);
  DPIPE_RETURN_IF_ERROR(config.status());
  return unet;
}

absl::StatusOr<UNetConfig> ReadUNetConfig(const std::string& path) {
  DPIPE_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  return ParseUNetConfig(text, path);
}

}  // namespace dpipe::models
