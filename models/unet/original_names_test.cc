#include "models/unet/original_names.h"

#include <set>

#include "absl/strings/str_split.h"
#include "gtest/gtest.h"
#include "models/testdata/parameter_list.h"

namespace dpipe::models {
namespace {

std::string Original(const std::string& model, const std::string& name) {
  const auto config = ParseUNetConfig(ReadTestdata(model + ".json"), model);
  EXPECT_TRUE(config.ok()) << config.status();
  return OriginalUNetName(*config, name);
}

TEST(OriginalNamesTest, OfPublicCheckpoints) {
  const struct {
    const char *model, *name, *original;
  } cases[] = {
      {"unet_sdxl", "conv_in.weight", "input_blocks.0.0.weight"},
      {"unet_sdxl", "add_embedding.linear_2.bias", "label_emb.0.2.bias"},
      {"unet_sdxl", "down_blocks.1.attentions.0.transformer_blocks.1.attn1.to_q",
       "input_blocks.4.1.transformer_blocks.1.attn1.to_q"},
      {"unet_sdxl", "down_blocks.2.resnets.1.conv2.weight", "input_blocks.8.0.out_layers.3.weight"},
      {"unet_sdxl", "down_blocks.1.downsamplers.0.conv.bias", "input_blocks.6.0.op.bias"},
      {"unet_sdxl", "mid_block.attentions.0.proj_in.weight", "middle_block.1.proj_in.weight"},
      {"unet_sdxl", "mid_block.resnets.1.time_emb_proj.weight",
       "middle_block.2.emb_layers.1.weight"},
      {"unet_sdxl", "up_blocks.0.attentions.2.proj_out", "output_blocks.2.1.proj_out"},
      {"unet_sdxl", "up_blocks.0.upsamplers.0.conv.weight", "output_blocks.2.2.conv.weight"},
      {"unet_sdxl", "up_blocks.2.resnets.2.conv_shortcut.weight",
       "output_blocks.8.0.skip_connection.weight"},
      {"unet_v15", "down_blocks.0.downsamplers.0.conv.weight", "input_blocks.3.0.op.weight"},
      {"unet_v15", "up_blocks.0.upsamplers.0.conv.weight", "output_blocks.2.1.conv.weight"},
      {"unet_v15", "up_blocks.3.attentions.2.norm.weight", "output_blocks.11.1.norm.weight"},
      {"unet_v15", "conv_norm_out.bias", "out.0.bias"},
  };
  for (const auto& c : cases) EXPECT_EQ(Original(c.model, c.name), c.original) << c.name;
}

TEST(OriginalNamesTest, AreUnique) {
  for (const char* model : {"unet_sdxl", "unet_v15", "unet_mixed"}) {
    std::set<std::string> originals;
    const auto lines = ExpectedParameters(std::string(model) + ".parameters");
    const auto config = ParseUNetConfig(ReadTestdata(std::string(model) + ".json"), model);
    for (const std::string& line : lines) {
      const std::string name = std::string(*absl::StrSplit(line, ' ').begin());
      const std::string original = OriginalUNetName(*config, name);
      EXPECT_NE(original, name);
      EXPECT_TRUE(originals.insert(original).second) << name << " " << original;
    }
  }
}

}  // namespace
}  // namespace dpipe::models
