#include "core/report/text_width.h"

#include <cstdint>

namespace dpipe::report {
namespace {

struct CodeRange {
  uint32_t first;
  uint32_t last;
};

// Zero width: controls, combining marks, zero-width spaces and joiners, variation selectors.
constexpr CodeRange kZeroWidth[] = {
    {0x00, 0x1f},     {0x7f, 0x9f},     {0x300, 0x36f},   {0x1ab0, 0x1aff}, {0x1dc0, 0x1dff},
    {0x200b, 0x200f}, {0x20d0, 0x20ff}, {0xfe00, 0xfe0f}, {0xfe20, 0xfe2f}, {0xfeff, 0xfeff}};
// Two cells: Unicode's East Asian Width classes W and F, in coarse blocks.
constexpr CodeRange kDoubleWidth[] = {{0x1100, 0x115f},   {0x2e80, 0x303e},   {0x3041, 0xa4cf},
                                      {0xac00, 0xd7a3},   {0xf900, 0xfaff},   {0xfe30, 0xfe6f},
                                      {0xff00, 0xff60},   {0xffe0, 0xffe6},   {0x1f300, 0x1f64f},
                                      {0x1f680, 0x1f6ff}, {0x1f900, 0x1faff}, {0x20000, 0x3fffd}};

template <size_t N>
bool Contains(const CodeRange (&ranges)[N], uint32_t code) {
  for (const CodeRange& range : ranges) {
    if (code >= range.first && code <= range.last) return true;
  }
  return false;
}

int CodePointWidth(uint32_t code) {
  if (Contains(kZeroWidth, code)) return 0;
  return Contains(kDoubleWidth, code) ? 2 : 1;
}

struct Character {
  size_t num_bytes;
  int width;
};

// Returns the first character of `text`; an invalid byte is a character one cell wide.
Character FirstCharacter(absl::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  if (lead < 0x80) return {1, CodePointWidth(lead)};
  const size_t length = lead >= 0xf0 && lead < 0xf8   ? 4
                        : lead >= 0xe0 && lead < 0xf0 ? 3
                        : lead >= 0xc2 && lead < 0xe0 ? 2
                                                      : 0;
  if (length == 0 || length > text.size()) return {1, 1};
  uint32_t code = lead & (0xffu >> (length + 1));
  for (size_t i = 1; i < length; ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if ((byte & 0xc0) != 0x80) return {1, 1};
    code = code << 6 | (byte & 0x3f);
  }
  return {length, CodePointWidth(code)};
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
