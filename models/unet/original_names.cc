#include "models/unet/original_names.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace dpipe::models {
namespace {

using Names = std::vector<std::pair<const char*, const char*>>;

const Names& WholeNames() {
  static const auto* const kNames = new Names{
      {"conv_in", "input_blocks.0.0"},
      {"time_embedding.linear_1", "time_embed.0"},
      {"time_embedding.linear_2", "time_embed.2"},
      {"add_embedding.linear_1", "label_emb.0.0"},
      {"add_embedding.linear_2", "label_emb.0.2"},
      {"mid_block.resnets.0", "middle_block.0"},
      {"mid_block.attentions.0", "middle_block.1"},
      {"mid_block.resnets.1", "middle_block.2"},
      {"conv_norm_out", "out.0"},
      {"conv_out", "out.2"},
  };
  return *kNames;
}

const Names& ResnetNames() {
  static const auto* const kNames = new Names{
      {"norm1", "in_layers.0"},          {"conv1", "in_layers.2"},
      {"norm2", "out_layers.0"},         {"conv2", "out_layers.3"},
      {"time_emb_proj", "emb_layers.1"}, {"conv_shortcut", "skip_connection"},
  };
  return *kNames;
}

// Replaces the name's beginning, up to a dot or the end, if it is one of `names`.
std::string WithOriginalBeginning(const Names& names, absl::string_view name) {
  for (const auto& [ours, theirs] : names) {
    if (!absl::StartsWith(name, ours)) continue;
    const absl::string_view rest = name.substr(absl::string_view(ours).size());
    if (rest.empty() || rest[0] == '.') return absl::StrCat(theirs, rest);
  }
  return std::string(name);
}

// Returns the name of a module of a down or up block: `kind` is "resnets", "attentions" or a
// sampler. The original counts all blocks of all levels in a row. A sampler ends its level: on the
// way down as a block of its own, on the way up as the last module of the last block.
std::string OriginalBlock(const UNetConfig& config, bool is_down, int64_t level,
                          absl::string_view kind, int64_t index) {
  const int64_t layers = config.layers_per_block;
  const int64_t begin = level * (layers + 1);
  if (kind == "downsamplers") return absl::StrCat("input_blocks.", begin + layers + 1, ".0.op");
  if (kind == "upsamplers") {
    // Up blocks count from the lowest level.
    const bool has_attention = config.up_has_attention[config.num_levels() - 1 - level];
    return absl::StrCat("output_blocks.", begin + layers, ".", has_attention ? 2 : 1, ".conv");
  }
  const int module = kind == "resnets" ? 0 : 1;
  return is_down ? absl::StrCat("input_blocks.", 1 + begin + index, ".", module)
                 : absl::StrCat("output_blocks.", begin + index, ".", module);
}

}  // namespace

std::string OriginalUNetName(const UNetConfig& config, absl::string_view name) {
  const std::vector<absl::string_view> parts = absl::StrSplit(name, '.');
  const bool is_down = parts[0] == "down_blocks";
  std::string block, rest;
  absl::string_view kind;
  if ((is_down || parts[0] == "up_blocks") && parts.size() >= 4) {
    int64_t level = 0, index = 0;
    if (!absl::SimpleAtoi(parts[1], &level) || !absl::SimpleAtoi(parts[3], &index) || level < 0 ||
        level >= config.num_levels()) {
      return std::string(name);
    }
    kind = parts[2];
    block = OriginalBlock(config, is_down, level, kind, index);
    // A sampler's "conv" is part of its original name.
    const bool is_sampler = kind == "downsamplers" || kind == "upsamplers";
    rest = absl::StrJoin(parts.begin() + (is_sampler ? 5 : 4), parts.end(), ".");
  } else if (parts[0] == "mid_block" && parts.size() >= 3) {
    kind = parts[1];
    block = WithOriginalBeginning(WholeNames(), absl::StrCat("mid_block.", kind, ".", parts[2]));
    rest = absl::StrJoin(parts.begin() + 3, parts.end(), ".");
  } else {
    return WithOriginalBeginning(WholeNames(), name);
  }
  if (rest.empty()) return block;
  if (kind == "resnets") rest = WithOriginalBeginning(ResnetNames(), rest);
  return absl::StrCat(block, ".", rest);
}

}  // namespace dpipe::models
