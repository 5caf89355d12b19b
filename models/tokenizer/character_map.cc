#include "models/tokenizer/character_map.h"

#include "absl/strings/str_cat.h"

namespace dpipe {
namespace {

uint32_t LittleEndian(absl::string_view bytes) {
  uint32_t value = 0;
  for (int i = 3; i >= 0; --i) value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}

constexpr uint32_t kIsValue = uint32_t{1} << 31;

uint32_t Label(uint32_t unit) { return unit & (kIsValue | 0xff); }
bool HasValue(uint32_t unit) { return (unit >> 8) & 1; }
uint32_t Value(uint32_t unit) { return unit & ~kIsValue; }
uint32_t Offset(uint32_t unit) {
  const uint32_t offset = unit >> 10 & 0x1fffff;
  return (unit >> 9 & 1) ? offset << 8 : offset;
}

}  // namespace

absl::StatusOr<CharacterMap> CharacterMap::Parse(absl::string_view bytes) {
  CharacterMap map;
  if (bytes.empty()) return map;
  if (bytes.size() < 4) return absl::InvalidArgumentError("character map: no size");
  const uint32_t size = LittleEndian(bytes);
  bytes.remove_prefix(4);
  if (size > bytes.size() || size % 4 != 0 || size == 0) {
    return absl::InvalidArgumentError(absl::StrCat("character map: its trie has ", size,
                                                   " of the other ", bytes.size(),
                                                   " bytes; expected a multiple of 4 up to that"));
  }
  map.trie_.reserve(size / 4);
  for (uint32_t i = 0; i < size; i += 4) map.trie_.push_back(LittleEndian(bytes.substr(i)));
  map.replacements_ = std::string(bytes.substr(size));
  if (map.replacements_.empty() || map.replacements_.back() != '\0') {
    return absl::InvalidArgumentError("character map: its last replacement has no end");
  }
  return map;
}

// Indices and offsets of a broken file may point anywhere; such a path ends.
CharacterMap::Match CharacterMap::LongestPrefix(absl::string_view text) const {
  Match match;
  if (trie_.empty()) return match;
  uint32_t node = Offset(trie_[0]);
  for (size_t i = 0; i < text.size(); ++i) {
    const uint32_t byte = static_cast<unsigned char>(text[i]);
    node ^= byte;
    if (node >= trie_.size()) break;
    const uint32_t unit = trie_[node];
    if (Label(unit) != byte) break;
    node ^= Offset(unit);
    if (node >= trie_.size()) break;
    if (!HasValue(unit)) continue;
    const uint32_t value = Value(trie_[node]);
    if (value >= replacements_.size()) break;
    match = {i + 1, absl::string_view(replacements_.c_str() + value)};
  }
  return match;
}

}  // namespace dpipe
