// Bytes as printable characters: how vocab.json and merges.txt write them.
//
// GPT-2's table: the printable bytes ! to ~, 0xA1 to 0xAC and 0xAE to 0xFF stand for themselves (as
// the code point of that number); the other 68, in order, are U+0100, U+0101, ... A vocabulary
// lists them in that order: printable ones first.
#ifndef DPIPE_MODELS_TOKENIZER_BYTE_SYMBOLS_H_
#define DPIPE_MODELS_TOKENIZER_BYTE_SYMBOLS_H_

#include <array>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace dpipe {

// What a symbol that ends a piece has at its end.
inline constexpr char kEndOfWord[] = "</w>";

// The symbol (UTF-8) of each byte.
const std::array<std::string, 256>& ByteSymbols();

// The bytes in the order in which a vocabulary lists their symbols.
const std::array<uint8_t, 256>& ByteSymbolOrder();

// Symbols back to the bytes they stand for; characters that stand for none are left out.
std::string BytesOfSymbols(absl::string_view symbols);

}  // namespace dpipe

#endif  // DPIPE_MODELS_TOKENIZER_BYTE_SYMBOLS_H_
