#include "tools/sampling/prompts.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "core/base/text/plain_text.h"
#include "data/captions/caption_text.h"

namespace dpipe::tools {
namespace {

constexpr int64_t kMaxImages = 1'000'000;  // days of drawing

void AddParts(const std::string& text, char separator, std::vector<std::string>* parts) {
  for (const absl::string_view part : absl::StrSplit(text, separator)) {
    std::string prompt = CaptionText(part);
    if (!prompt.empty()) parts->push_back(std::move(prompt));
  }
}

}  // namespace

absl::StatusOr<std::vector<std::string>> CollectPrompts(const std::string& prompt,
                                                        const std::string& file, int count) {
  std::vector<std::string> prompts;
  AddParts(prompt, '|', &prompts);
  if (!file.empty()) {
    DPIPE_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(file, /*max_bytes=*/1 << 24));
    AddParts(text, '\n', &prompts);
  }
  if (prompts.empty()) {
    return absl::InvalidArgumentError(
        "no prompt; give --prompt=\"a large red circle\" or --prompts_file");
  }
  if (count < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("--count=", count, " images per prompt must be at least 1"));
  }
  const int64_t num_images = static_cast<int64_t>(prompts.size()) * count;
  if (num_images > kMaxImages) {
    return absl::InvalidArgumentError(
        absl::StrCat("--count=", count, " for each of ", prompts.size(),
                     " prompts exceeds the maximum of ", kMaxImages, " images"));
  }
  std::vector<std::string> repeated;
  for (const std::string& one : prompts) repeated.insert(repeated.end(), count, one);
  return repeated;
}

}  // namespace dpipe::tools
