// CRC-32C (Castagnoli), RFC 3720, appendix B.4. Detects every error burst of up to 32 bits and all
// but one in 2^32 other errors. No protection against forgery.
#ifndef DPIPE_CORE_BASE_FILES_CRC32C_H_
#define DPIPE_CORE_BASE_FILES_CRC32C_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace dpipe {

// Returns the checksum of a byte sequence with checksum `crc` followed by `bytes`. The checksum of
// the empty sequence is 0.
uint32_t ExtendCrc32c(uint32_t crc, absl::string_view bytes);

inline uint32_t Crc32c(absl::string_view bytes) { return ExtendCrc32c(0, bytes); }

namespace internal {
// Computes the same without the processor's CRC instruction.
uint32_t ExtendCrc32cPortably(uint32_t crc, absl::string_view bytes);
}  // namespace internal

}  // namespace dpipe

#endif  // DPIPE_CORE_BASE_FILES_CRC32C_H_
