#include "core/report/text_width.h"

#include <cstdint>

#include "utf8proc.h"

namespace dpipe::report {
namespace {

struct Character {
  size_t num_bytes;
  int width;
};

// Returns the first character of `text`; an invalid byte is a character of its own, one cell wide.
Character FirstCharacter(absl::string_view text) {
  utf8proc_int32_t code = 0;
  const utf8proc_ssize_t length = utf8proc_iterate(reinterpret_cast<const uint8_t*>(text.data()),
                                                   static_cast<ptrdiff_t>(text.size()), &code);
  if (length <= 0) return {1, 1};
  return {static_cast<size_t>(length), utf8proc_charwidth(code)};
}

}  // namespace

int DisplayWidth(absl::string_view text) {
  int width = 0;
  while (!text.empty()) {
    const Character character = FirstCharacter(text);
    width += character.width;
    text.remove_prefix(character.num_bytes);
  }
  return width;
}

std::string TruncateToWidth(absl::string_view text, int max_width) {
  if (DisplayWidth(text) <= max_width) return std::string(text);
  if (max_width <= 0) return "";
  std::string prefix;
  int width = 0;
  while (!text.empty()) {
    const Character character = FirstCharacter(text);
    if (width + character.width > max_width - 1) break;
    width += character.width;
    prefix.append(text.data(), character.num_bytes);
    text.remove_prefix(character.num_bytes);
  }
  return prefix + "…";
}

}  // namespace dpipe::report
