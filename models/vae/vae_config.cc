#include "models/vae/vae_config.h"

#include "absl/strings/str_cat.h"
#include "core/base/files/file.h"
#include "models/config/component_config.h"

namespace dpipe::models {
namespace {

void CheckBlockTypes(ComponentConfig* config, const std::string& key, const std::string& known,
                     size_t count) {
  const auto types = config->Strings(key, {known});
  for (const std::string& type : types) {
    if (type != known) {
      config->AddProblem(key, absl::StrCat("unknown block type '", type, "', known: ", known));
    }
  }
  if (types.size() != count) {
    config->AddProblem(
        key, absl::StrCat("expected ", count, ", one for each entry of 'block_out_channels'"));
  }
}

}  // namespace

absl::StatusOr<VaeConfig> ParseVaeConfig(const std::string& json, const std::string& source) {
  DPIPE_ASSIGN_OR_RETURN(ComponentConfig config, ComponentConfig::Parse(json, source));
  DPIPE_RETURN_IF_ERROR(config.CheckKind("_class_name", "AutoencoderKL"));
  config.Expect("act_fn", {"\"silu\"", "\"swish\""});
  config.Expect("latents_mean", {"null"});
  config.Expect("latents_std", {"null"});
  config.Expect("mid_block_add_attention", {"true"});
  VaeConfig vae;
  vae.in_channels = config.PositiveInt("in_channels", 3);
  vae.out_channels = config.PositiveInt("out_channels", 3);
  vae.latent_channels = config.PositiveInt("latent_channels", 4);
  vae.sample_size = config.EqualPositiveInts("sample_size", 32);
  vae.block_out_channels = config.PositiveInts("block_out_channels", {64});
  vae.layers_per_block = config.PositiveInt("layers_per_block", 1);
  vae.norm_groups = config.PositiveInt("norm_num_groups", 32);
  vae.scaling_factor = config.Number("scaling_factor", 0.18215);
  vae.shift_factor = config.Number("shift_factor", 0);
  vae.use_quant_conv = config.Bool("use_quant_conv", true);
  vae.use_post_quant_conv = config.Bool("use_post_quant_conv", true);
  const size_t levels = vae.block_out_channels.size();
  CheckBlockTypes(&config, "down_block_types", "DownEncoderBlock2D", levels);
  CheckBlockTypes(&config, "up_block_types", "UpDecoderBlock2D", levels);
  for (int64_t channels : vae.block_out_channels) {
    if (channels % vae.norm_groups != 0) {
      config.AddProblem("block_out_channels", absl::StrCat(channels, " is not a multiple of the ",
                                                           vae.norm_groups, " norm groups"));
    }
  }
  if (!(vae.scaling_factor > 0)) config.AddProblem("scaling_factor", "expected a positive number");
  DPIPE_RETURN_IF_ERROR(config.status());
  return vae;
}

absl::StatusOr<VaeConfig> ReadVaeConfig(const std::string& path) {
  DPIPE_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  return ParseVaeConfig(text, path);
}

}  // namespace dpipe::models
