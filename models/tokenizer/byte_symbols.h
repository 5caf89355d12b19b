// Bytes as printable characters, as in vocab.json and merges.txt.
//
// This is GPT-2's table: the printable bytes ! to ~, 0xA1 to 0xAC and 0xAE to 0xFF map to
// themselves (the code point of that number). The other 68 map in order to U+0100, U+0101, ... A
// vocabulary lists the printable ones first.
#ifndef DPIPE_MODELS_TOKENIZER_BYTE_SYMBOLS_H_
#define DPIPE_MODELS_TOKENIZER_BYTE_SYMBOLS_H_

#include <array>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace dpipe {

// Suffix of a symbol that ends a piece.
inline constexpr char kEndOfWord[] = "</w>";

// Returns the symbol (UTF-8) of each byte.
const std::array<std::string, 256>& ByteSymbols();

// Returns the bytes in the order in which a vocabulary lists their symbols.
const std::array<uint8_t, 256>& ByteSymbolOrder();

// Converts symbols back to bytes; characters that are not in the table are dropped.
std::string BytesOfSymbols(absl::string_view symbols);

}  // namespace dpipe

#endif  // DPIPE_MODELS_TOKENIZER_BYTE_SYMBOLS_H_
