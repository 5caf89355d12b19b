#include "core/base/files/crc32c.h"

#include <array>
#include <cstddef>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace dpipe {
namespace {

constexpr uint32_t kReversedPolynomial = 0x82f63b78;

// kTables[k][b] is the remainder of byte b followed by k zero bytes.
constexpr std::array<std::array<uint32_t, 256>, 8> MakeTables() {
  std::array<std::array<uint32_t, 256>, 8> tables{};
  for (uint32_t b = 0; b < 256; ++b) {
    uint32_t crc = b;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? kReversedPolynomial : 0);
    tables[0][b] = crc;
  }
  for (int k = 1; k < 8; ++k) {
    for (uint32_t b = 0; b < 256; ++b) {
      const uint32_t before = tables[k - 1][b];
      tables[k][b] = before >> 8 ^ tables[0][before & 255];
    }
  }
  return tables;
}
constexpr auto kTables = MakeTables();

uint32_t AddByte(uint32_t crc, char byte) {
  return crc >> 8 ^ kTables[0][(crc ^ static_cast<unsigned char>(byte)) & 255];
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) uint32_t ExtendByInstruction(uint32_t crc,
                                                               absl::string_view bytes) {
  const char* at = bytes.data();
  size_t left = bytes.size();
  uint64_t state = static_cast<uint32_t>(~crc);
  for (; left >= 8; at += 8, left -= 8) {
    uint64_t word;
    std::memcpy(&word, at, 8);
    state = _mm_crc32_u64(state, word);
  }
  uint32_t rest = static_cast<uint32_t>(state);
  for (; left > 0; ++at, --left) rest = _mm_crc32_u8(rest, static_cast<unsigned char>(*at));
  return ~rest;
}
#endif

}  // namespace

namespace internal {

// Processes eight bytes at a time (Kounavis and Berry, "A systematic approach to building high
// performance software-based CRC generators", ISCC 2005).
uint32_t ExtendCrc32cPortably(uint32_t crc, absl::string_view bytes) {
  crc = ~crc;
  const char* at = bytes.data();
  size_t left = bytes.size();
  for (; left >= 8; at += 8, left -= 8) {
    uint32_t sum = 0;
    for (int k = 0; k < 8; ++k) {
      const uint32_t own = k < 4 ? crc >> (8 * k) & 255 : 0;
      sum ^= kTables[7 - k][own ^ static_cast<unsigned char>(at[k])];
    }
    crc = sum;
  }
  for (; left > 0; ++at, --left) crc = AddByte(crc, *at);
  return ~crc;
}

}  // namespace internal

uint32_t ExtendCrc32c(uint32_t crc, absl::string_view bytes) {
#if defined(__x86_64__)
  static const bool has_instruction = __builtin_cpu_supports("sse4.2");
  if (has_instruction) return ExtendByInstruction(crc, bytes);
#endif
  return internal::ExtendCrc32cPortably(crc, bytes);
}

}  // namespace dpipe
