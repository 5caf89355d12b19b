// The character map of a SentencePiece model: replaces sequences of characters by others, such as
// those of Unicode's compatibility forms ("nmt_nfkc").
//
// Format (`precompiled_charsmap`): the size of the trie in bytes, uint32; the trie, uint32 units;
// the replacements, each ended by a zero byte. All numbers are little endian. The trie is a double
// array: its keys are sequences of bytes, its values the offsets of replacements. Bits of a unit:
//
//   0..7 and 31   label: the byte that leads to this node; with bit 31 set, the unit is a value
//   8             the node has a value, at the node's offset
//   9             the offset is multiplied by 256
//   10..30        offset: exclusive-or of a node's index, from which a child's label leads on
#ifndef DPIPE_MODELS_TOKENIZER_CHARACTER_MAP_H_
#define DPIPE_MODELS_TOKENIZER_CHARACTER_MAP_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "core/base/status.h"

namespace dpipe {

class CharacterMap {
 public:
  CharacterMap() = default;  // replaces nothing
  // Returns InvalidArgument if the sizes do not fit or the replacements have no end. An empty text
  // replaces nothing.
  static absl::StatusOr<CharacterMap> Parse(absl::string_view bytes);

  struct Match {
    size_t length = 0;  // bytes of the longest key that begins the text; 0: none does
    absl::string_view replacement;
  };
  // The replacement lives as long as the map.
  Match LongestPrefix(absl::string_view text) const;

 private:
  std::vector<uint32_t> trie_;
  std::string replacements_;
};

}  // namespace dpipe

#endif  // DPIPE_MODELS_TOKENIZER_CHARACTER_MAP_H_
