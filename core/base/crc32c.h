// CRC-32C (Castagnoli), which finds any damage of up to 32 bits in a row and, of other damage, all
// but one in 2^32. Not against forgery. RFC 3720, appendix B.4.
#ifndef DPIPE_CORE_BASE_CRC32C_H_
#define DPIPE_CORE_BASE_CRC32C_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace dpipe {

// The checksum of some bytes whose checksum is `crc`, followed by `bytes`; that of no bytes is 0.
uint32_t ExtendCrc32c(uint32_t crc, absl::string_view bytes);

inline uint32_t Crc32c(absl::string_view bytes) { return ExtendCrc32c(0, bytes); }

namespace internal {
// Without the processor's instruction for it.
uint32_t ExtendCrc32cPortably(uint32_t crc, absl::string_view bytes);
}  // namespace internal

}  // namespace dpipe

#endif  // DPIPE_CORE_BASE_CRC32C_H_
