#include "models/tokenizer/byte_symbols.h"

#include "core/base/text/encoding.h"
#include "models/tokenizer/unicode.h"

namespace dpipe {
namespace {

bool StandsForItself(int byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

// Returns the code point of each byte's symbol.
const std::array<char32_t, 256>& ByteCodes() {
  static const auto& codes = *[] {
    auto* table = new std::array<char32_t, 256>;
    char32_t next = 256;
    for (int byte = 0; byte < 256; ++byte) (*table)[byte] = StandsForItself(byte) ? byte : next++;
    return table;
  }();
  return codes;
}

}  // namespace

const std::array<std::string, 256>& ByteSymbols() {
  static const auto& symbols = *[] {
    auto* table = new std::array<std::string, 256>;
    for (int byte = 0; byte < 256; ++byte) {
      AppendUtf8(ByteCodes()[byte], &(*table)[byte]);
    }
    return table;
  }();
  return symbols;
}

const std::array<uint8_t, 256>& ByteSymbolOrder() {
  static const auto& order = *[] {
    auto* table = new std::array<uint8_t, 256>;
    int next = 0;
    for (const bool printable : {true, false}) {
      for (int byte = 0; byte < 256; ++byte) {
        if (StandsForItself(byte) == printable) (*table)[next++] = static_cast<uint8_t>(byte);
      }
    }
    return table;
  }();
  return order;
}

std::string BytesOfSymbols(absl::string_view symbols) {
  static const auto& byte_of_code = *[] {
    auto* table = new std::array<int, 512>;
    table->fill(-1);
    for (int byte = 0; byte < 256; ++byte) (*table)[ByteCodes()[byte]] = byte;
    return table;
  }();
  std::string bytes;
  for (const char32_t code : unicode::FromUtf8(symbols)) {
    if (code < byte_of_code.size() && byte_of_code[code] >= 0) {
      bytes += static_cast<char>(byte_of_code[code]);
    }
  }
  return bytes;
}

}  // namespace dpipe
