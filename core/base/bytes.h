// Human-readable sizes in bytes.
#ifndef DPIPE_CORE_BASE_BYTES_H_
#define DPIPE_CORE_BASE_BYTES_H_

#include <cstdint>
#include <string>

namespace dpipe {

inline constexpr int64_t kKiB = int64_t{1} << 10;
inline constexpr int64_t kMiB = int64_t{1} << 20;
inline constexpr int64_t kGiB = int64_t{1} << 30;

// Returns "512 B", "3.2 KiB" or "41.2 GiB".
std::string FormatBytes(int64_t size_bytes);

}  // namespace dpipe

#endif  // DPIPE_CORE_BASE_BYTES_H_
